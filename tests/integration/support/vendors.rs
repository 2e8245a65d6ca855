//! The simulated vendors of `examples/mock_vendors`: an identity provider, token exchanges, and models.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::{Workspace, example};

/// The token that a job requests identity tokens with.
pub(crate) const REQUEST_TOKEN: &str = "ghs-request-token-0123456789abcdef";

/// Running vendors. They also end when their stdin closes, so that even a killed test leaves none behind.
pub(crate) struct MockVendors {
    child: Child,
    address: String,
}

impl MockVendors {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(example("mock_vendors"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mock_vendors starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        Self { child, address }
    }

    /// The variables of a job with `id-token: write`.
    pub(crate) fn job(&self) -> Workspace {
        Workspace::new()
            .env("GITHUB_ACTIONS", "true")
            .env("ACTIONS_ID_TOKEN_REQUEST_URL", &self.request_url())
            .env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", REQUEST_TOKEN)
    }

    pub(crate) fn request_url(&self) -> String {
        format!("http://{}/github/token?api-version=2.0", self.address)
    }

    /// The lines of a keyless target.
    pub(crate) fn target(&self, vendor: &str) -> String {
        let at = |path: &str| format!("http://{}{path}", self.address);
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
            self.address
        )
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters: serde_json::Value = serde_json::from_str(&self.get("/counters")).unwrap();
        counters[name].as_u64().unwrap_or_else(|| panic!("no counter `{name}` in {counters}"))
    }

    /// How often each message was answered.
    pub(crate) fn served(&self) -> BTreeMap<String, u64> {
        serde_json::from_str(&self.get("/served")).unwrap()
    }

    /// Every secret that was handed out.
    pub(crate) fn secrets(&self) -> Vec<String> {
        serde_json::from_str(&self.get("/secrets")).unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for MockVendors {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
