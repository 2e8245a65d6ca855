//! The simulated vendors of `examples/mock_vendors`: an identity provider, token exchanges, and models.

use std::collections::BTreeMap;

use super::Workspace;
use super::example::ExampleServer;

/// The token that a job requests identity tokens with.
pub(crate) const REQUEST_TOKEN: &str = "ghs-request-token-0123456789abcdef";

/// Running vendors.
pub(crate) struct MockVendors(ExampleServer);

impl MockVendors {
    pub(crate) fn start(options: &[&str]) -> Self {
        Self(ExampleServer::start("mock_vendors", options))
    }

    /// The variables of a job with `id-token: write`.
    pub(crate) fn job(&self) -> Workspace {
        Workspace::new()
            .env("GITHUB_ACTIONS", "true")
            .env("ACTIONS_ID_TOKEN_REQUEST_URL", &self.request_url())
            .env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", REQUEST_TOKEN)
    }

    pub(crate) fn request_url(&self) -> String {
        format!("http://{}/github/token?api-version=2.0", self.0.address)
    }

    /// The lines of a keyless target.
    pub(crate) fn target(&self, vendor: &str) -> String {
        let at = |path: &str| format!("http://{}{path}", self.0.address);
        let (lines, ids) = match vendor {
            "openai" => (
                format!("provider: openai\nmodel: m\nbase_url: {}", at("/openai/v1")),
                format!(
                    "identity_provider_id: idp_mock\nservice_account_id: sa_mock\ntoken_url: {}",
                    at("/openai/oauth/token")
                ),
            ),
            "anthropic" => (
                format!("provider: anthropic\nmodel: m\nbase_url: {}", at("/anthropic")),
                format!(
                    "federation_rule_id: fdrl_mock\norganization_id: 00000000-0000-0000-0000-000000000001\nservice_account_id: svac_mock\nworkspace_id: default\ntoken_url: {}",
                    at("/anthropic/v1/oauth/token")
                ),
            ),
            "azure" => (
                format!("provider: azure\nmodel: m\nbase_url: {}", at("/azure")),
                format!(
                    "tenant_id: tenant-mock\nclient_id: client-mock\ntoken_url: {}",
                    at("/azure/tenant-mock/oauth2/v2.0/token")
                ),
            ),
            "bedrock" => (
                self.bedrock(),
                format!("role_arn: arn:aws:iam::123456789012:role/run-evals\ntoken_url: {}", at("/aws/")),
            ),
            "vertex" | "vertex-claude" => {
                let model = if vendor == "vertex" { "gemini-mock" } else { "claude-mock@1" };
                let account = format!(
                    "service_account: evals@p.iam.gserviceaccount.com\nimpersonation_url: {}",
                    at("/gcp/impersonate")
                );
                let account = if vendor == "vertex" { String::new() } else { format!("\n{account}") };
                (
                    format!(
                        "provider: vertex\nmodel: {model}\nproject: p-mock\nregion: us-east5\nbase_url: {}",
                        at("/vertex")
                    ),
                    format!(
                        "workload_identity_provider: projects/123/locations/global/workloadIdentityPools/github/providers/runner\ntoken_url: {}{account}",
                        at("/gcp/v1/token")
                    ),
                )
            }
            other => panic!("no vendor `{other}`"),
        };
        let ids: String = ids.lines().map(|line| format!("\n    {line}")).collect();
        format!("{lines}\nauth:\n  github_oidc:{ids}")
    }

    /// Bedrock without credentials.
    pub(crate) fn bedrock(&self) -> String {
        let profile = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.mock";
        format!(
            "provider: bedrock\nmodel: {profile}\nregion: us-east-1\nbase_url: http://{}/bedrock",
            self.0.address
        )
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.0.counter(name)
    }

    /// How often each message was answered.
    pub(crate) fn served(&self) -> BTreeMap<String, u64> {
        self.0.served()
    }

    /// Every secret that was handed out.
    pub(crate) fn secrets(&self) -> Vec<String> {
        serde_json::from_str(&self.0.get("/secrets")).unwrap()
    }
}
