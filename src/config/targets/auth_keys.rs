//! The keys of `auth`: the ids that each vendor requires.

use super::keys::{Key, KeyGroup, URL, called, key};
use super::shape::Shape;
use crate::model::Api;

const AUDIENCE: Key = key("audience", Shape::Text, "The audience of the job's token; default: the vendor's.");
const TOKEN_URL: Key = key(
    "token_url",
    URL,
    "Where the job's token is exchanged; default: the vendor's. An address beyond this machine is legal only on the default branch of a runner repository.",
);
const SERVICE_ACCOUNT_ID: Key =
    key("service_account_id", Shape::Text, "The service account that the calls are made as.");
const OPENAI_OIDC: [Key; 4] = [
    key("identity_provider_id", Shape::Text, "The identity provider that you registered at OpenAI."),
    SERVICE_ACCOUNT_ID,
    AUDIENCE,
    TOKEN_URL,
];
const ANTHROPIC_OIDC: [Key; 6] = [
    key("federation_rule_id", Shape::Text, "The federation rule, `fdrl_…`."),
    key("organization_id", Shape::Text, "The organization, a UUID."),
    SERVICE_ACCOUNT_ID,
    key("workspace_id", Shape::Text, "The workspace, `wrkspc_…` or `default`."),
    AUDIENCE,
    TOKEN_URL,
];
const AZURE_OIDC: [Key; 5] = [
    key("tenant_id", Shape::Text, "The Entra tenant, a UUID or a domain."),
    key("client_id", Shape::Text, "The application or managed identity that trusts the job, a UUID."),
    key(
        "scope",
        Shape::Text,
        "The scope of the token; default `https://cognitiveservices.azure.com/.default`.",
    ),
    AUDIENCE,
    TOKEN_URL,
];
const BEDROCK_OIDC: [Key; 4] = [
    key(
        "role_arn",
        Shape::Form(r"^\s*arn:aws[a-z-]*:iam::[0-9]{12}:role/\S+\s*$", "The ARN of a role."),
        "The role that trusts the job.",
    ),
    key("session_duration", Shape::Duration(900_000), "How long credentials live, 15m to 12h; default 1h."),
    AUDIENCE,
    TOKEN_URL,
];
const VERTEX_OIDC: [Key; 5] = [
    key(
        "workload_identity_provider",
        Shape::Form(
            r"^\s*projects/[0-9]+/locations/global/workloadIdentityPools/[a-z0-9-]+/providers/[a-z0-9-]+\s*$",
            "A provider such as `projects/123456789/locations/global/workloadIdentityPools/github/providers/runner`.",
        ),
        "The provider that trusts the job, with the number of the project.",
    ),
    key(
        "service_account",
        Shape::Text,
        "The email of a service account to impersonate; its tokens live an hour.",
    ),
    key(
        "impersonation_url",
        URL,
        "Where that token is requested; default: Google's. Legal as `token_url` is.",
    ),
    AUDIENCE,
    TOKEN_URL,
];

/// The mapping `auth` of an API that has one, and the name of its `github_oidc` in the schema.
const fn auth_group(key: &'static [Key]) -> KeyGroup {
    KeyGroup { parts: [key, &[], &[], &[], &[]], needs: &[&["github_oidc"]], excluding: &[] }
}

const fn oidc_key(id: &'static str) -> [Key; 1] {
    [called(id, "github_oidc", Shape::Mapping(id), "Public ids that the vendor gave you; none is a secret.")]
}

const OPENAI_AUTH: [Key; 1] = oidc_key("github_oidc-openai");
const ANTHROPIC_AUTH: [Key; 1] = oidc_key("github_oidc-anthropic");
const AZURE_AUTH: [Key; 1] = oidc_key("github_oidc-azure");
const BEDROCK_AUTH: [Key; 1] = oidc_key("github_oidc-bedrock");
const VERTEX_AUTH: [Key; 1] = oidc_key("github_oidc-vertex");

/// The mappings `auth` and `auth.github_oidc` of an API.
pub(super) fn auth_of(api: Api) -> Option<(KeyGroup, KeyGroup)> {
    let (auth, oidc, needs): (&'static [Key], &'static [Key], &'static [&'static [&'static str]]) = match api
    {
        Api::OpenAi => (&OPENAI_AUTH, &OPENAI_OIDC, &[&["identity_provider_id"], &["service_account_id"]]),
        Api::Anthropic => (
            &ANTHROPIC_AUTH,
            &ANTHROPIC_OIDC,
            &[&["federation_rule_id"], &["organization_id"], &["service_account_id"]],
        ),
        Api::Azure => (&AZURE_AUTH, &AZURE_OIDC, &[&["tenant_id"], &["client_id"]]),
        Api::Bedrock => (&BEDROCK_AUTH, &BEDROCK_OIDC, &[&["role_arn"]]),
        Api::Vertex => (&VERTEX_AUTH, &VERTEX_OIDC, &[&["workload_identity_provider"]]),
        _ => return None,
    };
    Some((auth_group(auth), KeyGroup { parts: [oidc, &[], &[], &[], &[]], needs, excluding: &[] }))
}
