//! Fetching from and pushing to a repository on another machine, over smart HTTP.
//!
//! The token travels as a header that git reads from its environment: it stands in no URL, no argument and no file.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;

use super::command::{GitError, command, command_in, run};
use super::objects::ObjectId;
use super::repository::Repository;
use crate::model::{Exit, Failure, Secret, printable};

/// What holds for every command that reaches another machine.
const SETTINGS: [(&str, &str); 6] = [
    ("protocol.allow", "never"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    // A redirect would take the token along.
    ("http.followRedirects", "false"),
    // Slower than this for a minute is a dead connection.
    ("http.lowSpeedLimit", "100"),
    ("http.lowSpeedTime", "60"),
];

/// What git says when the network or the other side has a bad moment.
const PASSING: [&str; 12] = [
    "returned error: 5",
    "returned error: 429",
    "HTTP 5",
    "Could not resolve host",
    "Couldn't connect",
    "Failed to connect",
    "Connection reset",
    "timed out",
    "hung up unexpectedly",
    "early EOF",
    "RPC failed",
    "transfer closed",
];

/// What git says when somebody else was faster.
const MOVED: [&str; 8] = [
    "(fetch first)",
    "(non-fast-forward)",
    "(stale info)",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "reference already exists",
    "failed to lock",
];

/// What git says when a branch has the name of another one's folder.
const IN_THE_WAY: [&str; 2] = ["directory file conflict", "exists; cannot create"];

/// How many lines of the other side's own words are repeated.
const REMOTE_LINES: usize = 12;

/// How long one command may take: a server that sends a little now and then would keep it for ever.
const LONGEST_COMMAND: Duration = Duration::from_mins(10);

/// The longest file that is taken from a default branch.
const LONGEST_FILE: usize = 1 << 20;

/// A repository on another machine, and how to authenticate there.
#[derive(Clone)]
pub struct Remote {
    url: String,
    token: Option<Secret>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// How a push ended.
#[derive(Debug)]
pub enum Pushed {
    /// The other side has it.
    Done,
    /// Somebody else moved the branch meanwhile; nothing was changed.
    Moved(GitError),
    /// The other side refuses the content or the branch, in its own words.
    Refused(String),
    /// A branch over there has the name of a folder of this one.
    InTheWay,
}

impl Remote {
    /// A repository at an `http://` or `https://` URL.
    pub fn new(url: &str, token: Option<Secret>) -> Self {
        Self { url: url.to_owned(), token }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Why a command on this repository failed, with a way out where one is known.
    pub fn explain(&self, error: GitError) -> anyhow::Error {
        let refused = |text: &str| error.stderr.contains(text);
        let url = &self.url;
        let failure = if refused("returned error: 401") || refused("Authentication failed") {
            Failure::new(Exit::Failure, format!("`{url}` does not accept the token for git"))
                .hint("it may have expired or been revoked; run `gh auth status`, or make a new one")
        } else if refused("returned error: 403") {
            Failure::new(Exit::Failure, format!("the token may not do this with git at `{url}`")).hint(
                "it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), \
                 or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)",
            )
        } else if refused("not found") || refused("returned error: 404") {
            Failure::new(Exit::Failure, format!("there is no repository at `{url}` that the token can see"))
                .hint("check its name, and that the token may read it (`Contents: read`)")
        } else if refused("returned error: 30") {
            Failure::new(Exit::Failure, format!("`{url}` has moved"))
                .hint("name the repository as it is called now")
        } else {
            return anyhow::Error::new(error).context(format!("cannot reach `{url}`"));
        };
        failure.into()
    }

    pub(super) fn authenticate(&self, command: &mut Command) {
        let header = self.token.as_ref().map(|token| {
            let pair = format!("x-access-token:{}", token.expose());
            format!("Authorization: Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        let settings = SETTINGS.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        // An empty one first: a checkout of a workflow has a header of its own in its configuration, and two are refused.
        let headers = header.into_iter().flat_map(|header| [String::new(), header]);
        let headers = headers.map(|header| (format!("http.{}.extraHeader", self.url), header));
        let mut count = 0;
        for (key, value) in settings.chain(headers) {
            command
                .env(format!("GIT_CONFIG_KEY_{count}"), key)
                .env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string()).env_remove("SSH_ASKPASS");
        // Git does not read the variable that everything else reads.
        if std::env::var_os("GIT_SSL_CAINFO").is_none()
            && let Some(certificates) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty())
        {
            command.env("GIT_SSL_CAINFO", certificates);
        }
    }
}

impl GitError {
    /// Whether the same command may succeed a little later.
    pub fn is_passing(&self) -> bool {
        PASSING.iter().any(|words| self.stderr.contains(words))
    }
}

impl Repository {
    /// Makes a branch what it is over there; `false` if there is none, and then the branch here stays as it is.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn fetch(&self, remote: &Remote, from: &str, to: &str) -> anyhow::Result<bool> {
        self.fetch_branch(remote, from, to, None)
    }

    /// The same without the history of the branch, which may be anybody's.
    pub fn fetch_tip(&self, remote: &Remote, from: &str, to: &str) -> anyhow::Result<bool> {
        self.fetch_branch(remote, from, to, Some("--depth=1"))
    }

    fn fetch_branch(
        &self,
        remote: &Remote,
        from: &str,
        to: &str,
        depth: Option<&str>,
    ) -> anyhow::Result<bool> {
        let mut fetch = command_in(self.dir(), "fetch")?;
        remote.authenticate(&mut fetch);
        fetch.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--force"]).args(depth);
        fetch.args(["--", &remote.url]).arg(format!("+refs/heads/{from}:refs/heads/{to}"));
        let output = output(fetch, "fetch")?;
        if output.status.success() {
            return Ok(true);
        }
        let error = GitError::new("fetch", output.status, &output.stderr);
        if error.stderr.contains("couldn't find remote ref") { Ok(false) } else { Err(error.into()) }
    }

    /// Which of these branches are over there.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn remote_branches(&self, remote: &Remote, names: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut list = command_in(self.dir(), "ls-remote")?;
        remote.authenticate(&mut list);
        list.args(["--heads", "--", &remote.url]);
        list.args(names.iter().map(|name| format!("refs/heads/{name}")));
        let output = output(list, "ls-remote")?;
        if !output.status.success() {
            return Err(GitError::new("ls-remote", output.status, &output.stderr).into());
        }
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let listed = answer.lines().filter_map(|line| line.split_once("\trefs/heads/")).map(|(_, name)| name);
        // A pattern also fits the end of a longer name.
        Ok(listed.filter(|name| names.contains(name)).map(ToOwned::to_owned).collect())
    }

    /// Brings a branch to the other side, where it must not exist yet (`new`) or lie behind.
    pub fn push(&self, remote: &Remote, branch: &str, new: bool) -> anyhow::Result<Pushed> {
        let name = format!("refs/heads/{branch}");
        let lease = new.then(|| format!("--force-with-lease={name}:"));
        self.push_ref(remote, lease.as_deref(), &format!("{name}:{name}"))
    }

    /// Deletes a branch over there, if there is one of that name; where a commit is given, only if it is still its tip.
    pub fn delete_remote_branch(
        &self,
        remote: &Remote,
        branch: &str,
        tip: Option<&ObjectId>,
    ) -> anyhow::Result<Pushed> {
        let name = format!("refs/heads/{branch}");
        let lease = tip.map(|tip| format!("--force-with-lease={name}:{tip}"));
        self.push_ref(remote, lease.as_deref(), &format!(":{name}"))
    }

    /// The default branch of the other side.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn remote_default_branch(&self, remote: &Remote) -> anyhow::Result<Option<String>> {
        let mut list = command_in(self.dir(), "ls-remote")?;
        remote.authenticate(&mut list);
        list.args(["--symref", "--", &remote.url, "HEAD"]);
        let answer = String::from_utf8_lossy(&run(list, "ls-remote")?).into_owned();
        let named =
            |line: &str| Some(line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD")?.to_owned());
        Ok(answer.lines().find_map(named))
    }

    fn push_ref(&self, remote: &Remote, lease: Option<&str>, refspec: &str) -> anyhow::Result<Pushed> {
        let mut push = command_in(self.dir(), "push")?;
        remote.authenticate(&mut push);
        push.args(["--porcelain", "--no-verify"]).args(lease).args(["--", &remote.url, refspec]);
        let output = output(push, "push")?;
        if output.status.success() {
            return Ok(Pushed::Done);
        }
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = GitError::new("push", output.status, &output.stderr);
        if said.contains("remote ref does not exist") {
            return Ok(Pushed::Done);
        }
        let Some(rejection) = report.lines().find(|line| line.starts_with('!')) else {
            return Err(error.into());
        };
        let says = |words: &&str| rejection.contains(words) || said.contains(words);
        if IN_THE_WAY.iter().any(&says) {
            return Ok(Pushed::InTheWay);
        }
        if MOVED.iter().any(says) {
            return Ok(Pushed::Moved(error));
        }
        Ok(Pushed::Refused(own_words(&said, rejection)))
    }
}

/// Files of a repository's default branch, without a checkout; `None` for one that is not there. A link or a folder in the
/// place of a file is an error: who put it there meant something by it.
pub fn fetch_files(remote: &Remote, paths: &[&str]) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dir = temporary.path().join("repository");
    let mut init = command("init")?;
    init.args(["--bare", "--quiet", "--template=", "--"]).arg(&dir);
    run(init, "init")?;
    let mut config = command_in(&dir, "config")?;
    config.args(["remote.origin.url", &remote.url]);
    run(config, "config")?;
    // Only the commit; the trees and files on the way to each path are fetched when they are read.
    remote_run(
        remote,
        &dir,
        "fetch",
        &["--quiet", "--no-tags", "--depth=1", "--filter=tree:0", "origin", "+HEAD:refs/heads/default"],
    )?;
    paths.iter().map(|path| read_file(remote, &dir, path)).collect()
}

fn read_file(remote: &Remote, dir: &Path, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let entry = remote_run(remote, dir, "ls-tree", &["refs/heads/default", "--", path])?;
    let entry = String::from_utf8_lossy(&entry).into_owned();
    let mut fields = entry.split_ascii_whitespace();
    let id = match (fields.next(), fields.next(), fields.next()) {
        (None, ..) => return Ok(None),
        (Some("100644" | "100755"), Some("blob"), Some(id)) => id,
        (mode, ..) => {
            let what = match mode {
                Some("120000") => "a symbolic link",
                Some("040000") => "a folder",
                _ => "no file",
            };
            return Err(Failure::config(format!(
                "`{path}` on the default branch of `{}` is {what}",
                remote.url
            ))
            .hint("put the file itself there: links are not followed")
            .into());
        }
    };
    let content = remote_run(remote, dir, "cat-file", &["blob", id])?;
    if content.len() > LONGEST_FILE {
        let message = format!("`{path}` in `{}` is longer than {LONGEST_FILE} bytes", remote.url);
        return Err(Failure::config(message).into());
    }
    Ok(Some(content))
}

fn remote_run(
    remote: &Remote,
    dir: &Path,
    subcommand: &'static str,
    args: &[&str],
) -> anyhow::Result<Vec<u8>> {
    const TRIES: u32 = 4;
    let mut tries = 0;
    loop {
        let mut command = command_in(dir, subcommand)?;
        remote.authenticate(&mut command);
        command.args(args);
        let output = output(command, subcommand)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let error = GitError::new(subcommand, output.status, &output.stderr);
        tries += 1;
        if tries == TRIES || !error.is_passing() {
            return Err(remote.explain(error));
        }
        std::thread::sleep(Duration::from_secs(1) * 2_u32.pow(tries - 1));
    }
}

/// Runs a command that reaches another machine, which may keep it waiting for ever.
pub(super) fn output(command: Command, subcommand: &str) -> anyhow::Result<Output> {
    output_within(command, subcommand, LONGEST_COMMAND)
}

pub(super) fn output_within(
    mut command: Command,
    subcommand: &str,
    limit: Duration,
) -> anyhow::Result<Output> {
    let mut child = command.spawn().with_context(|| format!("cannot start `git {subcommand}`"))?;
    let stdout = read_beside(child.stdout.take());
    let stderr = read_beside(child.stderr.take());
    let until = Instant::now() + limit;
    // Both pipes close when git has ended, and its helpers with it.
    let (read, said) = (stdout.recv_timeout(limit), stderr.recv_timeout(until - Instant::now().min(until)));
    if let (Ok(stdout), Ok(stderr)) = (read, said) {
        let status = child.wait().with_context(|| format!("cannot wait for `git {subcommand}`"))?;
        return Ok(Output { status, stdout: stdout?, stderr: stderr? });
    }
    // Its helper ends with it: nobody is left to read what it gets.
    child.kill().with_context(|| format!("cannot end `git {subcommand}`"))?;
    let status = child.wait().with_context(|| format!("cannot wait for `git {subcommand}`"))?;
    let stderr = format!("fatal: timed out: it took longer than {} s", limit.as_secs()).into_bytes();
    Ok(Output { status, stdout: Vec::new(), stderr })
}

/// Reads a pipe to its end on a thread of its own, which a git that hangs may keep.
fn read_beside(pipe: Option<impl Read + Send + 'static>) -> Receiver<std::io::Result<Vec<u8>>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        // Nobody listens any more where it took too long.
        let _ = send.send(read.map(|_| bytes));
    });
    receive
}

/// What the other side said of a push, or else git's own line.
fn own_words(stderr: &str, rejection: &str) -> String {
    let words = stderr.lines().filter_map(|line| line.strip_prefix("remote:"));
    let words: Vec<String> =
        words.map(|line| printable(line.trim())).filter(|line| !line.is_empty()).take(REMOTE_LINES).collect();
    if words.is_empty() { printable(rejection.trim_start_matches('!').trim()) } else { words.join("\n") }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_never_ends_its_answer_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Remote::new(&format!("http://{}/o/r.git", listener.local_addr().unwrap()), None);
        let mut list = command("ls-remote").unwrap();
        remote.authenticate(&mut list);
        list.args(["--", &remote.url]);
        let started = Instant::now();
        let output = output_within(list, "ls-remote", Duration::from_millis(300)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let error = GitError::new("ls-remote", output.status, &output.stderr);
        assert!(error.is_passing() && !output.status.success(), "{error}");
        drop(listener);
    }
}
