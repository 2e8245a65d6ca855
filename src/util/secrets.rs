//! Detection of secrets by the name of a variable or file, by value, and in text.
//!
//! Results never contain the secret.

use std::path::Path;

use memchr::{memchr_iter, memmem};

use super::regular_file;

/// Words that mark a secret anywhere in a name.
const SECRET_WORDS: [&str; 15] = [
    "auth",
    "authorization",
    "cred",
    "creds",
    "key",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "passwords",
    "pat",
    "pgpass",
    "psk",
    "secrets",
    "token",
];
/// Suffixes of words that mark a secret, as in `DBPASSWORD`.
const SECRET_ENDINGS: [&str; 9] = [
    "accesskey",
    "apikey",
    "credential",
    "credentials",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "token",
];
/// Words before `keys` that mark a secret.
const OWNERS_OF_KEYS: [&str; 3] = ["access", "api", "private"];
/// Last words that refer to a secret without containing it, as in `TOKEN_FILE`.
const ABOUT: [&str; 18] = [
    "algorithm",
    "count",
    "dir",
    "file",
    "format",
    "length",
    "limit",
    "mode",
    "name",
    "path",
    "prefix",
    "rate",
    "size",
    "sock",
    "threshold",
    "ttl",
    "type",
    "url",
];

/// Whether the name of a variable, a setting or an option marks its value as a secret: `OPENAI_API_KEY_2`,
/// `apiKey`, `GH_PAT`, `--token`, `DB_PASSWORD`, but not `MAX_TOKENS` or `TOKEN_FILE`.
pub fn is_secret_name(name: &str) -> bool {
    let mut words: Vec<String> = words(name);
    words.retain(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(last) = words.last() else { return false };
    if ABOUT.contains(&last.as_str()) {
        return false;
    }
    let is_secret = |word: &String| {
        SECRET_WORDS.contains(&word.as_str()) || SECRET_ENDINGS.iter().any(|end| word.ends_with(end))
    };
    let are_keys = |pair: &[String]| OWNERS_OF_KEYS.contains(&pair[0].as_str()) && pair[1] == "keys";
    // `PWD` alone is the working directory.
    words.iter().any(is_secret) || words.windows(2).any(are_keys) || words.len() > 1 && last == "pwd"
}

/// Splits `A_NAME`, `a-name` or `aName` into lowercase words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value is certainly a secret: it has a token prefix, or contains a private key or a URL with a
/// password.
pub fn is_known_secret(value: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["sk-", "sk_", "xox", "eyJ"];
    let begins = BEGINNINGS.iter().any(|begin| value.starts_with(begin))
        || TOKENS.iter().any(|token| value.starts_with(token.prefix));
    begins && value.len() >= 16 || value.contains("-----BEGIN") || has_credentials(value)
}

/// Whether a URL has a password, or a token as its user name.
pub fn has_credentials(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or(rest);
    host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':') || user.len() > 30)
}

/// Whether a value looks like a key: a known token or random text.
pub fn is_secret_value(value: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_+=/-".contains(c);
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    let random = value.len() >= 32
        && value.chars().all(legal)
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && !value.contains("//");
    random || is_known_secret(value)
}

/// Kinds of sensitive file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileName {
    /// Environment files: `.env` and its variants, but not examples.
    Environment,
    /// A file that contains little but credentials.
    Credential(&'static str),
}

/// Classifies a file name, case-insensitively.
pub fn file_name(path: &Path) -> Option<FileName> {
    let lower = path.to_str()?.to_lowercase();
    let name = lower.rsplit('/').next()?;
    let folder = |folder: &str| {
        lower
            .strip_suffix(name)
            .is_some_and(|dir| dir == format!("{folder}/") || dir.ends_with(&format!("/{folder}/")))
    };
    let within = |folder: &str| format!("/{lower}").contains(&format!("/{folder}/"));
    let ends = |ending: &str| name.len() > ending.len() && name.ends_with(ending);
    if is_environment(name) {
        return Some(FileName::Environment);
    }
    let what = match name {
        ".netrc" | "_netrc" | ".git-credentials" | ".pgpass" | ".my.cnf" | ".htpasswd" => "passwords",
        "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ecdsa_sk" | "id_ed25519" | "id_ed25519_sk" => "a private key",
        "kubeconfig" => "a kubeconfig",
        "application_default_credentials.json"
        | "credentials.tfrc.json"
        | ".vault-token"
        | ".dockercfg"
        | ".s3cfg"
        | ".boto" => "credentials",
        "config" if folder(".kube") => "a kubeconfig",
        "credentials" if folder(".aws") || folder(".gem") => "credentials",
        "credentials" | "credentials.toml" if folder(".cargo") => "credentials",
        "config.json" if folder(".docker") => "credentials",
        "hosts.yml" if folder(".config/gh") => "credentials",
        "accesstokens.json" | "msal_token_cache.json" if folder(".azure") => "credentials",
        "credentials.db" | "access_tokens.db" if within(".config/gcloud") => "credentials",
        "secrets.toml" if folder(".streamlit") => "credentials",
        _ if ends(".pem") || ends(".key") || ends(".ppk") => "a private key",
        _ if ends(".p12") || ends(".pfx") || ends(".jks") || ends(".keystore") || ends(".keychain-db") => {
            "private keys"
        }
        _ if ends(".kdbx") => "passwords",
        _ if ends(".kubeconfig") => "a kubeconfig",
        _ if ends(".tfstate") || name.contains(".tfstate.") => "a Terraform state",
        _ if within(".gnupg") => "private keys",
        _ => return None,
    };
    Some(FileName::Credential(what))
}

fn is_environment(name: &str) -> bool {
    const EXAMPLES: [&str; 8] =
        ["example", "examples", "sample", "template", "tmpl", "dist", "defaults", "schema"];
    if matches!(name, ".env" | ".envrc" | ".dev.vars") {
        return true;
    }
    let Some(rest) = name.strip_prefix(".env.").or_else(|| name.strip_prefix(".dev.vars.")) else {
        return false;
    };
    // `.env.production.example`
    !rest.rsplit('.').next().is_some_and(|last| EXAMPLES.contains(&last))
}

/// Directories of git and run-evals. They can contain tokens, and both programs act on what is in them.
const STATE: [&str; 3] = [".git", ".run-evals", "git~1"];

/// Whether a part of a path is a directory of git or run-evals on any disk: some ignore case, dots and spaces at
/// the end, or invisible characters.
pub fn is_state(part: &str) -> bool {
    let visible = |c: &char| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let plain: String = part.chars().filter(visible).collect::<String>().to_lowercase();
    STATE.contains(&plain.trim_end_matches(['.', ' ']))
}

/// Whether a path leads into a directory of git or run-evals, as written.
pub fn is_in_state(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_str().is_some_and(is_state))
}

/// Why a file is not sent to a model: its path, or the path of the file that it links to. The path must
/// exist.
pub fn credential_at(path: &Path) -> Option<String> {
    let real = path.canonicalize();
    if is_in_state(path) || real.as_deref().is_ok_and(is_in_state) {
        return Some("is state of git or run-evals and may contain secrets".to_owned());
    }
    let is_public =
        |path: &Path| regular_file::read(path, regular_file::SETTINGS).is_ok_and(|text| is_public_pem(&text));
    [Some(path), real.as_deref().ok()].into_iter().flatten().find_map(|path| match file_name(path)? {
        FileName::Environment => Some("is an environment file and may contain secrets".to_owned()),
        FileName::Credential(_) if is_public(path) => None,
        FileName::Credential(what) => Some(format!("appears to contain {what}")),
    })
}

pub const CREDENTIAL_HINT: &str = "attach a file without secrets, under another name such as `.env.example`";

/// Whether a PEM text has only public parts, such as certificates.
pub fn is_public_pem(text: &[u8]) -> bool {
    let mut begins = memmem::find_iter(text, "-----BEGIN ").peekable();
    begins.peek().is_some()
        && begins.all(|at| {
            let kind = &text[at + "-----BEGIN ".len()..];
            let kind = &kind[..memmem::find(kind, b"-----").unwrap_or(0)];
            matches!(kind, b"CERTIFICATE" | b"TRUSTED CERTIFICATE" | b"X509 CRL" | b"CERTIFICATE REQUEST")
                || kind.ends_with(b"PUBLIC KEY")
        })
}

/// A known token format.
struct Token {
    prefix: &'static str,
    /// Minimum number of characters after the prefix.
    length: usize,
    /// Whether it is uppercase.
    upper: bool,
    what: &'static str,
}

const fn token(prefix: &'static str, length: usize, what: &'static str) -> Token {
    Token { prefix, length, upper: false, what }
}

/// The lengths are those of real tokens, so that words with the same prefix do not match.
const TOKENS: [Token; 29] = [
    token("ghp_", 36, "a GitHub token"),
    token("gho_", 36, "a GitHub token"),
    token("ghu_", 36, "a GitHub token"),
    token("ghs_", 36, "a GitHub token"),
    token("ghr_", 36, "a GitHub token"),
    token("github_pat_", 59, "a GitHub token"),
    token("glpat-", 20, "a GitLab token"),
    token("sk-ant-", 80, "an Anthropic key"),
    token("sk-proj-", 40, "an OpenAI key"),
    token("sk-svcacct-", 40, "an OpenAI key"),
    token("sk-admin-", 40, "an OpenAI key"),
    token("sk-or-v1-", 60, "an OpenRouter key"),
    token("sk-", 48, "an API key"),
    token("gsk_", 48, "a Groq key"),
    token("xai-", 70, "an xAI key"),
    token("hf_", 34, "a Hugging Face token"),
    token("AIza", 35, "a Google key"),
    token("GOCSPX-", 28, "a Google secret"),
    Token { prefix: "AKIA", length: 16, upper: true, what: "an AWS key" },
    Token { prefix: "ASIA", length: 16, upper: true, what: "an AWS key" },
    token("xoxb-", 30, "a Slack token"),
    token("xoxp-", 30, "a Slack token"),
    token("xoxa-", 30, "a Slack token"),
    token("xoxr-", 30, "a Slack token"),
    token("npm_", 36, "an npm token"),
    token("pypi-AgEI", 50, "a PyPI token"),
    token("sk_live_", 24, "a Stripe key"),
    token("rk_live_", 24, "a Stripe key"),
    token("dop_v1_", 64, "a DigitalOcean token"),
];

/// Words and runs that occur in placeholders and almost never in random text.
const PLACEHOLDERS: [&str; 14] = [
    "example",
    "placeholder",
    "your",
    "fake",
    "dummy",
    "test",
    "mock",
    "redacted",
    "invalid",
    "changeme",
    "xxxx",
    "never",
    "1234",
    "abcd",
];

/// Longest token or private key header that is examined.
const LONGEST: usize = 512;

/// A secret in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretMatch {
    /// From 1.
    pub line: usize,
    pub what: &'static str,
}

/// Finds secrets in a text that arrives in blocks.
#[derive(Debug)]
pub struct Scanner {
    /// The unprocessed end of the previous block.
    rest: Vec<u8>,
    /// Number of lines before `rest`.
    lines: usize,
    /// The character before `rest`.
    before: Option<u8>,
    settings: Settings,
    /// Known once the start of the text has arrived.
    encoding: Option<Encoding>,
    /// The first byte of a UTF-16 character that is split between two blocks.
    half: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// ASCII-compatible.
    Bytes,
    /// UTF-16 LE.
    Low,
    /// UTF-16 BE.
    High,
}

impl Encoding {
    /// By the byte order mark, or by zeros: in UTF-16, every other byte of most texts is zero.
    fn of(start: &[u8]) -> Self {
        let start = &start[..start.len().min(LONGEST)];
        let zeros = |first: usize| start.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
        let (even, odd) = (zeros(0), zeros(1));
        match start {
            [0xff, 0xfe, ..] => Self::Low,
            [0xfe, 0xff, ..] => Self::High,
            _ if odd > start.len() / 4 && even == 0 => Self::Low,
            _ if even > start.len() / 4 && odd == 0 => Self::High,
            _ => Self::Bytes,
        }
    }
}

/// Files in which the names of settings mark secrets, whatever the values look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settings {
    None,
    Npm,
    Pypi,
}

impl Scanner {
    pub fn new(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let settings = match name {
            ".npmrc" | ".yarnrc" | ".yarnrc.yml" => Settings::Npm,
            ".pypirc" => Settings::Pypi,
            _ => Settings::None,
        };
        Self { rest: Vec::new(), lines: 0, before: None, settings, encoding: None, half: None }
    }

    /// Scans one more block; returns the first secret.
    pub fn block(&mut self, block: &[u8]) -> Option<SecretMatch> {
        match *self.encoding.get_or_insert_with(|| Encoding::of(block)) {
            Encoding::Bytes => self.rest.extend_from_slice(block),
            encoding => self.narrow(block, encoding),
        }
        // A match near the end may continue in the next block.
        let whole = self.rest.len().saturating_sub(LONGEST);
        let found = self.look(whole);
        self.lines += memchr_iter(b'\n', &self.rest[..whole]).count();
        if whole > 0 {
            self.before = self.rest.get(whole - 1).copied();
        }
        self.rest.drain(..whole);
        found
    }

    /// Appends a UTF-16 block with one byte per character. Keys contain only ASCII.
    fn narrow(&mut self, block: &[u8], encoding: Encoding) {
        for byte in block {
            let Some(first) = self.half.take() else {
                self.half = Some(*byte);
                continue;
            };
            let (low, high) = if encoding == Encoding::Low { (first, *byte) } else { (*byte, first) };
            self.rest.push(if high == 0 { low } else { 0xff });
        }
    }

    /// Scans the remaining text.
    pub fn finish(&mut self) -> Option<SecretMatch> {
        self.look(self.rest.len())
    }

    /// The first secret that begins before `end`.
    fn look(&self, end: usize) -> Option<SecretMatch> {
        let text = &self.rest;
        let keys = memmem::find_iter(text, "-----BEGIN ")
            .take_while(|at| *at < end)
            .find(|at| is_private_key(&text[*at..]))
            .map(|at| (at, "a private key"));
        let tokens = TOKENS.iter().filter_map(|token| {
            memmem::find_iter(text, token.prefix)
                .take_while(|at| *at < end)
                .find(|at| {
                    let before = at.checked_sub(1).map_or(self.before, |at| text.get(at).copied());
                    !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
                        && is_token(token, &text[at + token.prefix.len()..])
                })
                .map(|at| (at, token.what))
        });
        let names: &[(&str, &'static str)] = match self.settings {
            Settings::Npm => &[
                ("_authToken", "a token"),
                ("npmAuthToken", "a token"),
                ("_password", "a password"),
                ("_auth", "a password"),
            ],
            Settings::Pypi => &[("password", "a password")],
            Settings::None => &[("client-key-data", "a private key of a kubeconfig")],
        };
        let settings = names.iter().filter_map(|(name, what)| {
            memmem::find_iter(text, *name)
                .take_while(|at| *at < end)
                .find(|at| has_value(&text[at + name.len()..]))
                .map(|at| (at, *what))
        });
        let headers = HEADERS.iter().filter_map(|(name, is_secret)| {
            memmem::find_iter(text, *name)
                .take_while(|at| *at < end)
                .find(|at| is_secret(&text[at + name.len()..]))
                .map(|at| (at, "a password or token in an HTTP header"))
        });
        let found = keys.into_iter().chain(tokens).chain(settings).chain(headers);
        let (at, what) = found.min_by_key(|(at, _)| *at)?;
        Some(SecretMatch { line: self.lines + memchr_iter(b'\n', &text[..at]).count() + 1, what })
    }
}

/// The first secret in a text.
pub fn find_secret(path: &Path, text: &[u8]) -> Option<SecretMatch> {
    let mut scanner = Scanner::new(path);
    scanner.block(text).or_else(|| scanner.finish())
}

/// Whether `: value` or `= value` follows, and the value is not a variable reference.
fn has_value(text: &[u8]) -> bool {
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len()).min(LONGEST)];
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let line = line.trim_start();
    let Some(value) = line.strip_prefix([':', '=']) else { return false };
    let value = value.trim().trim_matches(['"', '\'']);
    value.len() >= 8 && !value.contains(['$', '<', ' ']) && !is_placeholder(value)
}

/// Whether the text after a name has a secret.
type IsSecret = fn(&[u8]) -> bool;

/// Names before an HTTP header with a password, and whether the text after the name has one. The first letter is left
/// out because it can have either case.
const HEADERS: [(&str, IsSecret); 5] = [
    ("uthorization", is_basic),
    ("UTHORIZATION", is_basic),
    ("xtraheader", is_extra_header),
    ("xtraHeader", is_extra_header),
    ("XTRAHEADER", is_extra_header),
];

/// Whether `: basic VALUE` follows, with a value that is longer than those in documentation.
fn is_basic(text: &[u8]) -> bool {
    let mut words = header_words(text);
    let is_basic = words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"basic"));
    is_basic && words.next().is_some_and(|word| is_header_value(word, 40))
}

/// Whether the setting of git that adds a header to requests has a value.
fn is_extra_header(text: &[u8]) -> bool {
    header_words(text).last().is_some_and(|word| is_header_value(word, 20))
}

/// The words in the rest of the line.
fn header_words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = &text[..text.len().min(LONGEST)];
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b":\"'`,;\\".contains(byte);
    // `=` ends a value in base64, so that it separates words only by itself.
    line.split(is_between).map(|word| word.strip_prefix(b"=").unwrap_or(word)).filter(|word| !word.is_empty())
}

fn is_header_value(word: &[u8], length: usize) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_.-".contains(byte);
    word.len() >= length
        && word.iter().all(is_part)
        && word.iter().any(u8::is_ascii_digit)
        && std::str::from_utf8(word).is_ok_and(|word| !is_placeholder(word))
}

/// Whether a private key with its content starts here. The marker alone occurs in many texts.
fn is_private_key(text: &[u8]) -> bool {
    let text = &text[..text.len().min(LONGEST)];
    let rest = &text["-----BEGIN ".len()..];
    let Some(end) = memmem::find(rest, b"-----") else { return false };
    let kind = &rest[..end];
    if !(kind.ends_with(b"PRIVATE KEY") || kind == b"PGP PRIVATE KEY BLOCK") {
        return false;
    }
    // Lines end with a line feed, or with `
    // ` in a JSON string. The first content line is as long as all but the last.
    let is_content = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    rest[end + 5..]
        .split(|byte| !is_content(byte))
        .any(|run| run.strip_prefix(b"n").unwrap_or(run).len() >= 40)
}

/// Whether the text after a prefix completes a token.
fn is_token(token: &Token, rest: &[u8]) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let length = rest.iter().take(LONGEST).take_while(is_part).count();
    let Ok(text) = std::str::from_utf8(&rest[..length]) else { return false };
    if length < token.length || is_placeholder(text) {
        return false;
    }
    if token.upper {
        return length == token.length
            && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    }
    // `sk-` followed by words is not a token.
    token.prefix != "sk-" || text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a text is too regular to be a secret.
fn is_placeholder(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut seen = [false; 256];
    text.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    let distinct = seen.iter().filter(|seen| **seen).count();
    let repeats = text.as_bytes().windows(5).any(|run| run.iter().all(|byte| *byte == run[0]));
    distinct < 8 || repeats || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random text, the same each time.
    fn random(length: usize) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap()
        };
        (0..length).map(|_| char::from(alphabet[next() % alphabet.len()])).collect()
    }

    #[test]
    fn secret_names_are_recognized() {
        for name in [
            "OPENAI_API_KEY",
            "MY_KEY",
            "key",
            "apiKey",
            "apikey",
            "--api-key",
            "GITHUB_TOKEN_2",
            "github_token",
            "db_password",
            "Authorization",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "SECRET_VALUE",
            "GOOGLE_CREDENTIALS",
            "GH_PAT",
            "OPENAI_API_KEY_2",
            "OPENAI_API_KEYS",
            "SSH_PRIVATE_KEY_B64",
            "PGPASS",
            "MYSQL_PWD",
            "NPM_AUTH",
            "DBPASSWORD",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "MONKEY",
            "TOKENS",
            "tokens_per_minute",
            "max_tokens",
            "KEY_NAME",
            "--token-file",
            "TOKEN_URL",
            "DATASET",
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "MIN_PASS_RATE",
            "GIT_AUTHOR",
            "COMPASS",
            "7",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn credential_file_names_are_recognized() {
        use FileName::{Credential, Environment};
        for name in [".env", "a/.env.production", ".ENV.local", ".envrc", ".env.prod.local", ".dev.vars"] {
            assert_eq!(file_name(Path::new(name)), Some(Environment), "{name}");
        }
        for name in [
            "ID_RSA",
            ".aws/credentials",
            "home/.docker/config.json",
            "a.pem",
            ".kube/config",
            "x.tfstate.backup",
        ] {
            assert!(matches!(file_name(Path::new(name)), Some(Credential(_))), "{name}");
        }
        for name in [
            ".env.example",
            ".env.production.sample",
            "env",
            ".environment",
            "id_rsa.pub",
            "config.json",
            "my.docker/config.json",
            "credentials.py",
            ".pem",
            "monkey",
            "keys.md",
            "src/config",
            "docs/credentials",
        ] {
            assert_eq!(file_name(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn secrets_are_found_wherever_a_block_ends() {
        let text = format!("one\ntwo {}\nthree ghp_{} four\n", "word ".repeat(300), random(36));
        for size in [1, 7, 64, 4096] {
            let mut scanner = Scanner::new(Path::new("x"));
            let found = text.as_bytes().chunks(size).find_map(|block| scanner.block(block));
            let found = found.or_else(|| scanner.finish());
            assert_eq!(found, Some(SecretMatch { line: 3, what: "a GitHub token" }), "{size}");
        }
    }

    #[test]
    fn secrets_are_found_in_utf_16() {
        let text = format!("one\ntwo ghp_{} ü\n", random(36));
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for size in [65, 4096] {
            let mut scanner = Scanner::new(Path::new("x"));
            let found = wide.chunks(size).find_map(|block| scanner.block(block)).or_else(|| scanner.finish());
            assert_eq!(found, Some(SecretMatch { line: 2, what: "a GitHub token" }), "{size}");
        }
        // Strings in a program are separate from each other.
        assert_eq!(
            Encoding::of(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0"),
            Encoding::Bytes
        );
    }

    #[test]
    fn certificates_are_public() {
        assert!(is_public_pem(b"-----BEGIN CERTIFICATE-----\nx\n-----BEGIN RSA PUBLIC KEY-----\n"));
        assert!(!is_public_pem(b"-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\n"));
        assert!(!is_public_pem(b"x"));
    }

    #[test]
    fn text_about_secrets_is_not_a_secret() {
        for text in [
            format!("sk-{}", "x".repeat(60)),
            "sk-ant-...".to_owned(),
            format!("sk-ant-{}", "a-key-for-unit-tests-only-".repeat(5)),
            format!("task-proj-{}", random(60)),
            format!("sha256 {}", random(64)),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            "-----BEGIN PRIVATE KEY-----".to_owned(),
            format!("-----BEGIN PRIVATE KEY----- begins {}", "a text about keys ".repeat(20)),
            "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----".to_owned(),
            "if text.contains(\"-----BEGIN RSA PRIVATE KEY-----\") { return Err(Problem::new(\"a private key is here\")) }".to_owned(),
            "client-key-data: REDACTED".to_owned(),
            "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned(),
            "git -c http.extraheader=\"AUTHORIZATION: basic $TOKEN\" fetch".to_owned(),
        ] {
            assert_eq!(find_secret(Path::new("x"), text.as_bytes()), None, "{text}");
        }
        assert_eq!(find_secret(Path::new(".npmrc"), b"//r/:_authToken=${NPM_TOKEN}\n"), None);
        assert!(
            find_secret(Path::new(".npmrc"), format!("//r/:_authToken={}\n", random(36)).as_bytes())
                .is_some()
        );
    }
}
