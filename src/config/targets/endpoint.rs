//! The address of a provider, and its key.

use super::settings::{Read, Settings, Unknown};
use super::values::{Legal, is_cleartext, url};
use crate::config::{Env, Node, Reference};
use crate::model::{Api, Endpoint, ProviderKind, Secret, printable};
use crate::util::{ca, regular_file};

/// A literal below this length is no secret but a word like `EMPTY` or `ollama`, for servers that want any key.
const SHORTEST_SECRET: usize = 8;

/// What a file with certificates is.
const CA_HINT: &str =
    "the file has the certificates of the CA in PEM format, which begin with `-----BEGIN CERTIFICATE-----`";

/// What the spellings of `base_url` end with where the path of the call itself was pasted too.
const CALLS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// Reads where an API is reached.
pub(super) fn read(
    kind: &ProviderKind,
    api: Api,
    settings: &mut Settings<'_, '_>,
) -> Result<Endpoint, Unknown> {
    let base_url = base_url(kind, api, settings);
    let api_key = api_key(kind, base_url.as_deref().ok(), settings);
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
        api_key: api_key?,
        ca_pem: ca_pem?,
    })
}

/// The certificates of a private CA. A file that was not read yet is not missed where only the shape is checked.
fn ca(settings: &mut Settings<'_, '_>) -> Result<Vec<u8>, Unknown> {
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
        Unknown
    })
}

fn base_url(kind: &ProviderKind, api: Api, settings: &mut Settings<'_, '_>) -> Result<String, Unknown> {
    let key = settings.spelled("base_url");
    if api == Api::OpenAi {
        settings.optional(key);
    }
    let has_key = settings.node("api_key").is_some();
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
    match kind.base_url {
        Some(default) => Ok(parsed?.unwrap_or_else(|| default.to_owned())),
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

/// The base as the user wrote it, without a trailing slash: the wire knows which version and path it adds.
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

/// AgentV's `endpoint` of Azure may be the mere name of the resource.
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

/// With a date the deployment stands in the URL; `v1` is the surface that needs none.
fn azure_version(settings: &mut Settings<'_, '_>) -> Read<String> {
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

fn api_key(kind: &ProviderKind, base_url: Option<&str>, settings: &mut Settings<'_, '_>) -> Read<Secret> {
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
            Some(_) => {
                settings.required("api_key", Ok(None), &format!("add `api_key: {reference}`")).map(Some)
            }
            None => Ok(None),
        };
    };
    if let Some(name) = key.variable.as_deref().filter(|name| Env::is_identity(name))
        && !base_url.is_some_and(is_of_github)
    {
        return Err(settings.error(
            &key.node.span,
            format!("`{name}` says who you are on GitHub: it is not sent to a model's server"),
            format!("write `api_key: {reference}`, a variable that holds the key of this server"),
        ));
    }
    let text = key.text().unwrap_or_default().trim();
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let place = key
            .variable
            .as_ref()
            .map_or_else(|| "`api_key`".to_owned(), |name| format!("the key in `{name}`"));
        return Err(settings.error(
            &key.node.span,
            format!("{place} has white space, control characters or letters that no key has"),
            "copy the key again, without quotes and line breaks",
        ));
    }
    Ok(Some(Secret::new(text)))
}

/// Whether GitHub serves models there, for which its tokens are the keys.
fn is_of_github(base_url: &str) -> bool {
    url(base_url).is_ok_and(|url| url.scheme() == "https" && url.host_str() == Some("models.github.ai"))
}

/// Why this cannot be the value of `api_key`: the key, or the default of its reference, stands in the file itself.
fn refusal(kind: &ProviderKind, node: &Node) -> Option<&'static str> {
    const IN_FILE: &str = "a key must not stand in this file";
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
