//! Environment values: the process environment, then `.env` files.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::model::{JobIdentity, Secret};
use crate::util::process_env::ProcessEnv;
use crate::util::regular_file;
use crate::util::secrets::{is_known_secret, is_secret_name};

/// The variables that identify the user, besides all that begin with `RUN_EVALS_`.
const IDENTITY: [&str; 7] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "INPUT_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
];

/// The values that `${{ NAME }}` refers to: the process environment, then `.env` files for unset names. The user's identity
/// and GitHub's address come only from [`Env::process`]: a `.env` file may have come with a checkout.
#[derive(Clone, Default)]
pub struct Env {
    process: ProcessEnv,
    /// Variables that only `.env` files set.
    added: HashMap<String, String>,
    secrets: BTreeSet<String>,
    /// Whether to act as a job with an identity.
    has_assumed_job: bool,
}

impl Env {
    /// The environment of this process, with the variables of [`IDENTITY`] marked as secrets.
    pub fn from_process() -> Self {
        let secrets = IDENTITY.map(ToOwned::to_owned).into();
        Self { process: ProcessEnv::read(), secrets, ..Self::default() }
    }

    /// The environment of the process alone.
    pub fn process(&self) -> &ProcessEnv {
        &self.process
    }

    /// Whether a variable holds the user's identity: it is sent only to GitHub or to the service it belongs to.
    pub fn is_identity(name: &str) -> bool {
        IDENTITY.contains(&name) || name.starts_with("RUN_EVALS_")
    }

    /// The value of a variable; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        let added = || self.added.get(name).map(String::as_str).filter(|value| !value.is_empty());
        self.process.get(name).or_else(added)
    }

    /// The names of all variables, in order.
    pub fn names(&self) -> Vec<&str> {
        let added = self.added.keys().map(String::as_str);
        let names: BTreeSet<&str> = self.process.names().chain(added).collect();
        names.into_iter().collect()
    }

    /// Marks variables that hold a key: nothing that leaves the process may refer to them.
    pub fn mark_secret(&mut self, names: impl IntoIterator<Item = String>) {
        self.secrets.extend(names);
    }

    /// Whether a variable holds a key: it was marked, or its name or value looks like one.
    pub fn is_secret(&self, name: &str) -> bool {
        self.secrets.contains(name) || is_secret_name(name) || self.get(name).is_some_and(is_known_secret)
    }

    /// The marked variables that are set.
    pub fn secrets(&self) -> impl Iterator<Item = Secret> {
        self.secrets.iter().filter_map(|name| self.get(name)).map(Secret::new)
    }

    /// Sets each of these names that is unset.
    pub fn set_where_unset(&mut self, names: impl IntoIterator<Item = String>, value: &str) {
        for name in names {
            if self.get(&name).is_none() {
                self.added.insert(name, value.to_owned());
            }
        }
    }

    /// Where this GitHub Actions job requests identity tokens; `None` without the permission. Like every identity, it comes from
    /// the process environment only.
    pub fn job_identity(&self) -> Option<JobIdentity> {
        let [url, token] = JobIdentity::VARIABLES.map(|name| self.process.get(name));
        let assumed = self.has_assumed_job.then_some("unset");
        let (url, token) = url.zip(token).or(assumed.zip(assumed))?;
        Some(JobIdentity { request_url: url.to_owned(), request_token: Secret::new(token) })
    }

    /// Treats this process as a job with an identity, to read targets that will run in one.
    pub fn assume_job(&mut self) {
        self.has_assumed_job = true;
    }

    /// The marked variables, and those whose name or value looks like a key.
    pub fn likely_secrets(&self) -> Vec<Secret> {
        let names = self.names().into_iter().filter(|name| self.is_secret(name));
        names.filter_map(|name| self.get(name)).map(Secret::new).collect()
    }

    /// Adds the variables of `dir/.env` that are not set yet.
    pub fn add_dotenv(&mut self, dir: &Path) -> std::io::Result<()> {
        match regular_file::read_to_string(&dir.join(".env"), regular_file::SETTINGS) {
            Ok(text) => {
                for (name, value) in parse_dotenv(&text) {
                    if !self.process.has(&name) {
                        self.added.entry(name).or_insert(value);
                    }
                }
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Env {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self { process: ProcessEnv::of(pairs), ..Self::default() }
    }
}

// Most values are secrets.
impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({} values)", self.names().len())
    }
}

/// `NAME=value` lines: comments, `export`, quotes, `\n` in double quotes, ` #` after an unquoted value.
fn parse_dotenv(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if name.starts_with('#') || !is_name(name) {
            continue;
        }
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => {
                let inner = &value[1..];
                let inner = inner.find(quote).map_or(inner, |end| &inner[..end]);
                if quote == '"' { inner.replace("\\n", "\n") } else { inner.to_owned() }
            }
            _ => value.split(" #").next().unwrap_or_default().trim_end().to_owned(),
        };
        pairs.push((name.to_owned(), value));
    }
    pairs
}

/// Whether this can be the name of a variable.
pub(super) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotenv_lines() {
        let text = "# c\nA=1\nexport B = two words # note\nC=\"x\\ny\" # z\nD='a # b'\nbad line\n=x\n1X=2\nE=a=b#c\nF=\n";
        let pairs: Vec<_> = parse_dotenv(text).into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(pairs, ["A=1", "B=two words", "C=x\ny", "D=a # b", "E=a=b#c", "F="]);
    }

    #[test]
    fn secrets_are_marked_or_recognized_by_their_name() {
        let mut env = Env::from([("ORG", "value-of-org"), ("OTHER_KEY", "value-of-key")]);
        env.mark_secret(["ORG".to_owned(), "UNSET".to_owned()]);
        for secret in ["ORG", "OTHER_KEY", "INPUT_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password"] {
            assert!(env.is_secret(secret), "{secret}");
        }
        for other in ["MONKEY", "TOKENS", "KEY_NAME", "DATASET"] {
            assert!(!env.is_secret(other), "{other}");
        }
        assert_eq!(
            env.secrets().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>(),
            ["value-of-org"]
        );
        let likely = env.likely_secrets();
        assert_eq!(likely.iter().map(Secret::expose).collect::<Vec<_>>(), ["value-of-org", "value-of-key"]);
    }

    #[test]
    fn the_process_environment_overrides_dotenv() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "A=file\nB=file\n").unwrap();
        let mut env = Env::from([("A", "process")]);
        env.add_dotenv(dir.path()).unwrap();
        assert_eq!((env.get("A"), env.get("B"), env.get("C")), (Some("process"), Some("file"), None));
        assert_eq!((env.process().get("A"), env.process().get("B")), (Some("process"), None));
    }
}
