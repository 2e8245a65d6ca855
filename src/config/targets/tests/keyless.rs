//! Targets without a static key, and the keys of the clouds.

use super::*;
use crate::config::Policy;
use crate::model::{Auth, Exchange, Federation};

const OPENAI: &str = "provider: openai\nmodel: m\nauth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }";

fn job() -> Env {
    Env::from([
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_RUN_ID", "42"),
        ("ACTIONS_ID_TOKEN_REQUEST_URL", "https://token.example/?api-version=2.0"),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", KEY),
        ("KEY", KEY),
    ])
}

fn federation(lines: &str) -> Federation {
    match endpoint(&runner(&one(lines), &job()).provider).auth.clone() {
        Auth::GithubOidc(federation) => *federation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_vendor_has_its_audience_and_its_exchange() {
    let openai = federation(OPENAI);
    assert_eq!(openai.job.request_token.expose(), KEY);
    let anthropic = federation(
        "provider: anthropic\nmodel: m\nauth: { github_oidc: { federation_rule_id: fdrl_1, organization_id: o, service_account_id: svac_1 } }",
    );
    let azure = federation(
        "provider: azure\nmodel: m\nresource: r\nauth: { github_oidc: { tenant_id: t-1, client_id: c-1 } }",
    );
    let bedrock = federation(
        "provider: bedrock\nmodel: m\nregion: eu-central-1\nauth: { github_oidc: { role_arn: 'arn:aws:iam::123456789012:role/evals' } }",
    );
    let provider = "projects/1/locations/global/workloadIdentityPools/p/providers/x";
    let vertex = federation(&format!(
        "provider: vertex\nmodel: m\nproject: p-1\nauth: {{ github_oidc: {{ workload_identity_provider: {provider}, service_account: a@p.iam.gserviceaccount.com }} }}"
    ));
    let all = [openai, anthropic, azure, bedrock, vertex];
    let listed: Vec<String> =
        all.iter().map(|federation| format!("{} -> {}", federation.audience, federation.token_url)).collect();
    insta::assert_snapshot!(listed.join("\n"), @r"
    https://api.openai.com/v1 -> https://auth.openai.com/oauth/token
    https://api.anthropic.com -> https://api.anthropic.com/v1/oauth/token
    api://AzureADTokenExchange -> https://login.microsoftonline.com/t-1/oauth2/v2.0/token
    sts.amazonaws.com -> https://sts.eu-central-1.amazonaws.com/
    https://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x -> https://sts.googleapis.com/v1/token
    ");
    let Exchange::Aws { session_name, duration_seconds, .. } = &all[3].exchange else { panic!("{all:?}") };
    assert_eq!((session_name.as_str(), *duration_seconds), ("run-evals-42", 3600));
    let Exchange::Gcp { impersonation_url: Some(url), .. } = &all[4].exchange else { panic!("{all:?}") };
    assert!(url.ends_with("/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken"), "{url}");
    assert!(!format!("{all:?}").contains(KEY));
}

#[test]
fn clouds_have_hosts_by_region() {
    let base = |lines: &str| endpoint(&runner(&one(lines), &env()).provider).base_url.clone();
    let vertex = |region: &str| {
        base(&format!("provider: vertex\nmodel: m\nproject: p\napi_key: ${{{{ KEY }}}}{region}"))
    };
    assert_eq!(vertex(""), "https://aiplatform.googleapis.com");
    assert_eq!(vertex("\nregion: eu"), "https://aiplatform.eu.rep.googleapis.com");
    assert_eq!(vertex("\nregion: us-east5"), "https://us-east5-aiplatform.googleapis.com");
    let aws = "provider: bedrock\nmodel: m\nregion: us-east-1\naccess_key_id: ${{ KEY }}\nsecret_access_key: ${{ KEY }}\nsession_token: ${{ NOT_SET }}";
    assert_eq!(base(aws), "https://bedrock-runtime.us-east-1.amazonaws.com");
}

#[test]
fn the_identity_is_found_in_a_job_alone() {
    let told = |env: &Env| unresolved(&one(OPENAI), "t", env);
    insta::assert_snapshot!(told(&Env::default()), @r"
    target `t`: `auth.github_oidc` works only in a job on GitHub Actions
      --> targets.yaml:5:11
       |
     5 |     auth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }
       |           ^^

    hint: run it there, or use a target with a key on this machine: `api_key: ${{ OPENAI_API_KEY }}`
    ");
    insta::assert_snapshot!(told(&Env::from([("GITHUB_ACTIONS", "true")])), @r"
    target `t`: this job may not request an identity token, which `auth.github_oidc` needs
      --> targets.yaml:5:11
       |
     5 |     auth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }
       |           ^^

    hint: add `id-token: write` to the job's `permissions`; where the job calls a reusable workflow, in the caller, too
    ");
    let fork = Env::from([("GITHUB_ACTIONS", "true"), ("GITHUB_EVENT_NAME", "pull_request")]);
    assert!(told(&fork).contains("withholds it from pull requests of forks"));
    // A dispatcher reads the limits of a target that only a runner can use.
    let (file, _) = load(&one(OPENAI)).unwrap();
    assert!(file.limits("t", &Env::default()).is_some());
}

#[test]
fn keys_and_identities_do_not_mix() {
    insta::assert_snapshot!(refused(&one(&format!("{OPENAI}\napi_key: ${{{{ KEY }}}}"))), @r"
    `auth` and `api_key` exclude each other
      --> targets.yaml:5:11
       |
     5 |     auth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }
       |           ^^

    hint: keep one of them: `auth` needs no stored key
    ");
    insta::assert_snapshot!(refused(&one("provider: bedrock\nmodel: m\nregion: us-east-1\napi_key: ${{ KEY }}\naccess_key_id: ${{ KEY }}")), @r"
    `access_key_id` and `api_key` exclude each other
      --> targets.yaml:7:20
       |
     7 |     access_key_id: ${{ KEY }}
       |                    ^^^^^^^^^^

    hint: keep one of them
    ");
    insta::assert_snapshot!(refused(&one("provider: bedrock\nmodel: m\naccess_key_id: AKIA0123456789abcdef")), @r"
    target `t`: `region` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `region:`, such as `us-east-1`

    error: `access_key_id` must be one whole reference to an environment variable
      --> targets.yaml:5:20
       |
     5 |     access_key_id: ***
       |                    ^^^

    hint: write `access_key_id: ${{ AWS_ACCESS_KEY_ID }}` and set that variable where the target is called

    error: target `t`: `secret_access_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: both are needed: `${{ AWS_ACCESS_KEY_ID }}` and `${{ AWS_SECRET_ACCESS_KEY }}`
    ");
    insta::assert_snapshot!(refused(&one("provider: gemini\nmodel: m\nauth: {}")).lines().next().unwrap(), @"target `t`: `api_key` is missing");
}

#[test]
fn the_keys_of_an_identity_are_closed() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\nauth: { github_oidc: { role_arn: x } }")), @r"
    target `t`: `auth.github_oidc.identity_provider_id` is missing
      --> targets.yaml:5:26
       |
     5 |     auth: { github_oidc: { role_arn: x } }
       |                          ^^

    hint: the vendor shows it where you registered the identity; docs/keyless.md says where

    error: target `t`: `auth.github_oidc.service_account_id` is missing
      --> targets.yaml:5:26
       |
     5 |     auth: { github_oidc: { role_arn: x } }
       |                          ^^

    hint: the vendor shows it where you registered the identity; docs/keyless.md says where

    error: unknown key `role_arn` in `github_oidc`
      --> targets.yaml:5:28
       |
     5 |     auth: { github_oidc: { role_arn: x } }
       |                            ^^^^^^^^

    hint: legal in `github_oidc`: `identity_provider_id`, `service_account_id`, `audience`, `token_url`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\nauth: {}")), @r"
    target `t`: `auth.github_oidc` is missing
      --> targets.yaml:5:11
       |
     5 |     auth: {}
       |           ^

    hint: only the identity of the GitHub Actions job is supported
    ");
}

#[test]
fn only_a_runner_repository_sends_the_identity_elsewhere() {
    let at = |url: &str| one(&OPENAI.replace("idp_1", &format!("idp_1, token_url: '{url}'")));
    insta::assert_snapshot!(unresolved(&at("https://evil.example/token"), "t", &job()), @r"
    `auth.github_oidc.token_url`: expected no address beyond this machine, found `https://evil.example/token`
      --> targets.yaml:5:68
       |
     5 | …h: { github_oidc: { identity_provider_id: idp_1, token_url: 'https://evil.example/token', service_account_id: sa_1 } }
       |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: the identity of the job is sent there: only `targets.yaml` on the default branch of a runner repository may name one
    ");
    let (file, _) = load(&at("https://login.example/token")).unwrap();
    file.with_files(BTreeMap::new()).resolve("t", &job()).unwrap();
    let (file, _) = load(&at("http://127.0.0.1:9/token")).unwrap();
    file.resolve("t", &job()).unwrap();
    assert!(refused(&at("http://login.example/token")).contains("expected an `https://` URL"));
}

/// Whether a target with these lines can be used in a job, by the owner of a checkout that is not a runner repository.
fn is_accepted(lines: &str) -> bool {
    load(&one(lines)).is_ok_and(|(file, _)| file.resolve("t", &job()).is_ok())
}

#[test]
fn what_becomes_part_of_an_address_cannot_change_it() {
    const AZURE: &str = "provider: azure\nmodel: m\nresource: r\nauth: { github_oidc: { tenant_id: 'VALUE', client_id: c-1 } }";
    const AWS: &str =
        "provider: bedrock\nmodel: m\nregion: us-east-1\nauth: { github_oidc: { role_arn: 'VALUE' } }";
    const REGION: &str = "provider: bedrock\nmodel: m\nregion: 'VALUE'\nauth: { github_oidc: { role_arn: 'arn:aws:iam::123456789012:role/r' } }";
    const GCP: &str = "provider: vertex\nmodel: m\nproject: p\nauth: { github_oidc: { workload_identity_provider: 'VALUE' } }";
    const PROJECT: &str = "provider: vertex\nmodel: m\nproject: 'VALUE'\nauth: { github_oidc: { workload_identity_provider: projects/1/locations/global/workloadIdentityPools/p/providers/x } }";
    const ACCOUNT: &str = "provider: vertex\nmodel: m\nproject: p\nauth: { github_oidc: { workload_identity_provider: projects/1/locations/global/workloadIdentityPools/p/providers/x, service_account: 'VALUE' } }";
    let pool = "projects/1/locations/global/workloadIdentityPools/p/providers";
    for (lines, good, evil) in [
        (
            AZURE,
            &["t-1", "contoso.onmicrosoft.com"][..],
            &["..", ".", "a..b", "a/b", "a?b", "a#b", "a%2fb", "a@b", "a\\b"][..],
        ),
        (
            AWS,
            &["arn:aws:iam::123456789012:role/r", "arn:aws-us-gov:iam::123456789012:role/team/r+=,.@-_"],
            &[
                "arn:aws:iam::1:role/r",
                "arn:aws:sts::123456789012:role/r",
                "arn:evil:iam::123456789012:role/r",
                "arn:aws:iam::123456789012:role/",
                "arn:aws:iam::123456789012:user/r",
                "arn:aws:iam::123456789012:role/a b",
                "arn:awsX:iam::123456789012:role/r",
            ],
        ),
        (REGION, &["us-east-1"], &["us-east-1.evil.example/", "a/b", "a?b", "a#b", "a@b", "a:1", "..", "A"]),
        (
            GCP,
            &[&format!("{pool}/x")],
            &[
                &format!("{pool}/.."),
                &format!("{pool}/x?a"),
                &format!("{pool}/a b"),
                &pool.replace("/1/", "/+1/"),
                &format!("{}/x", pool.replace("/1/", "/+1/")),
            ],
        ),
        (
            PROJECT,
            &["p", "my-project-1", "123456", "example.com:p"],
            &["..", "a/b", "../../evil", "a?b", "a#b", "a%2fb", "a b", "a.b", "p:"],
        ),
        (ACCOUNT, &["a@p.iam.gserviceaccount.com"], &["a", "a@b/c", "a@b?c", "a@b#c", "a@b%2f", "a@b:c"]),
    ] {
        for value in good {
            assert!(is_accepted(&lines.replace("VALUE", value)), "{value}");
        }
        for value in evil {
            assert!(!is_accepted(&lines.replace("VALUE", value)), "{value}");
        }
    }
}

#[test]
fn a_token_goes_to_the_host_of_its_own_vendor_alone() {
    const OPENAI_AT: &str = "provider: openai\nmodel: m\nbase_url: 'VALUE'\nauth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }";
    const ANTHROPIC: &str = "provider: anthropic\nmodel: m\nbase_url: 'VALUE'\nauth: { github_oidc: { federation_rule_id: fdrl_1, organization_id: o, service_account_id: svac_1 } }";
    const AZURE: &str = "provider: azure\nmodel: m\nbase_url: 'VALUE'\nauth: { github_oidc: { tenant_id: t-1, client_id: c-1 } }";
    const AWS: &str = "provider: bedrock\nmodel: m\nregion: us-east-1\nbase_url: 'VALUE'\nauth: { github_oidc: { role_arn: 'arn:aws:iam::123456789012:role/r' } }";
    const GCP: &str = "provider: vertex\nmodel: m\nproject: p\nregion: eu\nbase_url: 'VALUE'\nauth: { github_oidc: { workload_identity_provider: projects/1/locations/global/workloadIdentityPools/p/providers/x } }";
    for (lines, good, evil) in [
        (
            OPENAI_AT,
            &["https://api.openai.com/v1", "https://eu.api.openai.com/v1", "http://127.0.0.1:9/v1"][..],
            &[
                "https://evil.openai.azure.com/v1",
                "https://evilapi.openai.com/v1",
                "https://api.openai.com.evil.example/v1",
                "http://api.openai.com/v1",
                "https://api.openai.com:8443/v1",
                "https://api.openai.com@evil.example/v1",
            ][..],
        ),
        (
            ANTHROPIC,
            &["https://api.anthropic.com"],
            &["https://eu.api.openai.com", "https://evil.api.anthropic.com"],
        ),
        (
            AZURE,
            &["https://r.openai.azure.com", "https://r.services.ai.azure.com"],
            &["https://openai.azure.com.evil.example", "https://eu.api.openai.com"],
        ),
        (
            AWS,
            &["https://bedrock-runtime.us-east-1.amazonaws.com"],
            &[
                "https://bedrock-runtime.evil.s3.amazonaws.com",
                "https://bedrock-runtime.eu-west-1.amazonaws.com",
            ],
        ),
        (
            GCP,
            &["https://aiplatform.eu.rep.googleapis.com"],
            &["https://evil-aiplatform.googleapis.com.evil.example", "https://storage.googleapis.com"],
        ),
    ] {
        for value in good {
            assert!(is_accepted(&lines.replace("VALUE", value)), "{value}");
        }
        for value in evil {
            assert!(!is_accepted(&lines.replace("VALUE", value)), "{value}");
        }
    }
}

#[test]
fn aliases_lead_to_the_authentication_of_their_end() {
    let yaml = format!(
        "targets:\n{}  - name: alias\n    use_target: ${{{{ CHOICE }}}}\n  - name: second\n    use_target: alias\n  - name: static\n    provider: openai\n    model: m\n    api_key: ${{{{ KEY }}}}\n",
        one(OPENAI).strip_prefix("targets:\n").unwrap()
    );
    let (file, _) = load(&yaml).unwrap();
    let policy = Policy::parse(Path::new(".run-evals.yml"), b"keyless: required\n".to_vec()).unwrap();
    for (choice, is_keyless) in [("t", true), ("static", false)] {
        let env = Env::from([
            ("CHOICE", choice),
            ("KEY", KEY),
            ("GITHUB_ACTIONS", "true"),
            ("ACTIONS_ID_TOKEN_REQUEST_URL", "https://token.example/?api-version=2.0"),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", KEY),
        ]);
        let Target::Runner(target) = file.resolve("second", &env).unwrap() else { panic!("a remote target") };
        assert_eq!(policy.check_batch("second", &target, 1).is_ok(), is_keyless, "{choice}");
    }
    // An alias has no key of its own, and no `auth`.
    for line in
        ["auth: { github_oidc: { identity_provider_id: i, service_account_id: s } }", "api_key: ${{ KEY }}"]
    {
        let mixed = yaml.replace("use_target: alias", &format!("use_target: alias\n    {line}"));
        assert!(load(&mixed).is_err(), "{line}");
    }
}

#[test]
fn secrets_are_refused_as_ids() {
    let yaml = one(&OPENAI.replace("idp_1", "'${{ KEY }}'"));
    let (file, _) = load(&yaml).unwrap();
    assert_eq!(file.secret_names().collect::<Vec<_>>(), [""; 0]);
    let env = Env::from([("KEY", KEY), ("GITHUB_ACTIONS", "true")]);
    assert!(unresolved(&yaml, "t", &env).contains("`KEY` holds a key, and only `api_key` may refer to one"));
}
