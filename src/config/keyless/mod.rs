//! The vendor side of keyless authentication, as text to copy: what to register, and which claims to bind.

/// The environment of the job in our workflows.
pub const ENVIRONMENT: &str = "run-evals";
/// The workflow of a keyless runner repository.
pub const WORKFLOW: &str = include_str!("../../../workflows/run-evals-keyless.yml");
/// Part of every `targets.yaml` value that the vendor has not issued yet.
pub const PLACEHOLDER: &str = "REPLACE_ME";
/// Repositories that are created, renamed or transferred from this day on have immutable subjects.
const IMMUTABLE_SINCE: jiff::civil::Date = jiff::civil::date(2026, 7, 15);
/// The longest `google.subject`, in bytes.
const LONGEST_GOOGLE_SUBJECT: usize = 127;

/// A vendor that accepts identity tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    OpenAi,
    Anthropic,
    Azure,
    Aws,
    Gcp,
}

impl Vendor {
    /// All of them, with their names on the command line.
    pub const ALL: [(&str, Self); 5] = [
        ("openai", Self::OpenAi),
        ("anthropic", Self::Anthropic),
        ("azure", Self::Azure),
        ("aws", Self::Aws),
        ("gcp", Self::Gcp),
    ];

    /// Finds a vendor by its name or its provider's name.
    pub fn find(name: &str) -> Option<Self> {
        let named = Self::ALL.iter().find(|(known, _)| *known == name);
        named.map(|(_, vendor)| *vendor).or_else(|| Self::of_provider(name))
    }

    /// The vendor of a provider in `targets.yaml`.
    pub fn of_provider(provider: &str) -> Option<Self> {
        Self::ALL.iter().map(|(_, vendor)| *vendor).find(|vendor| vendor.provider() == provider)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, vendor)| *vendor == self).map_or("", |(name, _)| name)
    }

    /// Its provider in `targets.yaml`.
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Azure => "azure",
            Self::Aws => "bedrock",
            Self::Gcp => "vertex",
        }
    }

    /// The keys of a target besides `auth`, with example values; a key without one is required.
    pub fn settings(self) -> &'static [(&'static str, Option<&'static str>)] {
        match self {
            Self::Aws => &[("region", Some("us-east-1"))],
            Self::Gcp => &[("project", None)],
            _ => &[],
        }
    }

    /// The required keys of `auth.github_oidc`, with placeholders for what the vendor issues.
    pub fn ids(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OpenAi => &[("identity_provider_id", PLACEHOLDER), ("service_account_id", PLACEHOLDER)],
            Self::Anthropic => &[
                ("federation_rule_id", PLACEHOLDER),
                ("organization_id", PLACEHOLDER),
                ("service_account_id", PLACEHOLDER),
                ("workspace_id", "default"),
            ],
            Self::Azure => &[("tenant_id", PLACEHOLDER), ("client_id", PLACEHOLDER)],
            Self::Aws => &[("role_arn", "arn:aws:iam::REPLACE_ME:role/run-evals")],
            Self::Gcp => &[(
                "workload_identity_provider",
                "projects/REPLACE_ME/locations/global/workloadIdentityPools/github/providers/runner",
            )],
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::OpenAi => include_str!("openai.md"),
            Self::Anthropic => include_str!("anthropic.md"),
            Self::Azure => include_str!("azure.md"),
            Self::Aws => include_str!("aws.md"),
            Self::Gcp => include_str!("gcp.md"),
        }
    }
}

/// The job that a vendor trusts.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// The issuer of the tokens; on github.com [`Job::ISSUER`].
    pub issuer: &'a str,
    /// `owner/name` of the runner repository, and the ids of both.
    pub repository: &'a str,
    pub owner_id: String,
    pub repository_id: String,
    /// Whether its subject contains ids.
    pub has_immutable_subject: bool,
    pub default_branch: &'a str,
}

impl Job<'_> {
    const ISSUER: &'static str = "https://token.actions.githubusercontent.com";

    /// Whether a repository created at this time has ids in its subject. Older ones get them after a rename or transfer.
    pub fn is_immutable(created_at: Option<jiff::Timestamp>) -> bool {
        let date = created_at.map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date());
        date.is_none_or(|date| date >= IMMUTABLE_SINCE)
    }

    /// The subject of the job's tokens.
    pub fn subject(&self) -> String {
        let (owner, name) = self.repository.split_once('/').unwrap_or((self.repository, ""));
        if self.has_immutable_subject {
            format!("repo:{owner}@{}/{name}@{}:environment:{ENVIRONMENT}", self.owner_id, self.repository_id)
        } else {
            format!("repo:{owner}/{name}:environment:{ENVIRONMENT}")
        }
    }

    /// The job's workflow, as its tokens name it.
    fn job_workflow_ref(&self) -> String {
        let Self { repository, default_branch, .. } = self;
        format!("{repository}/.github/workflows/run-evals.yml@refs/heads/{default_branch}")
    }
}

/// The conditions of AWS besides audience and subject. It has condition keys for claims of github.com alone: on another issuer they
/// would never match.
fn aws_claims(job: &Job<'_>, issuer_host: &str) -> String {
    if job.issuer != Job::ISSUER {
        return String::new();
    }
    let claims = [("repository_id", job.repository_id.clone()), ("job_workflow_ref", job.job_workflow_ref())];
    claims.iter().fold(String::new(), |text, (claim, value)| {
        text + &format!(",\n        \"{issuer_host}:{claim}\": \"{value}\"")
    })
}

/// How Google maps the subject, and the result. The attribute condition compares the whole subject in any case.
fn google_subject(job: &Job<'_>) -> (&'static str, String) {
    let subject = job.subject();
    if subject.len() > LONGEST_GOOGLE_SUBJECT {
        ("'repository_id:' + assertion.repository_id", format!("repository_id:{}", job.repository_id))
    } else {
        ("assertion.sub", subject)
    }
}

/// What to set up at a vendor, in markdown.
pub fn vendor_half(vendor: Vendor, job: &Job<'_>) -> String {
    let issuer_host = job.issuer.strip_prefix("https://").unwrap_or(job.issuer);
    let (google_mapping, google_subject) = google_subject(job);
    [
        ("{issuer}", job.issuer.to_owned()),
        ("{issuer_host}", issuer_host.to_owned()),
        ("{aws_claims}", aws_claims(job, issuer_host)),
        ("{google_mapping}", google_mapping.to_owned()),
        ("{google_subject}", google_subject),
        ("{subject}", job.subject()),
        ("{repository_id}", job.repository_id.clone()),
        ("{job_workflow_ref}", job.job_workflow_ref()),
    ]
    .iter()
    .fold(vendor.template().to_owned(), |text, (place, value)| text.replace(place, value))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Env, TargetsFile};

    fn job() -> Job<'static> {
        Job {
            issuer: Job::ISSUER,
            repository: "myorg/eval-runner",
            owner_id: "1001".to_owned(),
            repository_id: "2002".to_owned(),
            has_immutable_subject: true,
            default_branch: "main",
        }
    }

    #[test]
    fn subjects_have_ids_where_github_adds_them() {
        assert_eq!(job().subject(), "repo:myorg@1001/eval-runner@2002:environment:run-evals");
        let older = Job { has_immutable_subject: false, ..job() };
        assert_eq!(older.subject(), "repo:myorg/eval-runner:environment:run-evals");
        let created = |moment: &str| Job::is_immutable(Some(moment.parse().unwrap()));
        assert!(created("2026-07-15T00:00:00Z") && !created("2026-07-14T23:59:59Z"));
    }

    /// The page has every setup, for an invented repository; each `targets.yaml` it shows is valid.
    #[test]
    fn the_page_has_every_set_up() {
        let page =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keyless.md")).unwrap();
        for (name, vendor) in Vendor::ALL {
            let half = vendor_half(vendor, &job());
            for place in
                ["{issuer", "{subject", "{google_", "{aws_claims", "{repository_id", "{job_workflow_ref"]
            {
                assert!(!half.contains(place), "{half}");
            }
            assert!(page.contains(half.trim()), "docs/keyless.md lacks the set-up of `{name}`:\n{half}");
            let yaml = half.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
            let yaml = yaml
                .replace('…', "x1")
                .replace("ACCOUNT", "123456789012")
                .replace("NUMBER", "1")
                .replace("PROJECT", "p");
            let (file, _) =
                TargetsFile::parse(yaml.into_bytes(), Path::new("targets.yaml"), Path::new("")).unwrap();
            let target = file.names().next().unwrap().to_owned();
            assert!(file.resolve_without_keys(&target, &Env::default()).is_some(), "{name}");
        }
    }

    #[test]
    fn every_vendor_that_can_binds_the_repository_and_the_workflow() {
        for (name, vendor) in Vendor::ALL {
            let half = vendor_half(vendor, &job());
            let binds = half.contains("job_workflow_ref") && half.contains("2002");
            assert!(binds || vendor == Vendor::Azure, "{name}: {half}");
            // AWS knows no such claim of another issuer.
            let enterprise = Job { issuer: "https://ghe.example/_services/token", ..job() };
            let half = vendor_half(vendor, &enterprise);
            assert!(half.contains("ghe.example/_services/token"), "{half}");
            assert_eq!(half.contains("job_workflow_ref"), binds && vendor != Vendor::Aws, "{name}: {half}");
        }
    }

    #[test]
    fn a_subject_that_is_too_long_for_google_is_mapped_to_the_repository_id() {
        let name = "n".repeat(90);
        let repository = format!("myorg/{name}");
        let job = Job { repository: &repository, ..job() };
        let half = vendor_half(Vendor::Gcp, &job);
        assert!(job.subject().len() > LONGEST_GOOGLE_SUBJECT);
        let condition = format!("assertion.sub == '{}'", job.subject());
        for part in [
            "google.subject='repository_id:' + assertion.repository_id\"",
            "/subject/repository_id:2002\"",
            condition.as_str(),
        ] {
            assert!(half.contains(part), "no {part} in {half}");
        }
    }

    #[test]
    fn the_workflow_requests_an_identity_and_passes_no_secret() {
        assert!(
            WORKFLOW.contains("id-token: write") && WORKFLOW.contains(&format!("environment: {ENVIRONMENT}"))
        );
        assert!(!WORKFLOW.contains("secrets.") && !WORKFLOW.contains("env:\n"));
    }
}
