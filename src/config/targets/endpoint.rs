//! The address of a provider.

use reqwest::Url;

use super::auth;
use super::settings::{OptionalValue, Settings, UnknownValue};
use super::values::{Legal, is_cleartext, is_loopback, url};
use crate::model::{Api, Endpoint, ProviderKind, printable};
use crate::util::{ca, regular_file};

/// The content of a file with certificates.
const CA_HINT: &str =
    "the file has the certificates of the CA in PEM format, which begin with `-----BEGIN CERTIFICATE-----`";

/// Endings of `base_url` that show that the path of the call was pasted too.
const CALLS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// The hosts of GitHub Models, which was retired.
const RETIRED: [&str; 2] = ["models.github.ai", "models.inference.ai.azure.com"];

/// Hosts that only OpenAI serves, and those that only Azure serves, besides the default ones.
const OPENAI_HOSTS: [&str; 1] = [".api.openai.com"];
const AZURE_HOSTS: [&str; 3] =
    [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];

/// Reads where an API is reached.
pub(super) fn read(
    kind: &ProviderKind,
    api: Api,
    settings: &mut Settings<'_, '_>,
) -> Result<Endpoint, UnknownValue> {
    let region = region(settings);
    let project = project(settings);
    let base_url = base_url(kind, api, (&region, &project), settings);
    let auth = auth::read(kind, api, region.as_ref().ok().and_then(Option::as_deref), settings);
    let api_version = match api {
        Api::Azure => azure_version(settings),
        _ => settings.text("api_version"),
    };
    let ca_pem = ca(settings);
    let default_version = || kind.api_version.map(str::to_owned);
    Ok(Endpoint {
        api,
        base_url: base_url?,
        api_version: api_version?.or_else(default_version),
        auth: auth?,
        region: region?,
        project: project?,
        ca_pem: ca_pem?,
    })
}

/// The certificates of a private CA. If only the shape is checked, a file that was not read yet is not an error.
fn ca(settings: &mut Settings<'_, '_>) -> Result<Vec<u8>, UnknownValue> {
    let Some(name) = settings.text("ca_file")? else { return Ok(Vec::new()) };
    if settings.scope.env.is_none() {
        return Ok(Vec::new());
    }
    let (problem, hint) = if let Some(files) = settings.scope.files {
        match files.get(&name) {
            Some(pem) => (ca::check(pem).map(|()| pem.clone()), CA_HINT),
            None => (
                Err("is not a file of the runner repository's default branch".to_owned()),
                "commit the file there, and name it by its path without variables, relative to this file",
            ),
        }
    } else {
        let read = regular_file::read(&settings.scope.dir.join(&name), ca::MOST_BYTES);
        let read = read.map_err(|error| format!("cannot be read: {error}"));
        (read.and_then(|pem| ca::check(&pem).map(|()| pem)), CA_HINT)
    };
    problem.map_err(|problem| {
        let span = settings.node("ca_file").map(|node| node.span.clone());
        if let Some(span) = span {
            settings.error(&span, format!("`ca_file`: `{}` {problem}", printable(&name)), hint);
        }
        UnknownValue
    })
}

/// The region of a cloud. It becomes part of host names, so it must not be able to name another host.
fn region(settings: &mut Settings<'_, '_>) -> OptionalValue<String> {
    settings.parsed("region", |text| {
        let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !text.is_empty() && text.bytes().all(is_legal) {
            Ok(text.to_owned())
        } else {
            Err("the name of a region, such as `us-east-1`".into())
        }
    })
}

/// The project of Google Cloud, which becomes part of paths: nothing in it can lead to another path.
fn project(settings: &mut Settings<'_, '_>) -> OptionalValue<String> {
    settings.parsed("project", |text| {
        let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let (domain, id) = text.split_once(':').map_or(("", text), |(domain, id)| (domain, id));
        let is_domain = domain.bytes().all(|byte| is_legal(byte) || byte == b'.');
        if is_domain && !id.is_empty() && id.bytes().all(is_legal) {
            Ok(text.to_owned())
        } else {
            Err("the id or the number of a project".into())
        }
    })
}

/// Whether a token that was exchanged for the identity of the job may be sent to a URL. A file that does not come from the default branch
/// of a runner repository may name hosts of the provider alone, and this machine.
fn may_get_identity(
    url: &Url,
    kind: &ProviderKind,
    region: Option<&str>,
    settings: &Settings<'_, '_>,
) -> bool {
    let host = url.host_str().unwrap_or_default();
    let default = kind.base_url.map(str::to_owned).or_else(|| default_cloud(kind.api()?, region));
    let default = default.and_then(|base| Url::parse(&base).ok());
    let ends: &[&str] = match kind.api() {
        Some(Api::OpenAi) => &OPENAI_HOSTS,
        Some(Api::Azure) => &AZURE_HOSTS,
        _ => &[],
    };
    let is_of_provider = ends.iter().any(|end| host.ends_with(end))
        || default.is_some_and(|default| default.host() == url.host() && default.port() == url.port());
    is_loopback(url) || url.scheme() == "https" && (is_of_provider || auth::is_operators(settings))
}

fn base_url(
    kind: &ProviderKind,
    api: Api,
    cloud: (&OptionalValue<String>, &OptionalValue<String>),
    settings: &mut Settings<'_, '_>,
) -> Result<String, UnknownValue> {
    let key = settings.spelled("base_url");
    if api == Api::OpenAi {
        settings.optional(key);
    }
    let has_key = ["api_key", "auth"].iter().any(|key| settings.node(key).is_some());
    let parsed = settings.parsed(key, |text| base(api, text));
    if let Ok(Some(base)) = &parsed
        && has_key
        && url(base).is_ok_and(|url| is_cleartext(&url))
        && let Ok(Some(setting)) = settings.get(key)
    {
        settings.warning(
            &setting.node.span,
            setting.variable.is_some(),
            format!("`{key}` is plain `http://`: the key crosses the network unencrypted"),
            "use `https://`, or a tunnel that ends on this machine",
        );
    }
    if let Ok(Some(base)) = &parsed
        && settings.node("auth").is_some()
        && url(base).is_ok_and(|url| {
            !may_get_identity(&url, kind, cloud.0.as_ref().ok().and_then(Option::as_deref), settings)
        })
        && let Ok(Some(setting)) = settings.get(key)
    {
        return Err(settings.error(
            &setting.node.span,
            format!("`{key}`: a token of this job is not sent to `{}`", printable(base)),
            "only `targets.yaml` on the default branch of a runner repository may name an `https://` host that is not the provider's",
        ));
    }
    if let Ok(Some(base)) = &parsed
        && url(base)
            .is_ok_and(|url| RETIRED.contains(&url.host_str().unwrap_or_default().trim_end_matches('.')))
        && let Ok(Some(setting)) = settings.get(key)
    {
        return Err(settings.error(
            &setting.node.span,
            format!("`{key}`: GitHub Models was retired on 2026-07-30"),
            "use a vendor's API; with `auth` instead of `api_key` it needs no stored key either (docs/keyless.md)",
        ));
    }
    match kind.base_url {
        Some(default) => Ok(parsed?.unwrap_or_else(|| default.to_owned())),
        None if matches!(api, Api::Bedrock | Api::Vertex) => cloud_url(api, parsed, cloud, settings),
        None if api == Api::Azure => {
            settings.required(key, parsed, "add `base_url: https://<resource>.openai.azure.com`")
        }
        None => settings.required(
            key,
            parsed,
            "add `base_url: https://…/v1`, up to but without `/chat/completions`",
        ),
    }
}

/// The host of a cloud's region.
fn cloud_url(
    api: Api,
    parsed: OptionalValue<String>,
    (region, project): (&OptionalValue<String>, &OptionalValue<String>),
    settings: &mut Settings<'_, '_>,
) -> Result<String, UnknownValue> {
    let region = region.clone();
    if api == Api::Bedrock {
        let region = settings.required("region", region, "add `region:`, such as `us-east-1`")?;
        return Ok(parsed?.or_else(|| default_cloud(api, Some(&region))).unwrap_or_default());
    }
    settings.required("project", project.clone(), "add `project:`, the Google Cloud project")?;
    let region = region?;
    Ok(parsed?.or_else(|| default_cloud(api, region.as_deref())).unwrap_or_default())
}

/// The URL of a cloud's region.
fn default_cloud(api: Api, region: Option<&str>) -> Option<String> {
    let host = match (api, region) {
        (Api::Bedrock, Some(region)) => format!("bedrock-runtime.{region}.amazonaws.com"),
        (Api::Vertex, None | Some("global")) => "aiplatform.googleapis.com".to_owned(),
        (Api::Vertex, Some(multi @ ("us" | "eu"))) => format!("aiplatform.{multi}.rep.googleapis.com"),
        (Api::Vertex, Some(region)) => format!("{region}-aiplatform.googleapis.com"),
        _ => return None,
    };
    Some(format!("https://{host}"))
}

/// The base as the user wrote it, without a trailing slash: the wire module knows which version and path it adds.
fn base(api: Api, text: &str) -> Result<String, Legal> {
    let text = match api {
        Api::Azure if !text.contains("://") => azure_resource(text)?,
        _ => text.to_owned(),
    };
    url(&text).map_err(|legal| match api {
        Api::Azure if text.contains('?') => legal.hint("the version belongs in `api_version`"),
        _ => legal,
    })?;
    let text = text.trim_end_matches('/');
    if CALLS.iter().any(|call| text.ends_with(call)) {
        return Err("a URL that ends before the path of the call, such as `/chat/completions`".into());
    }
    Ok(text.to_owned())
}

/// AgentV's `endpoint` of Azure may be just the resource name.
fn azure_resource(text: &str) -> Result<String, Legal> {
    let host = text.trim_end_matches('/');
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) {
        return Err(Legal::from("the URL or the name of an Azure resource"));
    }
    Ok(if host.contains('.') {
        format!("https://{host}")
    } else {
        format!("https://{host}.openai.azure.com")
    })
}

/// With a date, the deployment is part of the URL; `v1` needs none.
fn azure_version(settings: &mut Settings<'_, '_>) -> OptionalValue<String> {
    let key = settings.spelled("api_version");
    settings.optional(key);
    let version = settings.parsed(key, |text| {
        let date = text.strip_suffix("-preview").unwrap_or(text);
        let is_date = date.len() == 10
            && date
                .bytes()
                .enumerate()
                .all(|(i, b)| if matches!(i, 4 | 7) { b == b'-' } else { b.is_ascii_digit() });
        if is_date || text == "v1" {
            Ok(text.to_owned())
        } else {
            Err("a date such as `2024-10-21` or `2025-04-01-preview`, or `v1`".into())
        }
    })?;
    Ok(version.filter(|version| version != "v1"))
}
