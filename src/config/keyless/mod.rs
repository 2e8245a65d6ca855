//! The vendor's half of keyless authentication, as text to copy: what to register, and which claims to bind it to.

#![cfg_attr(
    not(test),
    expect(dead_code, reason = "for `init runner --keyless`, which prints the vendor's half")
)]

/// The environment of the job in our workflows.
pub const ENVIRONMENT: &str = "run-evals";
/// The workflow of a keyless runner repository.
pub const WORKFLOW: &str = include_str!("../../../workflows/run-evals-keyless.yml");

/// A vendor that exchanges identities.
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
    /// Who signs the tokens; on github.com [`Job::ISSUER`].
    pub issuer: &'a str,
    /// `owner/name` of the runner repository, and the ids of both.
    pub repository: &'a str,
    pub owner_id: u64,
    pub repository_id: u64,
    /// Whether its subjects have ids: repositories that were created, renamed or transferred since 2026-07-15 have.
    pub has_immutable_subject: bool,
    pub default_branch: &'a str,
}

impl Job<'_> {
    pub const ISSUER: &'static str = "https://token.actions.githubusercontent.com";

    /// The subject of the job's tokens.
    pub fn subject(&self) -> String {
        let (owner, name) = self.repository.split_once('/').unwrap_or((self.repository, ""));
        if self.has_immutable_subject {
            format!("repo:{owner}@{}/{name}@{}:environment:{ENVIRONMENT}", self.owner_id, self.repository_id)
        } else {
            format!("repo:{owner}/{name}:environment:{ENVIRONMENT}")
        }
    }

    /// The workflow of the job, as its tokens name it.
    fn job_workflow_ref(&self) -> String {
        let Self { repository, default_branch, .. } = self;
        format!("{repository}/.github/workflows/run-evals.yml@refs/heads/{default_branch}")
    }
}

/// What to set up at a vendor, in markdown.
pub fn vendor_half(vendor: Vendor, job: &Job<'_>) -> String {
    let issuer_host = job.issuer.strip_prefix("https://").unwrap_or(job.issuer);
    [
        ("{issuer}", job.issuer.to_owned()),
        ("{issuer_host}", issuer_host.to_owned()),
        ("{subject}", job.subject()),
        ("{repository_id}", job.repository_id.to_string()),
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

    const JOB: Job<'_> = Job {
        issuer: Job::ISSUER,
        repository: "myorg/eval-runner",
        owner_id: 1001,
        repository_id: 2002,
        has_immutable_subject: true,
        default_branch: "main",
    };

    #[test]
    fn subjects_have_ids_where_github_adds_them() {
        assert_eq!(JOB.subject(), "repo:myorg@1001/eval-runner@2002:environment:run-evals");
        let older = Job { has_immutable_subject: false, ..JOB };
        assert_eq!(older.subject(), "repo:myorg/eval-runner:environment:run-evals");
    }

    /// The page has every set-up, for an invented repository; what it shows as `targets.yaml` is one.
    #[test]
    fn the_page_has_every_set_up() {
        let page =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keyless.md")).unwrap();
        for (name, vendor) in Vendor::ALL {
            let half = vendor_half(vendor, &JOB);
            assert!(!half.contains("{issuer") && !half.contains("{subject"), "{half}");
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
    fn the_workflow_requests_an_identity_and_passes_no_secret() {
        assert!(
            WORKFLOW.contains("id-token: write") && WORKFLOW.contains(&format!("environment: {ENVIRONMENT}"))
        );
        assert!(!WORKFLOW.contains("secrets.") && !WORKFLOW.contains("env:\n"));
    }
}
