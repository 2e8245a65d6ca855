//! The tokens: from files or a variable, several valid at once, so that one can be replaced without a gap.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::model::{Failure, Secret};
use crate::util::process_env::ProcessEnv;

/// The variables with tokens, if no file is named; the first that is set counts.
pub const TOKEN_VARIABLES: [&str; 2] = ["RUN_EVALS_SERVE_TOKEN", "MINDROUTER_EVAL_WEBHOOK_TOKEN"];
/// Fewer characters could be guessed.
const SHORTEST: usize = 32;
/// More than these are no rotation any more, but a list that nobody looks after.
const MOST: usize = 8;
const HOW: &str = "make one with `openssl rand -hex 32`";

/// The variable of the process that has the token of the service; an empty one is what a missing secret looks like in a workflow.
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
    /// Files with one token a line; lines that start with `#` are comments.
    pub files: Vec<PathBuf>,
    /// A variable and its value: tokens with white space between them. Only read if there is no file.
    pub variable: Option<(&'static str, Secret)>,
    /// Whether there may be none at all, because others open what is served.
    pub may_be_none: bool,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Full,
    /// Look at everything, change nothing.
    ReadOnly,
}

impl Role {
    /// What keeps the session keys of the roles apart: a session of one is never one of the other, whatever file its token moves to.
    fn purpose(self) -> &'static [u8] {
        match self {
            Self::Full => b"session\0",
            Self::ReadOnly => b"read-only session\0",
        }
    }
}

/// The digests of the tokens that are valid now.
pub struct Tokens {
    source: TokenSource,
    role: Role,
    digests: RwLock<Vec<[u8; 32]>>,
}

impl Tokens {
    /// Reads the tokens, and hands them out this once: what is kept of them are digests.
    pub fn load(source: TokenSource, role: Role) -> Result<(Self, Vec<Secret>), Failure> {
        let tokens = read(&source)?;
        let digests = RwLock::new(tokens.iter().map(digest).collect());
        Ok((Self { source, role, digests }, tokens))
    }

    /// Reads them again, and hands them out; if that fails, those that were valid stay so.
    pub fn reload(&self) -> Result<Vec<Secret>, Failure> {
        let fresh = read(&self.source)?;
        *self.digests.write().unwrap_or_else(PoisonError::into_inner) = fresh.iter().map(digest).collect();
        Ok(fresh)
    }

    /// How many are valid.
    pub fn count(&self) -> usize {
        self.digests.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether this is one of them. It takes the same time whichever it is, and however much of it is right.
    pub fn holds(&self, token: &str) -> bool {
        self.session_key(token).is_some()
    }

    /// The key to sign sessions with that belongs to this token, if it is one of them; in the same time, whichever it is.
    pub fn session_key(&self, token: &str) -> Option<[u8; 32]> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let digests = self.digests.read().unwrap_or_else(PoisonError::into_inner);
        let found = digests.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        bool::from(found).then(|| self.key_of(&digest))
    }

    /// The key of each token that is valid now, without those that `others` has as well: whoever holds a session loses it with
    /// the token that began it.
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

/// The tokens of the service: those that may do everything, and those that may only look.
#[derive(Debug)]
pub struct Access {
    /// May do everything.
    pub full: Tokens,
    /// May look.
    pub read_only: Option<Tokens>,
}

impl Access {
    /// Refuses a token that is in the file for read-only tokens and in another one: it would be more than read-only.
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
                return Err(Failure::config(text).hint(format!("give readers a token of their own: {HOW}")));
            }
        }
        Ok(())
    }

    /// What a token may do, and the key to sign its sessions with. A token of both kinds may only look.
    pub fn role(&self, token: &str) -> Option<(Role, [u8; 32])> {
        let full = self.full.session_key(token).map(|key| (Role::Full, key));
        let read_only = self.read_only.as_ref().and_then(|tokens| tokens.session_key(token));
        read_only.map(|key| (Role::ReadOnly, key)).or(full)
    }

    /// The session key of each token that is valid now.
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
            let how = format!("name a file with `--auth-token-file`, or set `{variable}`; {HOW}");
            return Err(Failure::config("no token for callers").hint(how));
        };
        let place = format!("the variable `{variable}`");
        add(&mut all, value.expose().split_ascii_whitespace(), &place)?;
        if all.is_empty() {
            return Err(Failure::config(format!("no token in {place}")).hint(HOW));
        }
    }
    if all.len() > MOST {
        let hint = "two are enough to replace one by the other";
        return Err(Failure::config(format!("{} tokens, at most {MOST} are taken", all.len())).hint(hint));
    }
    Ok(all)
}

fn add<'a>(all: &mut Vec<Secret>, tokens: impl Iterator<Item = &'a str>, place: &str) -> Result<(), Failure> {
    for (index, token) in tokens.enumerate() {
        let number = index + 1;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let text = format!("token {number} in {place} has other characters than visible ASCII");
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
            .hint(format!("`{option}` names a file with one token a line; {HOW}"))
    };
    let mode = std::fs::metadata(path).map_err(cannot)?.mode();
    // Credentials of systemd are readable for the group; for everybody, nothing secret is.
    if mode & 0o007 != 0 || mode & 0o020 != 0 {
        let text =
            format!("{place} is open to others (mode {:04o}): its tokens are no secret", mode & 0o7777);
        return Err(
            Failure::config(text).hint(format!("chmod 600 {}, and put a new token into it", path.display()))
        );
    }
    std::fs::read_to_string(path).map_err(cannot)
}
