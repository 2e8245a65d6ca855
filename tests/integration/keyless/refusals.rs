//! Messages if a vendor refuses the job, and outside of a job.

use super::{dispatched, error_of, write_target};
use crate::support::{MockVendors, Workspace};

#[test]
fn a_wrong_subject_is_shown_with_what_to_change() {
    let mut told = Vec::new();
    for vendor in ["openai", "anthropic", "azure", "bedrock", "vertex"] {
        let vendors = MockVendors::start(&["--accepted-subject", "repo:myorg/eval-runner:environment:other"]);
        let (workspace, output) = dispatched(&vendors, vendor, "", 8);
        output.expect(5);
        assert_eq!((vendors.counter("calls"), vendors.counter("exchanges")), (0, 1), "{vendor}");
        told.push(error_of(&workspace));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    auth: OpenAI refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `https://api.openai.com/v1`, job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`: let the identity provider `idp_mock` accept this audience, and map these claims to the service account `sa_mock`; it returned 403 access_denied: Subject
    auth: Anthropic refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `https://api.anthropic.com`, job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`: let the federation rule `fdrl_mock` match these claims; it returned 401 authentication_error: Subject
    auth: Microsoft Entra refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `api://AzureADTokenExchange`: add a federated credential with exactly this subject and audience to the application `client-mock`; it returned 400 invalid_client: AADSTS700213: No matching federated identity record found. Subject
    auth: AWS refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `sts.amazonaws.com`, job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`: let the trust policy of `arn:aws:iam::123456789012:role/run-evals` allow `sts:AssumeRoleWithWebIdentity` for these claims; it returned 403 AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity Subject
    auth: Google Cloud refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `https://iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/github/providers/runner`, job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`: let the attribute condition of the workload identity provider accept these claims; it returned 401 unauthorized_client: Subject
    ");
}

#[test]
fn a_wrong_audience_or_workflow_is_shown_with_what_to_change() {
    let main = "myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main";
    let reusable = "agentv/run-evals/.github/workflows/runner-keyless.yml@refs/tags/v1";
    for (vendor, audience, workflow) in [
        ("openai", "let the identity provider `idp_mock` accept this audience", "map these claims"),
        ("anthropic", "let the federation rule `fdrl_mock` match these claims", "match these claims"),
        ("bedrock", "add GitHub's OIDC provider with this audience to the account", "for these claims"),
        ("vertex", "let the workload identity provider allow this audience", "accept these claims"),
        ("azure", "add a federated credential with exactly this subject and audience", ""),
    ] {
        let vendors = MockVendors::start(&[]);
        let workspace = vendors.job();
        let target = vendors.target(vendor);
        write_target(
            &workspace,
            &target.replace("token_url:", "audience: https://other.example\n    token_url:"),
        );
        workspace.write_requests(1);
        workspace.dispatch(&[]).expect(5);
        let error = error_of(&workspace);
        assert!(error.contains("audience `https://other.example`") && error.contains(audience), "{error}");
        assert_eq!(error.contains(&format!("job_workflow_ref `{main}`")), vendor != "azure", "{error}");
        // A rule for the workflow of the repository, and a job of the reusable one.
        let vendors = MockVendors::start(&["--claim", &format!("job_workflow_ref={reusable}")]);
        let (workspace, output) = dispatched(&vendors, vendor, "", 1);
        if vendor == "azure" {
            output.expect(0);
            continue;
        }
        output.expect(5);
        let error = error_of(&workspace);
        assert!(
            error.contains(&format!("job_workflow_ref `{reusable}`")) && error.contains(workflow),
            "{error}"
        );
        assert_eq!(vendors.counter("calls"), 0);
    }
}

/// Owner and name of a repository have up to 139 characters, and an immutable subject has ids, too.
#[test]
fn a_subject_that_is_too_long_for_google_is_explained() {
    let subject = format!("repo:myorg@1001/{}@2002:environment:run-evals", "n".repeat(90));
    let vendors = MockVendors::start(&["--subject", &subject]);
    let (workspace, output) = dispatched(&vendors, "vertex", "", 1);
    output.expect(5);
    let error = error_of(&workspace);
    assert!(error.contains("map `google.subject` to less than the subject"), "{error}");
}

#[test]
fn a_stale_assertion_is_explained() {
    for vendor in ["openai", "azure", "bedrock", "vertex"] {
        let vendors = MockVendors::start(&["--stale", "99"]);
        let (workspace, output) = dispatched(&vendors, vendor, "max_retries: 0", 1);
        output.expect(5);
        let error = error_of(&workspace);
        assert!(
            error.contains("the identity token of this job had expired when it arrived"),
            "{vendor}: {error}"
        );
        assert_eq!(vendors.counter("minted"), vendors.counter("exchanges"), "{vendor}: a new one each time");
    }
}

#[test]
fn a_session_that_the_role_does_not_allow_is_explained() {
    let vendors = MockVendors::start(&[]);
    let workspace = vendors.job();
    let target = vendors.target("bedrock").replace("token_url:", "session_duration: 12h\n    token_url:");
    write_target(&workspace, &target);
    workspace.write_requests(1);
    workspace.dispatch(&[]).expect(5);
    let error = error_of(&workspace);
    assert!(error.contains("lower `session_duration`, which is 43200 s"), "{error}");
}

#[test]
fn a_reused_assertion_is_explained() {
    let vendors = MockVendors::start(&["--same-jwt", "--revoke-at", "2"]);
    let (workspace, output) = dispatched(&vendors, "anthropic", "max_concurrency: 2", 4);
    output.expect(5);
    insta::assert_snapshot!(error_of(&workspace), @"auth: Anthropic refused the identity of this job, subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, audience `https://api.anthropic.com`, job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`: the assertion was used before, and each is valid once; run the job again; it returned 401 authentication_error: jti_reused");
    assert_eq!(vendors.counter("ok"), 0);
}

#[test]
fn a_missing_role_is_named_after_one_more_exchange() {
    for (vendor, exchanges) in [("azure", 2), ("vertex", 1)] {
        let vendors = MockVendors::start(&["--no-role"]);
        let (workspace, output) = dispatched(&vendors, vendor, "max_concurrency: 1", 4);
        output.expect(5);
        let role = if vendor == "azure" { "Cognitive Services OpenAI User" } else { "roles/aiplatform.user" };
        assert!(error_of(&workspace).contains(role), "{}", error_of(&workspace));
        assert_eq!(vendors.counter("exchanges"), exchanges, "{vendor}");
    }
}

#[test]
fn a_wrong_clock_is_named() {
    for (ahead, told) in [("3600", "60 minutes behind AWS"), ("-1200", "20 minutes ahead of AWS")] {
        let vendors = MockVendors::start(&["--clock-ahead", ahead]);
        let (workspace, output) = dispatched(&vendors, "bedrock", "", 2);
        output.expect(5);
        let error = error_of(&workspace);
        assert!(error.starts_with("auth: this machine's clock is") && error.contains(told), "{error}");
        assert!(!error.contains("bedrock:InvokeModel"), "the role is not what is missing: {error}");
    }
}

#[test]
fn without_an_identity_nothing_starts() {
    let vendors = MockVendors::start(&[]);
    let refused = |workspace: Workspace| {
        write_target(&workspace, &vendors.target("openai"));
        workspace.write_requests(1);
        workspace.dispatch(&[]).expect(3).stderr
    };
    for (vendor, key) in [
        ("openai", "`api_key: ${{ OPENAI_API_KEY }}`"),
        ("anthropic", "`api_key: ${{ ANTHROPIC_API_KEY }}`"),
        ("azure", "`api_key: ${{ AZURE_OPENAI_API_KEY }}`"),
        ("bedrock", "`access_key_id: ${{ AWS_ACCESS_KEY_ID }}`"),
        ("vertex", "`api_key: ${{ GOOGLE_ACCESS_TOKEN }}`"),
    ] {
        let workspace = Workspace::new();
        write_target(&workspace, &vendors.target(vendor));
        workspace.write_requests(1);
        let outside = workspace.dispatch(&[]).expect(3).stderr;
        assert!(outside.contains("works only in a job on GitHub Actions"), "{outside}");
        assert!(outside.contains(key), "{outside}");
    }
    let job = || Workspace::new().env("GITHUB_ACTIONS", "true");
    let fork = refused(job().env("GITHUB_EVENT_NAME", "pull_request"));
    assert!(fork.contains("withholds it from pull requests of forks"), "{fork}");
    let unpermitted = refused(job());
    assert!(unpermitted.contains("add `id-token: write` to the job's `permissions`"), "{unpermitted}");
    // A `.env` file does not make a job.
    let checkout = job();
    let url = vendors.request_url();
    checkout.write(".env", format!("ACTIONS_ID_TOKEN_REQUEST_URL={url}\nACTIONS_ID_TOKEN_REQUEST_TOKEN=x\n"));
    refused(checkout);
    assert_eq!(vendors.counter("minted"), 0);
}
