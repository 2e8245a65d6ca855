//! The tokens, from files or a variable. Several may be valid at once, so that one can be replaced without a gap.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::model::{Failure, Secret};
use crate::util::process_env::ProcessEnv;

/// The variables with tokens, if no file is given; the first that is set wins.
pub const TOKEN_VARIABLES: [&str; 2] = ["RUN_EVALS_SERVE_TOKEN", "MINDROUTER_EVAL_WEBHOOK_TOKEN"];
/// Shorter tokens could be guessed.
const SHORTEST: usize = 32;
/// More are not a rotation but an unmaintained list.
const MOST: usize = 8;
const HOW: &str = "generate one with `openssl rand -hex 32`";

/// The process variable with the service's token; an empty one counts as unset, because a missing secret in a workflow is empty.
pub fn token_variable(env: &ProcessEnv) -> Option<(&'static str, Secret)> {
    let set = |name: &'static str| {
        let value = env.get(name).filter(|value| !value.trim().is_empty())?;
        Some((name, Secret::new(value)))
    };
    TOKEN_VARIABLES.into_iter().find_map(set)
}

/// Where tokens come from.
#[derive(Debug, Clone)]
pub struct TokenSource {
    /// The option that names the files.
    pub option: &'static str,
    /// Files with one token per line; lines that start with `#` are comments.
    pub files: Vec<PathBuf>,
    /// A variable and its value: tokens separated by white space. Only read if there is no file.
    pub variable: Option<(&'static str, Secret)>,
    /// Whether there may be none, because other tokens give access.
    pub may_be_none: bool,
}

impl TokenSource {
    /// Files alone, if there are any.
    pub fn files(option: &'static str, files: Vec<PathBuf>) -> Option<Self> {
        let source = Self { option, files, variable: None, may_be_none: false };
        (!source.files.is_empty()).then_some(source)
    }
}

/// The permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Full,
    /// Read everything, change nothing.
    ReadOnly,
}

impl Role {
    /// Separates the session keys of the roles: a session of one is never valid for the other, even if its token moves to the other file.
    fn purpose(self) -> &'static [u8] {
        match self {
            Self::Full => b"session\0",
            Self::ReadOnly => b"read-only session\0",
        }
    }
}

/// The digests of the valid tokens.
pub struct Tokens {
    source: TokenSource,
    role: Role,
    digests: RwLock<Vec<[u8; 32]>>,
}

impl Tokens {
    /// Reads the tokens and returns them once: only digests are kept.
    pub fn load(source: TokenSource, role: Role) -> Result<(Self, Vec<Secret>), Failure> {
        let tokens = read(&source)?;
        let digests = RwLock::new(tokens.iter().map(digest).collect());
        Ok((Self { source, role, digests }, tokens))
    }

    /// Reads them again and returns them; on failure the old ones stay valid.
    pub fn reload(&self) -> Result<Vec<Secret>, Failure> {
        let fresh = read(&self.source)?;
        *self.digests.write().unwrap_or_else(PoisonError::into_inner) = fresh.iter().map(digest).collect();
        Ok(fresh)
    }

    /// How many are valid.
    pub fn count(&self) -> usize {
        self.digests.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether this is a valid token, in constant time.
    pub fn holds(&self, token: &str) -> bool {
        self.session_key(token).is_some()
    }

    /// The session-signing key of this token, if it is valid, in constant time.
    pub fn session_key(&self, token: &str) -> Option<[u8; 32]> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let digests = self.digests.read().unwrap_or_else(PoisonError::into_inner);
        let found = digests.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        bool::from(found).then(|| self.key_of(&digest))
    }

    /// The session key of each valid token, without those that `others` also has: removing a token ends the sessions that it
    /// started.
    fn session_keys(&self, others: Option<&Self>) -> Vec<[u8; 32]> {
        let others = others.map(Self::digests).unwrap_or_default();
        let own = self.digests();
        own.iter().filter(|digest| !others.contains(digest)).map(|digest| self.key_of(digest)).collect()
    }

    fn digests(&self) -> Vec<[u8; 32]> {
        self.digests.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn key_of(&self, digest: &[u8; 32]) -> [u8; 32] {
        Sha256::new_with_prefix(self.role.purpose()).chain_update(digest).finalize().into()
    }
}

/// The tokens of the service: full and read-only ones.
#[derive(Debug)]
pub struct Access {
    /// Full access.
    pub full: Tokens,
    /// Read-only access.
    pub read_only: Option<Tokens>,
}

impl Access {
    /// Refuses a token that is both in the read-only file and in another: it would be more than read-only.
    pub fn check(&self, trace: Option<&Tokens>) -> Result<(), Failure> {
        let Some(read_only) = &self.read_only else { return Ok(()) };
        let known = read_only.digests();
        for other in [Some(&self.full), trace].into_iter().flatten() {
            if other.digests().iter().any(|digest| known.contains(digest)) {
                let text = format!(
                    "a read-only token is also a token of {}",
                    other.source.variable.as_ref().filter(|_| other.source.files.is_empty()).map_or_else(
                        || format!("`{}`", other.source.option),
                        |(variable, _)| format!("the variable `{variable}`")
                    )
                );
                return Err(Failure::config(text).hint(format!("give readers a separate token: {HOW}")));
            }
        }
        Ok(())
    }

    /// The role of a token, and the key to sign its sessions. A token of both kinds is read-only.
    pub fn role(&self, token: &str) -> Option<(Role, [u8; 32])> {
        let full = self.full.session_key(token).map(|key| (Role::Full, key));
        let read_only = self.read_only.as_ref().and_then(|tokens| tokens.session_key(token));
        read_only.map(|key| (Role::ReadOnly, key)).or(full)
    }

    /// The session key of each valid token.
    pub fn session_keys(&self) -> Vec<(Role, [u8; 32])> {
        let of = |role, keys: Vec<[u8; 32]>| keys.into_iter().map(move |key| (role, key));
        let full = self.full.session_keys(self.read_only.as_ref());
        let read_only = self.read_only.as_ref().map(|tokens| tokens.session_keys(None)).unwrap_or_default();
        of(Role::ReadOnly, read_only).chain(of(Role::Full, full)).collect()
    }

    /// How many tokens are valid.
    pub fn count(&self) -> (usize, usize) {
        (self.full.count(), self.read_only.as_ref().map_or(0, Tokens::count))
    }
}

fn digest(token: &Secret) -> [u8; 32] {
    Sha256::digest(token.expose().as_bytes()).into()
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("count", &self.count()).finish_non_exhaustive()
    }
}

fn read(source: &TokenSource) -> Result<Vec<Secret>, Failure> {
    let mut all = Vec::new();
    for path in &source.files {
        let place = format!("`{}`", path.display());
        let text = read_file(path, &place, source.option)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let before = all.len();
        add(&mut all, lines, &place)?;
        if all.len() == before {
            return Err(Failure::config(format!("no token in {place}")).hint(HOW));
        }
    }
    if source.files.is_empty() {
        let Some((variable, value)) = &source.variable else {
            if source.may_be_none {
                return Ok(all);
            }
            let variable = TOKEN_VARIABLES[0];
            let how = format!("pass a file with `--auth-token-file`, or set `{variable}`; {HOW}");
            return Err(Failure::config("no token for clients").hint(how));
        };
        let place = format!("the variable `{variable}`");
        add(&mut all, value.expose().split_ascii_whitespace(), &place)?;
        if all.is_empty() {
            return Err(Failure::config(format!("no token in {place}")).hint(HOW));
        }
    }
    if all.len() > MOST {
        let hint = "two are enough for a rotation";
        return Err(Failure::config(format!("{} tokens; at most {MOST} are allowed", all.len())).hint(hint));
    }
    Ok(all)
}

fn add<'a>(all: &mut Vec<Secret>, tokens: impl Iterator<Item = &'a str>, place: &str) -> Result<(), Failure> {
    for (index, token) in tokens.enumerate() {
        let number = index + 1;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let text = format!("token {number} in {place} contains characters other than visible ASCII");
            return Err(Failure::config(text).hint(HOW));
        }
        if token.len() < SHORTEST {
            let text = format!(
                "token {number} in {place} has {} characters, at least {SHORTEST} are needed",
                token.len()
            );
            return Err(Failure::config(text).hint(HOW));
        }
        all.push(Secret::new(token));
    }
    Ok(())
}

fn read_file(path: &Path, place: &str, option: &str) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::config(format!("cannot read the tokens in {place}: {error}"))
            .hint(format!("`{option}` takes a file with one token per line; {HOW}"))
    };
    let mode = std::fs::metadata(path).map_err(cannot)?.mode();
    // systemd credentials are readable for the group, but a world-readable file is not secret.
    if mode & 0o007 != 0 || mode & 0o020 != 0 {
        let text =
            format!("{place} is open to others (mode {:04o}): its tokens are not secret", mode & 0o7777);
        return Err(Failure::config(text).hint(format!("chmod 600 {} and replace the token", path.display())));
    }
    std::fs::read_to_string(path).map_err(cannot)
}
