//! The credentials for calls to a vendor: a key, AWS credentials, or the identity of a job.

use super::auth_keys::auth_of;
use super::settings::{OptionalValue, Setting, Settings, UnknownValue};
use super::values::{Legal, is_loopback, url};
use crate::config::keyless::PLACEHOLDER;
use crate::config::{Env, Node, Reference};
use crate::model::{Api, Auth, AwsKeys, Exchange, Federation, ProviderKind, Secret};

/// A literal below this length is not a secret but a word like `EMPTY` or `ollama`, for servers that accept any key.
const SHORTEST_SECRET: usize = 8;

/// The vendors' default audiences.
const OPENAI_AUDIENCE: &str = "https://api.openai.com/v1";
const OPENAI_TOKENS: &str = "https://auth.openai.com/oauth/token";
const ANTHROPIC_AUDIENCE: &str = "https://api.anthropic.com";
const ANTHROPIC_TOKENS: &str = "https://api.anthropic.com/v1/oauth/token";
const AZURE_AUDIENCE: &str = "api://AzureADTokenExchange";
const AZURE_LOGIN: &str = "https://login.microsoftonline.com";
const AZURE_SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const AWS_AUDIENCE: &str = "sts.amazonaws.com";
const AWS_SESSION_SECONDS: u64 = 3600;
const AWS_LONGEST_SESSION_SECONDS: u64 = 12 * 3600;
const GOOGLE_TOKENS: &str = "https://sts.googleapis.com/v1/token";
const GOOGLE_ACCOUNTS: &str = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts";

/// Reads how calls are authenticated.
pub(super) fn read(
    kind: &ProviderKind,
    api: Api,
    region: Option<&str>,
    settings: &mut Settings<'_, '_>,
) -> Result<Auth, UnknownValue> {
    const AWS_KEYS: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];
    let aws_key = AWS_KEYS.into_iter().find(|key| settings.node(key).is_some());
    let ways = [settings.node("api_key").map(|_| "api_key"), aws_key];
    let ways: Vec<&str> = ways.into_iter().flatten().collect();
    if let Some(node) = settings.node("auth") {
        if let Some(key) = ways.first() {
            let message = format!("`auth` and `{key}` exclude each other");
            return Err(settings.error(&node.span, message, "keep one of them: `auth` needs no stored key"));
        }
        return federation(kind, api, region, settings);
    }
    if let [first, second] = ways[..]
        && let Some(node) = settings.node(AWS_KEYS[0]).or_else(|| settings.node(AWS_KEYS[1]))
    {
        let message = format!("`{second}` and `{first}` exclude each other");
        return Err(settings.error(&node.span, message, "keep one of them"));
    }
    if aws_key.is_some() {
        aws_keys(settings)
    } else {
        Ok(api_key(kind, settings)?.map_or(Auth::None, Auth::Key))
    }
}

/// Static AWS credentials.
fn aws_keys(settings: &mut Settings<'_, '_>) -> Result<Auth, UnknownValue> {
    let id = aws_key("access_key_id", "AWS_ACCESS_KEY_ID", settings);
    let secret = aws_key("secret_access_key", "AWS_SECRET_ACCESS_KEY", settings);
    let session_token = aws_key("session_token", "AWS_SESSION_TOKEN", settings);
    let hint = "both are needed: `${{ AWS_ACCESS_KEY_ID }}` and `${{ AWS_SECRET_ACCESS_KEY }}`";
    let access_key_id = settings.required("access_key_id", id, hint);
    let secret_access_key = settings.required("secret_access_key", secret, hint);
    Ok(Auth::Aws(AwsKeys {
        access_key_id: access_key_id?,
        secret_access_key: secret_access_key?,
        session_token: session_token?,
    }))
}

fn aws_key(key: &'static str, variable: &str, settings: &mut Settings<'_, '_>) -> OptionalValue<Secret> {
    if key == "session_token" {
        // Static credentials have no session token, and a workflow passes it as an empty or unset variable.
        settings.optional(key);
    }
    if let Some(node) = settings.node(key)
        && !node.as_str().is_some_and(|text| {
            Reference::whole(text).is_some_and(|reference| reference.default.unwrap_or_default().is_empty())
        })
    {
        let hint =
            format!("write `{key}: ${{{{ {variable} }}}}` and set that variable where the target is called");
        return Err(settings.error(
            &node.span,
            format!("`{key}` must be one whole reference to an environment variable"),
            hint,
        ));
    }
    match settings.get(key)?.filter(|value| value.text().is_some_and(|text| !text.trim().is_empty())) {
        Some(value) => secret(key, &value, settings).map(Some),
        None => Ok(None),
    }
}

/// The identity of the job, and the vendor that accepts it.
fn federation(
    kind: &ProviderKind,
    api: Api,
    region: Option<&str>,
    settings: &mut Settings<'_, '_>,
) -> Result<Auth, UnknownValue> {
    let Some((auth, oidc)) = auth_of(api) else { return Err(UnknownValue) };
    let node = settings.node("auth");
    let run_id = settings.scope.env.and_then(|env| env.process().get("GITHUB_RUN_ID")).map(str::to_owned);
    let read = settings.nested("auth", "auth.", auth, |auth| {
        let read = auth.nested("github_oidc", "auth.github_oidc.", oidc, |oidc| {
            exchange(api, region, run_id.as_deref(), oidc)
        });
        auth.required("github_oidc", read, "only the identity of the GitHub Actions job is supported")
    });
    let (exchange, audience, token_url) = read?.ok_or(UnknownValue)?;
    let (Some(env), Some(node)) = (settings.scope.env, node) else { return Err(UnknownValue) };
    let Some(job) = env.job_identity() else {
        let (message, hint) = no_identity(kind, env);
        let message = format!("target `{}`: {message}", settings.scope.target);
        return Err(settings.error(&node.span, message, hint));
    };
    Ok(Auth::GithubOidc(Box::new(Federation { job, audience, token_url, exchange })))
}

/// Why there is no identity here, and how to fix it.
fn no_identity(kind: &ProviderKind, env: &Env) -> (&'static str, String) {
    let process = env.process();
    if process.get("GITHUB_ACTIONS") != Some("true") {
        return (
            "`auth.github_oidc` works only in a job on GitHub Actions",
            format!("run it there, or use a target with a key on this machine: {}", static_keys(kind)),
        );
    }
    let hint = if process.get("GITHUB_EVENT_NAME") == Some("pull_request") {
        "add `id-token: write` to the job's `permissions`; GitHub withholds it from pull requests of forks, so evaluate those \
         after a review: dispatch the batch to a runner repository"
    } else {
        "add `id-token: write` to the job's `permissions`; where the job calls a reusable workflow, in the caller, too"
    };
    ("this job may not request an identity token, which `auth.github_oidc` needs", hint.to_owned())
}

/// The static alternative to `auth`.
fn static_keys(kind: &ProviderKind) -> String {
    match kind.api() {
        Some(Api::Bedrock) => {
            "`access_key_id: ${{ AWS_ACCESS_KEY_ID }}` and `secret_access_key: ${{ AWS_SECRET_ACCESS_KEY }}`"
                .to_owned()
        }
        _ => format!("`api_key: ${{{{ {} }}}}`", kind.key_variable.unwrap_or("NAME")),
    }
}

/// The vendor's ids, the audience, and where the token is exchanged.
fn exchange(
    api: Api,
    region: Option<&str>,
    run_id: Option<&str>,
    oidc: &mut Settings<'_, '_>,
) -> Result<(Exchange, String, String), UnknownValue> {
    let audience = oidc.text("audience");
    let token_url = operators_url("token_url", oidc);
    let (exchange, default_audience, default_url) = match api {
        Api::OpenAi => {
            let identity_provider_id = id("identity_provider_id", oidc);
            let service_account_id = id("service_account_id", oidc);
            let exchange = Exchange::OpenAi {
                identity_provider_id: identity_provider_id?,
                service_account_id: service_account_id?,
            };
            (exchange, OPENAI_AUDIENCE.to_owned(), OPENAI_TOKENS.to_owned())
        }
        Api::Anthropic => {
            let federation_rule_id = id("federation_rule_id", oidc);
            let organization_id = id("organization_id", oidc);
            let service_account_id = id("service_account_id", oidc);
            let workspace_id = oidc.text("workspace_id");
            let exchange = Exchange::Anthropic {
                federation_rule_id: federation_rule_id?,
                organization_id: organization_id?,
                service_account_id: service_account_id?,
                workspace_id: workspace_id?,
            };
            (exchange, ANTHROPIC_AUDIENCE.to_owned(), ANTHROPIC_TOKENS.to_owned())
        }
        Api::Azure => {
            let tenant_id = oidc.parsed("tenant_id", |text| {
                filled(text)?;
                let is_label = |label: &str| {
                    !label.is_empty()
                        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                };
                if text.split('.').all(is_label) {
                    Ok(text.to_owned())
                } else {
                    Err("a UUID or a domain".into())
                }
            });
            let tenant_id =
                oidc.required("tenant_id", tenant_id, "the tenant's id is on its Overview page in Entra");
            let client_id = id("client_id", oidc);
            let scope = oidc.text("scope");
            let exchange = Exchange::Azure {
                client_id: client_id?,
                scope: scope?.unwrap_or_else(|| AZURE_SCOPE.to_owned()),
            };
            (exchange, AZURE_AUDIENCE.to_owned(), format!("{AZURE_LOGIN}/{}/oauth2/v2.0/token", tenant_id?))
        }
        Api::Bedrock => {
            let role_arn = oidc.parsed("role_arn", |text| {
                filled(text)?;
                if is_role(text) {
                    Ok(text.to_owned())
                } else {
                    Err("the ARN of a role, `arn:aws:iam::…:role/…`".into())
                }
            });
            let role_arn = oidc.required("role_arn", role_arn, "the ARN is on the role's page in IAM");
            let duration = oidc.duration("session_duration");
            let duration_seconds = duration?.map_or(AWS_SESSION_SECONDS, |duration| duration.as_secs());
            if duration_seconds > AWS_LONGEST_SESSION_SECONDS
                && let Some(node) = oidc.node("session_duration")
            {
                oidc.error(
                    &node.span,
                    "`auth.github_oidc.session_duration`: expected at most `12h`",
                    "15m to 12h",
                );
            }
            let session_name = run_id.map_or_else(|| "run-evals".to_owned(), |id| format!("run-evals-{id}"));
            let exchange = Exchange::Aws { role_arn: role_arn?, session_name, duration_seconds };
            let host = region.map(|region| format!("https://sts.{region}.amazonaws.com/"));
            (exchange, AWS_AUDIENCE.to_owned(), host.unwrap_or_default())
        }
        _ => {
            let provider = oidc.parsed("workload_identity_provider", |text| {
                filled(text)?;
                let parts: Vec<&str> = text.split('/').collect();
                let is_name = |text: &str| {
                    let is_legal =
                        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                    !text.is_empty() && text.bytes().all(is_legal)
                };
                match parts[..] {
                    [
                        "projects",
                        number,
                        "locations",
                        "global",
                        "workloadIdentityPools",
                        pool,
                        "providers",
                        name,
                    ] if is_number(number) && is_name(pool) && is_name(name) => Ok(text.to_owned()),
                    _ => {
                        Err("`projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME`"
                            .into())
                    }
                }
            });
            let hint = "`gcloud iam workload-identity-pools providers describe` prints it as `name`";
            let provider = oidc.required("workload_identity_provider", provider, hint);
            let account = oidc.parsed("service_account", |text| {
                let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@');
                let is_email = text.contains('@') && text.chars().all(legal);
                if is_email { Ok(text.to_owned()) } else { Err("the email of a service account".into()) }
            });
            let own_url = operators_url("impersonation_url", oidc);
            let (provider, account, own_url) = (provider?, account?, own_url?);
            let impersonation_url = account.map(|email| {
                own_url.unwrap_or_else(|| format!("{GOOGLE_ACCOUNTS}/{email}:generateAccessToken"))
            });
            let audience = format!("https://iam.googleapis.com/{provider}");
            (Exchange::Gcp { provider, impersonation_url }, audience, GOOGLE_TOKENS.to_owned())
        }
    };
    Ok((exchange, audience?.unwrap_or(default_audience), token_url?.unwrap_or(default_url)))
}

/// Whether a text is one number, without a sign.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is the ARN of a role, in any partition: `arn:aws-us-gov:iam::123456789012:role/path/name`.
fn is_role(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let ["arn", partition, "iam", "", account, role] = parts[..] else { return false };
    let is_partition = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    let role = role.strip_prefix("role/").unwrap_or_default();
    partition.starts_with("aws")
        && partition.bytes().all(is_partition)
        && account.len() == 12
        && is_number(account)
        && !role.is_empty()
        && role.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Refuses what `init runner --keyless` writes until the vendor gives the value.
fn filled(text: &str) -> Result<(), Legal> {
    if !text.contains(PLACEHOLDER) {
        return Ok(());
    }
    let hint = "set the vendor up (docs/keyless.md), then replace the placeholder in this file";
    Err(Legal::from(format!("what the vendor gave you, without the placeholder `{PLACEHOLDER}`")).hint(hint))
}

/// A public id.
fn id(key: &'static str, oidc: &mut Settings<'_, '_>) -> Result<String, UnknownValue> {
    let given = oidc.parsed(key, |text| {
        filled(text)?;
        let is_id = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_id { Ok(text.to_owned()) } else { Err("an id without spaces".into()) }
    });
    oidc.required(
        key,
        given,
        "the vendor shows it where you registered the identity; docs/keyless.md says where",
    )
}

/// Whether the file belongs to the owner of a runner repository, or only its shape is checked.
pub(super) fn is_operators(settings: &Settings<'_, '_>) -> bool {
    settings.scope.files.is_some() || settings.scope.env.is_none()
}

/// An address that receives the job's token. Only the owner of a runner repository may choose one: a file from any other
/// checkout may name only this machine, for tests.
fn operators_url(key: &'static str, oidc: &mut Settings<'_, '_>) -> OptionalValue<String> {
    let is_operators = is_operators(oidc);
    oidc.parsed(key, |text| {
        let parsed = url(text)?;
        match () {
            () if is_loopback(&parsed) => Ok(text.to_owned()),
            () if parsed.scheme() != "https" => Err("an `https://` URL".into()),
            () if is_operators => Ok(text.to_owned()),
            () => Err(Legal::from("no address beyond this machine")
                .hint("the identity of the job is sent there: only `targets.yaml` on the default branch of a runner repository may name one")),
        }
    })
}

/// How to give a target its credentials.
fn missing_hint(kind: &ProviderKind) -> String {
    let or_auth =
        if kind.api() == Some(Api::Bedrock) { ", `api_key`, or `auth` (docs/keyless.md)" } else { "" };
    format!("add {}{or_auth}", static_keys(kind))
}

fn api_key(kind: &ProviderKind, settings: &mut Settings<'_, '_>) -> OptionalValue<Secret> {
    let variable = kind.key_variable;
    let reference = format!("${{{{ {} }}}}", variable.unwrap_or("NAME"));
    if let Some(node) = settings.node("api_key")
        && let Some(message) = refusal(kind, node)
    {
        let hint = format!("write `api_key: {reference}` and set that variable where the target is called");
        return Err(settings.error(&node.span, message, hint));
    }
    let given = settings.get("api_key")?.filter(|key| key.text().is_some_and(|text| !text.trim().is_empty()));
    let Some(key) = given else {
        return match variable {
            Some(_) => settings.required("api_key", Ok(None), &missing_hint(kind)).map(Some),
            None => Ok(None),
        };
    };
    secret("api_key", &key, settings).map(Some)
}

/// The text of a key.
fn secret(name: &str, key: &Setting<'_>, settings: &mut Settings<'_, '_>) -> Result<Secret, UnknownValue> {
    if let Some(variable) = key.variable.as_deref().filter(|name| Env::is_identity(name)) {
        return Err(settings.error(
            &key.node.span,
            format!("`{variable}` says who you are on GitHub: it is not sent to a model's server"),
            format!("write `{name}: ${{{{ NAME }}}}`, a variable that holds the key of this server"),
        ));
    }
    let text = key.text().unwrap_or_default().trim();
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let place =
            key.variable.as_ref().map_or_else(|| format!("`{name}`"), |name| format!("the key in `{name}`"));
        return Err(settings.error(
            &key.node.span,
            format!("{place} has white space, control characters or letters that no key has"),
            "copy the key again, without quotes and line breaks",
        ));
    }
    Ok(Secret::new(text))
}

/// Why this cannot be the value of `api_key`: the key, or the default of its reference, is in the file itself.
fn refusal(kind: &ProviderKind, node: &Node) -> Option<&'static str> {
    const IN_FILE: &str = "a key must not be in this file";
    let Some(text) = node.as_str() else { return Some(IN_FILE) };
    let literal = match Reference::whole(text) {
        Some(reference) => reference.default.unwrap_or_default(),
        None if text.contains("${{") => {
            return Some("`api_key` must be one whole reference to an environment variable");
        }
        None => text,
    };
    let any_key_will_do = kind.key_variable.is_none() && literal.len() < SHORTEST_SECRET;
    (!literal.is_empty() && !any_key_will_do).then_some(IN_FILE)
}
