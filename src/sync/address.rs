//! Repository addresses: which are allowed, and which get the token.

use std::path::PathBuf;

use reqwest::Url;

use crate::git::Transport;
use crate::model::{Secret, printable};
use crate::util::process_env::ProcessEnv;

/// The token of a step, valid for the server that the workflow runs on.
const STEP_TOKEN: &str = "INPUT_TOKEN";
/// Tokens for github.com and `*.ghe.com`, and for an Enterprise Server.
const TOKENS: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
const ENTERPRISE_TOKENS: [&str; 2] = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

/// What kind of address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    Web,
    Ssh,
    Local,
}

/// Why an address is not allowed, and what to write instead.
pub(super) fn check(url: &str) -> Result<(), (String, String)> {
    let shown = printable(&without_userinfo(url));
    let legal = "write `https://host/owner/name`, `ssh://git@host/owner/name`, `git@host:owner/name` or, with `--allow-local`, a path";
    let kind =
        kind(url).ok_or_else(|| (format!("`url`: `{shown}` is not an allowed address"), legal.to_owned()))?;
    if kind == AddressKind::Web {
        let has_host = !url.contains(":///");
        let parsed = Url::parse(url).ok().filter(|url| has_host && url.has_host());
        let parsed =
            parsed.ok_or_else(|| (format!("`url`: `{shown}` is not an address"), legal.to_owned()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            let hint =
                "remove the user and the password: git's credential helpers and `GITHUB_TOKEN` authenticate";
            return Err((format!("`url`: `{shown}` contains a user or a password"), hint.to_owned()));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err((format!("`url`: `{shown}` contains a `?` or a `#`"), legal.to_owned()));
        }
    }
    if kind == AddressKind::Ssh {
        let after = url.strip_prefix("ssh://").unwrap_or(url);
        let authority = after.split(['/']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') || user.starts_with('-') || host.starts_with('-') || host.is_empty() {
            let hint = "ssh authenticates with a key: write `ssh://git@host/owner/name`";
            return Err((format!("`url`: `{shown}` is not an ssh address"), hint.to_owned()));
        }
    }
    Ok(())
}

/// Whether it is a directory on this machine.
pub(super) fn is_local(url: &str) -> bool {
    kind(url) == Some(AddressKind::Local)
}

/// The address in comparable form: GitHub accepts a name with and without `.git`.
pub(super) fn same(one: &str, other: &str) -> bool {
    let bare = |url: &str| url.trim_end_matches('/').trim_end_matches(".git").to_owned();
    bare(one) == bare(other)
}

/// How to reach the repository: with the token if the host is GitHub, and the token itself.
pub(super) fn reach(url: &str, allow_local: bool, env: &ProcessEnv) -> (Transport, Option<Secret>) {
    // A repository of another machine must not refer to local ones, nor may its submodules.
    let reach = Transport::new(url, allow_local && is_local(url));
    match token(&reach.asked(), env) {
        Some((origin, token)) => (reach.with_token(&origin, token.clone()), Some(token)),
        None => (reach, None),
    }
}

/// The token for this address, and the prefix of all addresses that may get it.
fn token(url: &str, env: &ProcessEnv) -> Option<(String, Secret)> {
    let parsed = Url::parse(url).ok()?;
    let host = parsed.host_str()?;
    let is_loopback = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    if parsed.scheme() != "https" && !(parsed.scheme() == "http" && is_loopback) {
        return None;
    }
    let origin = parsed.origin().ascii_serialization();
    let is_github = parsed.scheme() == "https"
        && parsed.port().is_none()
        && (host == "github.com" || host.ends_with(".ghe.com"));
    let server = Url::parse(env.get("GITHUB_SERVER_URL").unwrap_or("https://github.com")).ok();
    let is_server = server.is_some_and(|server| server.origin().ascii_serialization() == origin);
    let names = match (is_github, is_server) {
        (true, _) => TOKENS,
        (false, true) => ENTERPRISE_TOKENS,
        (false, false) => return None,
    };
    let names = is_server.then_some(STEP_TOKEN).into_iter().chain(names);
    let token = names.into_iter().find_map(|name| env.get(name)).map(str::trim)?;
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| (format!("{origin}/"), Secret::new(token)))
}

fn kind(url: &str) -> Option<AddressKind> {
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) && !url.starts_with('/') {
        return None;
    }
    if let Some((scheme, _)) = url.split_once("://") {
        return match scheme {
            "https" | "http" => Some(AddressKind::Web),
            "ssh" => Some(AddressKind::Ssh),
            "file" => Some(AddressKind::Local),
            _ => None,
        };
    }
    // `ext::sh -c …` and all other helpers.
    if url.contains("::") || url.starts_with('-') {
        return None;
    }
    if PathBuf::from(url).is_absolute() {
        return Some(AddressKind::Local);
    }
    let colon = url.find(':')?;
    (!url[..colon].contains('/')).then_some(AddressKind::Ssh)
}

/// The address without the part before the `@`.
pub(super) fn without_userinfo(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if scheme != "ssh" => format!("{scheme}://{}", &rest[at + 1..]),
        _ => url.to_owned(),
    }
}

/// A text with users and passwords removed from all addresses: its lines appear in messages.
pub(super) fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "/'\"".contains(c)).unwrap_or(after.len());
        rest = after;
        if let Some(user) = after[..end].rfind('@').filter(|_| !before.ends_with("ssh://")) {
            out.push_str("***");
            rest = &after[user..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steps_token_is_sent_only_to_the_server_of_its_workflow() {
        let got = |url: &str, server: Option<&str>| {
            let server = server.map(|server| ("GITHUB_SERVER_URL", server));
            let all = ProcessEnv::of([("INPUT_TOKEN", "of-the-step")].into_iter().chain(server));
            token(url, &all).map(|(origin, token)| (origin, token.expose().to_owned()))
        };
        let step = |origin: &str| Some((origin.to_owned(), "of-the-step".to_owned()));
        let ghes = Some("https://ghes.example.com");
        assert_eq!(got("https://github.com/o/r", None), step("https://github.com/"));
        assert_eq!(got("https://github.com/o/r", Some("https://github.com")), step("https://github.com/"));
        assert_eq!(got("https://ghes.example.com/o/r", ghes), step("https://ghes.example.com/"));
        for url in ["https://github.com/o/r", "https://our.ghe.com/o/r", "https://ghes.example.com:444/o/r"] {
            assert_eq!(got(url, ghes), None, "{url}");
        }
        assert_eq!(got("https://our.ghe.com/o/r", None), None);
    }
}
