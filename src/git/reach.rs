//! How another repository is reached: the transports that are allowed, the token where it belongs, and the user's own
//! credential helpers.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;

use super::command::{command, run};
use super::place::{pairs, run_told, set};
use crate::model::Secret;

/// What holds for every command that reaches another machine.
const SETTINGS: [(&str, &str); 8] = [
    // Slower than this for a minute is a dead connection.
    ("http.lowSpeedLimit", "100"),
    ("http.lowSpeedTime", "60"),
    ("core.fsmonitor", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("maintenance.auto", "false"),
    // A pack stays a pack, and says how much was received.
    ("fetch.unpackLimit", "1"),
];

/// Of the user's own configuration: who they are elsewhere, and how the network is reached.
const OWN: [&str; 4] = ["credential.", "http.", "core.sshcommand", "ssh.variant"];

/// What helpers and ssh need to find their own files and agents.
const OWN_VARIABLES: [&str; 9] = [
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_CONFIG_DIR",
    "SSH_AUTH_SOCK",
    "USER",
    "LOGNAME",
    "GNUPGHOME",
];

/// How a repository is reached.
#[derive(Debug, Clone)]
pub struct Reach {
    url: String,
    protocols: &'static str,
    token: Option<(String, Secret)>,
    own: Vec<(String, String)>,
}

impl Reach {
    /// A repository at this address, over the network alone unless local ones are allowed.
    pub fn new(url: &str, allow_local: bool) -> Self {
        let protocols = if allow_local { "https:http:ssh:file" } else { "https:http:ssh" };
        Self { url: url.to_owned(), protocols, token: None, own: own_settings() }
    }

    /// The same with a token for everything that begins with this address (`https://host/`).
    #[must_use]
    pub fn with_token(mut self, origin: &str, token: Secret) -> Self {
        self.token = Some((origin.to_owned(), token));
        self
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the other side calls by these names: each line `<id>\t<name>` or `ref: <target>\t<name>`.
    pub fn list(&self, dir: &Path, names: &[&str]) -> anyhow::Result<String> {
        let mut list = command("ls-remote")?;
        list.args(["--symref", "--", &self.url]).args(names).current_dir(dir);
        list.env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir));
        self.apply(&mut list, &[]);
        Ok(String::from_utf8_lossy(&run_told(list, "ls-remote", &|_| {})?).into_owned())
    }

    pub(super) fn apply(&self, command: &mut Command, settings: &[(String, String)]) {
        let header = self.token.as_ref().map(|(origin, token)| {
            let pair = format!("x-access-token:{}", token.expose());
            let value = base64::engine::general_purpose::STANDARD.encode(pair);
            (format!("http.{origin}.extraHeader"), format!("Authorization: Basic {value}"))
        });
        let own = self.own.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let given = settings.iter().chain(&header).map(|(key, value)| (key.as_str(), value.as_str()));
        // A redirect would take the token along.
        let redirects = if self.token.is_some() { "false" } else { "initial" };
        set(command, own.chain(SETTINGS).chain([("http.followRedirects", redirects)]).chain(given));
        for name in OWN_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("GIT_ALLOW_PROTOCOL", self.protocols).env_remove("SSH_ASKPASS");
        if !self.own.iter().any(|(key, _)| key == "core.sshcommand") {
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        // Git does not read the variable that everything else reads.
        if std::env::var_os("GIT_SSL_CAINFO").is_none()
            && let Some(certificates) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty())
        {
            command.env("GIT_SSL_CAINFO", certificates);
        }
    }
}

/// The settings of the user and of the machine that tell how to authenticate.
fn own_settings() -> Vec<(String, String)> {
    let Ok(mut list) = command("config") else { return Vec::new() };
    list.args(["--list", "-z"]).current_dir("/").env("GIT_DIR", "/dev/null");
    list.env_remove("GIT_CONFIG_NOSYSTEM").env_remove("GIT_CONFIG_GLOBAL");
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            list.env(name, value);
        }
    }
    // A broken file of the user's is git's to complain about, when they use git.
    let listed = run(list, "config").unwrap_or_default();
    let is_own = |key: &str| OWN.iter().any(|own| key.starts_with(own));
    pairs(&listed).into_iter().filter(|(key, _)| is_own(key)).collect()
}
