//! What a user sees before the first call: configuration mistakes, `doctor --ping`, and masks in the log of a job.

use super::runner::runner;
use super::write_target;
use crate::support::{MockVendors, REQUEST_TOKEN};

const IMMUTABLE: &str = "repo:myorg@1001/eval-runner@2002:environment:run-evals";

#[test]
fn a_ping_exchanges_the_identity_in_the_runner_and_shows_it() {
    for (vendor, said, audience) in [
        ("openai", "OpenAI", "https://api.openai.com/v1"),
        ("anthropic", "Anthropic", "https://api.anthropic.com"),
        ("azure", "Microsoft Entra", "api://AzureADTokenExchange"),
        ("bedrock", "AWS", "sts.amazonaws.com"),
        (
            "vertex",
            "Google Cloud",
            "https://iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/github/providers/runner",
        ),
    ] {
        let vendors = MockVendors::start(&["--token-life", "200"]);
        let (_github, workspace) = runner(&vendors, vendor);
        let output = workspace.run(&["doctor", "--ping"]);
        let printed = output.stdout.clone() + &output.stderr;
        assert!(output.stdout.contains("  ok         ping: answered in "), "{printed}");
        let identity = format!(
            "{said} accepts the job: subject `{IMMUTABLE}`, audience `{audience}`, environment `run-evals`, repository_id `2002`, \
             job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`; its token lives "
        );
        assert!(output.stdout.contains(&identity), "{printed}");
        let life = output.stdout.split(&identity).nth(1).and_then(|rest| rest.split(' ').next());
        let life: u64 = life.and_then(|seconds| seconds.parse().ok()).unwrap();
        assert!((195..=200).contains(&life), "{life}");
        assert_eq!((vendors.counter("exchanges"), vendors.counter("ok")), (1, 1));
        for secret in vendors.secrets() {
            assert!(!printed.contains(&secret));
        }
    }
}

#[test]
fn a_refused_ping_shows_the_exact_subject_to_configure() {
    for vendor in ["openai", "anthropic", "azure", "bedrock", "vertex"] {
        // The rule names the subject that the repository had before subjects became immutable.
        let old = "repo:myorg/eval-runner:environment:run-evals";
        let vendors = MockVendors::start(&["--accepted-subject", old]);
        let (_github, workspace) = runner(&vendors, vendor);
        let output = workspace.run(&["doctor", "--ping"]).expect(3);
        let said = output.stdout.replace('\n', " ");
        assert!(said.contains("  error      ping: "), "{vendor}: {said}");
        assert!(said.contains(&format!("subject `{IMMUTABLE}`")), "{vendor}: {said}");
        assert!(said.contains("audience `"), "{vendor}: {said}");
        assert_eq!((vendors.counter("exchanges"), vendors.counter("calls")), (1, 0), "{vendor}");
    }
}

/// Each refusal is one sentence with what to change, and the ping never shows a token.
#[test]
fn a_ping_explains_every_refusal() {
    let reusable = "job_workflow_ref=agentv/run-evals/.github/workflows/runner-keyless.yml@refs/tags/v1";
    for (vendor, options, told) in [
        ("azure", &["--no-role"][..], "needs the role `Cognitive Services OpenAI User`"),
        ("vertex", &["--no-role"], "needs the role `roles/aiplatform.user`"),
        ("bedrock", &["--no-role"], "needs the permission `bedrock:InvokeModel`"),
        ("openai", &["--no-role"], "the service account needs the permission to use this model"),
        ("anthropic", &["--no-role"], "the service account needs the permission to use this model"),
        ("azure", &["--stale", "99"], "had expired when it arrived"),
        ("bedrock", &["--stale", "99"], "had expired when it arrived"),
        ("openai", &["--claim", reusable], "runner-keyless.yml@refs/tags/v1`"),
        ("anthropic", &["--same-jwt", "--revoke-at", "1"], "each is valid once"),
        ("bedrock", &["--clock-ahead", "900"], "15 minutes behind AWS"),
    ] {
        let options = [options, &["--echo-secrets"]].concat();
        let vendors = MockVendors::start(&options);
        let (_github, workspace) = runner(&vendors, vendor);
        let output = workspace.run(&["doctor", "--ping"]).expect(3);
        let said = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("error ping: ") && said.contains(told), "{vendor} {options:?}: {said}");
        for secret in vendors.secrets() {
            assert!(!(output.stdout.clone() + &output.stderr).contains(&secret), "{vendor}");
        }
    }
}

/// GitHub masks in the log what a step announces, so every minted secret is announced before its first use.
#[test]
fn minted_secrets_are_masked_in_the_log_of_a_job() {
    for vendor in ["openai", "anthropic", "azure", "bedrock", "vertex"] {
        let vendors = MockVendors::start(&[]);
        let workspace = vendors.job().env("GITHUB_RUN_ID", "7");
        write_target(&workspace, &vendors.target(vendor));
        workspace.write_requests(3);
        let output = workspace.dispatch(&[]).expect(0);
        let masked: Vec<&str> =
            output.stderr.lines().filter_map(|line| line.strip_prefix("::add-mask::")).collect();
        for secret in vendors.secrets().iter().map(String::as_str).chain([REQUEST_TOKEN]) {
            assert!(masked.contains(&secret), "{vendor}: `{}…` of {} masks", &secret[..8], masked.len());
        }
        assert!(!output.stdout.contains(REQUEST_TOKEN));
        for line in output.stderr.lines().filter(|line| !line.starts_with("::add-mask::")) {
            assert!(!vendors.secrets().iter().any(|secret| line.contains(secret)), "{vendor}");
        }
    }
}

#[test]
fn mistakes_in_a_target_are_named_before_any_request() {
    let vendors = MockVendors::start(&[]);
    let refused = |lines: &str| {
        let workspace = vendors.job().env("KEY", "sk-0123456789abcdef0123456789abcdef");
        write_target(&workspace, lines);
        workspace.write_requests(1);
        workspace.dispatch(&[]).expect(3).stderr
    };
    let both = refused(&format!("{}\napi_key: ${{{{ KEY }}}}", vendors.target("openai")));
    assert!(
        both.contains("`auth` and `api_key` exclude each other") && both.contains("targets.yaml:"),
        "{both}"
    );
    for host in ["models.github.ai/inference", "MODELS.GITHUB.AI./inference", "models.inference.ai.azure.com"]
    {
        let lines = format!(
            "provider: openai-compatible\nmodel: m\nbase_url: https://{host}\napi_key: ${{{{ KEY }}}}"
        );
        let retired = refused(&lines);
        assert!(retired.contains("GitHub Models was retired on 2026-07-30"), "{retired}");
    }
    assert_eq!((vendors.counter("minted"), vendors.counter("calls")), (0, 0));
}

/// A re-run of a finished job needs no token.
#[test]
fn a_rerun_of_a_finished_job_exchanges_nothing() {
    let vendors = MockVendors::start(&[]);
    let workspace = vendors.job();
    write_target(&workspace, &vendors.target("anthropic"));
    workspace.write_requests(3);
    for _ in 0..2 {
        workspace.dispatch(&["--batch-id", "again"]).expect(0);
        assert_eq!((vendors.counter("minted"), vendors.counter("ok")), (1, 3));
    }
}
