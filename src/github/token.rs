//! Finds the token.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reqwest::Url;

use super::transport::host;
use crate::model::{Exit, Failure, Secret};
use crate::util::process_env::ProcessEnv;
use crate::util::programs;

/// The action's `token` input.
const INPUT: &str = "INPUT_TOKEN";
/// For github.com and `*.ghe.com`.
const VARIABLES: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
/// For other hosts, which must not get a token of github.com.
const ENTERPRISE_VARIABLES: [&str; 2] = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

const GH_LIMIT: Duration = Duration::from_secs(10);
const GH_POLL: Duration = Duration::from_millis(20);

/// Sources of a token, in this order: file, action input, environment, `gh`.
pub struct TokenSources<'a> {
    /// URL of GitHub's API.
    pub api_url: &'a str,
    pub token_file: Option<&'a Path>,
    /// The process environment; a file of a checkout never provides credentials.
    pub env: &'a ProcessEnv,
    /// Path of the GitHub CLI, if installed.
    pub gh: Option<&'a Path>,
}

/// The first token found. Blocks for up to ten seconds if it runs `gh`.
pub fn find_token(sources: &TokenSources<'_>) -> Result<Secret, Failure> {
    if let Some(file) = sources.token_file {
        return from_file(file);
    }
    let host = web_host(sources.api_url);
    let enterprise = is_enterprise(&host);
    let variables = if enterprise { ENTERPRISE_VARIABLES } else { VARIABLES };
    for name in [INPUT].iter().chain(&variables) {
        // An unset input is an empty variable.
        let value = sources.env.get(name).filter(|value| !value.trim().is_empty());
        if let Some(value) = value {
            return checked(value, &format!("`{name}`"));
        }
    }
    let gh = match ask_gh(sources.gh, &host) {
        Ok(token) => return checked(&token, "`gh auth token`"),
        Err(why) => why,
    };
    let [first, second] = variables;
    let is_set = |name: &&&str| enterprise && sources.env.get(name).is_some();
    let other = match VARIABLES.iter().find(is_set) {
        Some(name) => format!("; `{name}` is set, but is sent to github.com and `*.ghe.com` only"),
        None => String::new(),
    };
    let message = format!(
        "no GitHub token for `{host}`: no `--token-file`, no `token` input, no `{first}`, no `{second}`, and {gh}{other}"
    );
    Err(Failure::new(Exit::Config, message).hint(format!(
        "set `{first}` to a token of `{host}`, or sign in with `gh auth login --hostname {host}`"
    )))
}

/// The web host: github.com and `*.ghe.com` have a separate API host.
pub(super) fn web_host(api_url: &str) -> String {
    let host = Url::parse(api_url.trim()).map(|url| host(&url)).unwrap_or_default();
    match host.strip_prefix("api.") {
        Some(web) if !is_enterprise(web) => web.to_owned(),
        _ => host,
    }
}

/// Whether a web host is neither github.com nor a tenant of ghe.com.
pub(super) fn is_enterprise(host: &str) -> bool {
    host != "github.com" && !host.ends_with(".ghe.com")
}

fn from_file(file: &Path) -> Result<Secret, Failure> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::config(format!("cannot read the token file `{shown}`: {error}"))
            .hint("`--token-file` takes a file that contains only the token")
    })?;
    checked(&text, &format!("`{shown}`"))
}

fn checked(text: &str, from: &str) -> Result<Secret, Failure> {
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::config(format!("{from} holds no token")).hint("it must contain only the token"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::config(format!("{from} contains a line break or another illegal character"))
            .hint("it must contain only the token"));
    }
    Ok(Secret::new(token))
}

/// The token of `gh`; the error says why there is none.
fn ask_gh(gh: Option<&Path>, host: &str) -> Result<String, String> {
    let question = format!("gh auth token --hostname {host}");
    let missing = || "`gh` is not installed".to_owned();
    let mut child = Command::new(gh.ok_or_else(missing)?)
        .args(["auth", "token", "--hostname", host])
        .env("PATH", programs::path())
        .env("GH_PROMPT_DISABLED", "1")
        .env("GH_NO_UPDATE_NOTIFIER", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(),
            _ => format!("`gh` cannot be started ({error})"),
        })?;
    let deadline = Instant::now() + GH_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < deadline => thread::sleep(GH_POLL),
            _ => {
                // It may have just exited.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`{question}` did not respond within {} s", GH_LIMIT.as_secs()));
            }
        }
    }
    let output =
        child.wait_with_output().map_err(|error| format!("`{question}` cannot be read ({error})"))?;
    let token = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !token.is_empty() {
        Ok(token)
    } else {
        Err(format!("`{question}` has none"))
    }
}
