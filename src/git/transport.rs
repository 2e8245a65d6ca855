//! How to reach a remote repository: allowed transports, the token, and the user's credential helpers.

use std::ffi::OsString;
use std::path::Path;

use base64::Engine as _;

use super::command::Git;
use super::config::pairs;
use super::isolated_repo::run_reporting;
use super::transient::retry_briefly;
use crate::model::Secret;
use crate::util::register_token;

/// Settings of every remote command.
const SETTINGS: [(&str, &str); 5] = [
    // Slower than this for a minute is a dead connection.
    ("http.lowSpeedLimit", "100"),
    ("http.lowSpeedTime", "60"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    // Keeps packs, and reports the received size.
    ("fetch.unpackLimit", "1"),
];

/// Settings that are taken from the user's configuration: credentials and network.
const OWN: [&str; 4] = ["credential.", "http.", "core.sshcommand", "ssh.variant"];

/// Schemes that the user's `url.<base>.insteadOf` may rewrite to: remote ones only.
const NETWORK: [&str; 3] = ["https://", "http://", "ssh://"];

/// Variables that helpers and ssh need to find their files and agents.
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

/// How to reach a repository.
#[derive(Debug, Clone)]
pub struct Transport {
    url: String,
    protocols: &'static str,
    token: Option<(String, Secret)>,
    own: Vec<(String, String)>,
}

impl Transport {
    /// A repository at this URL; local ones only if allowed.
    pub fn new(url: &str, allow_local: bool) -> Self {
        let protocols = if allow_local { "https:http:ssh:file" } else { "https:http:ssh" };
        Self { url: url.to_owned(), protocols, token: None, own: own_settings() }
    }

    /// Adds a token for all URLs with this prefix (`https://host/`).
    #[must_use]
    pub fn with_token(mut self, origin: &str, token: Secret) -> Self {
        register_token(&token);
        self.token = Some((origin.to_owned(), token));
        self
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL that git uses: the user's longest matching `insteadOf` replaces its prefix.
    pub fn asked(&self) -> String {
        let fits = self.own.iter().filter_map(|(key, from)| Some((rewritten_to(key)?, from)));
        let fits = fits.filter(|(_, from)| self.url.starts_with(from.as_str()));
        match fits.max_by_key(|(_, from)| from.len()) {
            Some((base, from)) => format!("{base}{}", &self.url[from.len()..]),
            None => self.url.clone(),
        }
    }

    /// Resolves names on the remote; each line is `<id>\t<name>` or `ref: <target>\t<name>`.
    pub fn list(&self, dir: &Path, names: &[&str]) -> anyhow::Result<String> {
        let listed = retry_briefly(|| {
            let mut list = Git::new("ls-remote")?;
            list.args(["--symref", "--", &self.url]).args(names).current_dir(dir);
            self.apply(&mut list, &[]);
            run_reporting(list, &|_| {})
        });
        Ok(String::from_utf8_lossy(&listed?).into_owned())
    }

    pub(super) fn apply(&self, git: &mut Git, settings: &[(String, String)]) {
        let header = self.token.as_ref().map(|(origin, token)| {
            let pair = format!("x-access-token:{}", token.expose());
            let value = base64::engine::general_purpose::STANDARD.encode(pair);
            (format!("http.{origin}.extraHeader"), format!("Authorization: Basic {value}"))
        });
        let own = self.own.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let given = settings.iter().chain(&header).map(|(key, value)| (key.as_str(), value.as_str()));
        // A redirect would forward the token.
        let redirects = if self.token.is_some() { "false" } else { "initial" };
        for (key, value) in own.chain(SETTINGS).chain([("http.followRedirects", redirects)]).chain(given) {
            git.set(key, value);
        }
        for name in OWN_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                git.env(name, value);
            }
        }
        git.allow(self.protocols);
        if !self.own.iter().any(|(key, _)| key == "core.sshcommand") {
            git.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        // Git does not read the variable that other programs read.
        if std::env::var_os("GIT_SSL_CAINFO").is_none()
            && let Some(certificates) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty())
        {
            git.env("GIT_SSL_CAINFO", certificates);
        }
    }
}

/// The user's and the system's settings for authentication.
fn own_settings() -> Vec<(String, String)> {
    let Ok(mut list) = Git::new("config") else { return Vec::new() };
    list.args(["--list", "-z"]).current_dir(Path::new("/"));
    list.env_remove("GIT_CONFIG_NOSYSTEM").env_remove("GIT_CONFIG_GLOBAL");
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            list.env(name, value);
        }
    }
    for (name, value) in settings_in_the_environment() {
        list.env(name, value);
    }
    // Ignore a broken user configuration: git itself reports it to the user.
    let listed = list.run().unwrap_or_default();
    let is_own = |key: &str| OWN.iter().any(|own| key.starts_with(own)) || rewritten_to(key).is_some();
    pairs(&listed).into_iter().filter(|(key, _)| is_own(key)).collect()
}

/// The variables with which a CI job gives git settings without a file: `GIT_CONFIG_COUNT`, `GIT_CONFIG_KEY_0`, ….
fn settings_in_the_environment() -> impl Iterator<Item = (OsString, OsString)> {
    const STARTS: [&str; 2] = ["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"];
    std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name == "GIT_CONFIG_COUNT" || STARTS.iter().any(|start| name.starts_with(start))
    })
}

/// The base of a `url.<base>.insteadof` setting, if it is remote.
fn rewritten_to(key: &str) -> Option<&str> {
    let base = key.strip_prefix("url.")?.strip_suffix(".insteadof")?;
    // `git@host:path`. Remote helpers (`ext::…`) and directories are not remote machines.
    let is_short = base.split_once(':').is_some_and(|(host, rest)| {
        !host.is_empty()
            && !host.contains('/')
            && !host.starts_with('-')
            && !rest.starts_with(':')
            && !rest.starts_with("//")
    });
    (is_short || NETWORK.iter().any(|scheme| base.starts_with(scheme))).then_some(base)
}
