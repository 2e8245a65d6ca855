//! How calls to a provider are authenticated.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Secret, printable};

/// What authenticates the calls of an endpoint.
#[derive(Debug, Clone)]
pub enum Auth {
    /// The server requires no key.
    None,
    /// A static key.
    Key(Secret),
    /// Static AWS credentials, which sign each call.
    Aws(AwsKeys),
    /// Short-lived credentials, exchanged for the identity of a GitHub Actions job.
    GithubOidc(Box<Federation>),
}

impl Auth {
    /// The static secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let secrets = match self {
            Self::None => [None, None, None],
            Self::Key(key) => [Some(key), None, None],
            Self::Aws(keys) => {
                [Some(&keys.access_key_id), Some(&keys.secret_access_key), keys.session_token.as_ref()]
            }
            Self::GithubOidc(federation) => [Some(&federation.job.request_token), None, None],
        };
        secrets.into_iter().flatten()
    }
}

/// AWS credentials.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    pub access_key_id: Secret,
    pub secret_access_key: Secret,
    /// Only temporary credentials have one.
    pub session_token: Option<Secret>,
}

/// How the identity of a job becomes credentials of a vendor. Only `job` holds a secret.
#[derive(Debug, Clone)]
pub struct Federation {
    pub job: JobIdentity,
    /// Audience of the job's token.
    pub audience: String,
    /// Where the job's token is exchanged.
    pub token_url: String,
    pub exchange: Exchange,
}

/// What a vendor accepted of a job: claims that its rules are bound to, and how long the token lives. None of it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedIdentity {
    pub vendor: String,
    pub subject: String,
    pub audience: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_workflow_ref: Option<String>,
    pub lifetime_seconds: u64,
}

impl fmt::Display for AcceptedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            vendor,
            subject,
            audience,
            environment,
            repository_id,
            job_workflow_ref,
            lifetime_seconds,
        } = self;
        let [environment, repository_id, job_workflow_ref] =
            [environment, repository_id, job_workflow_ref].map(|claim| claim.as_deref().unwrap_or("none"));
        let [vendor, subject, audience, environment, repository_id, job_workflow_ref] =
            [vendor, subject, audience, environment, repository_id, job_workflow_ref].map(printable);
        write!(
            f,
            "{vendor} accepts the job: subject `{subject}`, audience `{audience}`, environment `{environment}`, \
             repository_id `{repository_id}`, job_workflow_ref `{job_workflow_ref}`; its token lives {lifetime_seconds} s"
        )
    }
}

/// Where a GitHub Actions job requests its identity tokens.
#[derive(Debug, Clone)]
pub struct JobIdentity {
    pub request_url: String,
    pub request_token: Secret,
}

impl JobIdentity {
    /// The environment variables that hold both. GitHub sets them in jobs with `id-token: write`.
    pub const VARIABLES: [&str; 2] = ["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"];
}

/// The vendor that exchanges the token, and the ids that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    OpenAi {
        identity_provider_id: String,
        service_account_id: String,
    },
    Anthropic {
        federation_rule_id: String,
        organization_id: String,
        service_account_id: String,
        workspace_id: Option<String>,
    },
    Azure {
        client_id: String,
        scope: String,
    },
    Aws {
        role_arn: String,
        session_name: String,
        duration_seconds: u64,
    },
    Gcp {
        /// `projects/N/locations/global/workloadIdentityPools/P/providers/X`.
        provider: String,
        /// Where a token of this service account is requested with the exchanged one.
        impersonation_url: Option<String>,
    },
}
