//! Fetches from and pushes to a remote repository over smart HTTP.
//!
//! The token is a header that git reads from its environment. It is in no URL, no argument and no file.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::process::Output;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;

use super::command::{Git, GitError};
use super::git_dir::GitDir;
use super::objects::ObjectId;
use super::repository::Repository;
use super::transient::{is_unreported, retry};
use crate::model::{Failure, Secret, printable};
use crate::util::{WorkDir, backoff, register_token};

/// Settings of every remote command.
const SETTINGS: [(&str, &str); 3] = [
    // A redirect would forward the token.
    ("http.followRedirects", "false"),
    // Slower than this for a minute is a dead connection.
    ("http.lowSpeedLimit", "100"),
    ("http.lowSpeedTime", "60"),
];

/// What git prints if another process moved the branch.
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

/// What git prints if a branch has the name of another one's folder.
const IN_THE_WAY: [&str; 2] = ["directory file conflict", "exists; cannot create"];

/// Limit of repeated lines from the server.
const REMOTE_LINES: usize = 12;

/// Timeout of one command: a server that sends a few bytes now and then would block it forever.
const LONGEST_COMMAND: Duration = Duration::from_mins(10);
/// The slowest connection, in bytes a second, over which a large batch must still arrive.
const SLOWEST: u64 = 100_000;

/// Size limit of a file from a default branch.
const LONGEST_FILE: usize = 1 << 20;

/// A remote repository and its credentials.
#[derive(Clone)]
pub struct Remote {
    url: String,
    token: Option<Secret>,
    /// How long a fetch or a push may take.
    longest: Duration,
    /// The certificates to trust instead of the system's.
    ca_file: Option<PathBuf>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Outcome of a push.
#[derive(Debug)]
pub enum PushOutcome {
    Done,
    /// Another process moved the branch; nothing changed.
    Moved(GitError),
    /// The server rejects the content or the branch, with its message.
    Refused(String),
    /// A remote branch has the name of a folder of this one.
    InTheWay,
}

impl Remote {
    /// A repository at an `http://` or `https://` URL.
    pub fn new(url: &str, token: Option<Secret>) -> Self {
        token.iter().for_each(register_token);
        Self { url: url.to_owned(), token, longest: LONGEST_COMMAND, ca_file: None }
    }

    /// The same, with time for so many bytes over a slow connection.
    #[must_use]
    pub fn with_time_for(self, bytes: u64) -> Self {
        Self { longest: LONGEST_COMMAND + Duration::from_secs(bytes / SLOWEST), ..self }
    }

    /// The same, trusting the certificates in a file instead of the system's.
    #[must_use]
    pub fn with_ca_file(self, file: Option<PathBuf>) -> Self {
        Self { ca_file: file, ..self }
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn authenticate(&self, git: &mut Git) {
        for (key, value) in SETTINGS {
            git.set(key, value);
        }
        if let Some(token) = &self.token {
            let pair = format!("x-access-token:{}", token.expose());
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            git.set(&format!("http.{}.extraHeader", self.url), &format!("Authorization: Basic {pair}"));
        }
        git.allow("http:https");
        if let Some(file) = &self.ca_file {
            git.env("GIT_SSL_CAINFO", file);
            return;
        }
        // Git does not read the variable that other programs read.
        if std::env::var_os("GIT_SSL_CAINFO").is_none()
            && let Some(certificates) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty())
        {
            git.env("GIT_SSL_CAINFO", certificates);
        }
    }
}

impl Repository {
    /// Sets a branch to its remote state; `false` if there is no remote branch, and the local one stays.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn fetch(&self, remote: &Remote, from: &str, to: &str) -> anyhow::Result<bool> {
        self.fetch_branch(remote, from, to, None)
    }

    /// Like [`Self::fetch`] without the branch's history, which is untrusted.
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
        let fetched = self.change(|hold| {
            let mut fetch = Git::at(&self.git_dir, "fetch")?;
            remote.authenticate(&mut fetch);
            hold.lend(&mut fetch);
            fetch.args(["--quiet", "--no-tags", "--no-write-fetch-head", "--force"]).args(depth);
            fetch.args(["--", &remote.url]).arg(format!("+refs/heads/{from}:refs/heads/{to}"));
            let output = output_within(fetch, remote.longest)?;
            if output.status.success() {
                return Ok(true);
            }
            let error = GitError::new("fetch", output.status, &output.stderr);
            if error.stderr.contains("couldn't find remote ref") { Ok(false) } else { Err(error.into()) }
        })?;
        if fetched {
            self.sync(&format!("refs/heads/{to}"))?;
        }
        Ok(fetched)
    }

    /// Which of these branches exist on the remote.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn remote_branches(&self, remote: &Remote, names: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut list = Git::at(&self.git_dir, "ls-remote")?;
        remote.authenticate(&mut list);
        list.args(["--heads", "--", &remote.url]);
        list.args(names.iter().map(|name| format!("refs/heads/{name}")));
        let output = output(list)?;
        if !output.status.success() {
            return Err(GitError::new("ls-remote", output.status, &output.stderr).into());
        }
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let listed = answer.lines().filter_map(|line| line.split_once("\trefs/heads/")).map(|(_, name)| name);
        // A pattern also matches the end of a longer name.
        Ok(listed.filter(|name| names.contains(name)).map(ToOwned::to_owned).collect())
    }

    /// Pushes a branch, which must be new on the remote (`new`) or a fast-forward.
    pub fn push(&self, remote: &Remote, branch: &str, new: bool) -> anyhow::Result<PushOutcome> {
        let name = format!("refs/heads/{branch}");
        let lease = new.then(|| format!("--force-with-lease={name}:"));
        self.push_ref(remote, lease.as_deref(), &format!("{name}:{name}"))
    }

    /// Pushes a branch over one whose tip is still this commit.
    pub fn push_over(&self, remote: &Remote, branch: &str, tip: &ObjectId) -> anyhow::Result<PushOutcome> {
        let name = format!("refs/heads/{branch}");
        let lease = format!("--force-with-lease={name}:{tip}");
        self.push_ref(remote, Some(&lease), &format!("{name}:{name}"))
    }

    /// Deletes a remote branch, if it exists. With a commit, only if that is still its tip.
    pub fn delete_remote_branch(
        &self,
        remote: &Remote,
        branch: &str,
        tip: Option<&ObjectId>,
    ) -> anyhow::Result<PushOutcome> {
        let name = format!("refs/heads/{branch}");
        let lease = tip.map(|tip| format!("--force-with-lease={name}:{tip}"));
        self.push_ref(remote, lease.as_deref(), &format!(":{name}"))
    }

    /// Default branch of the remote.
    ///
    /// A failure of git itself is a [`GitError`].
    pub fn remote_default_branch(&self, remote: &Remote) -> anyhow::Result<Option<String>> {
        let mut list = Git::at(&self.git_dir, "ls-remote")?;
        remote.authenticate(&mut list);
        list.args(["--symref", "--", &remote.url, "HEAD"]);
        let answer = String::from_utf8_lossy(&run(list)?).into_owned();
        let named =
            |line: &str| Some(line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD")?.to_owned());
        Ok(answer.lines().find_map(named))
    }

    fn push_ref(&self, remote: &Remote, lease: Option<&str>, refspec: &str) -> anyhow::Result<PushOutcome> {
        let mut push = Git::at(&self.git_dir, "push")?;
        remote.authenticate(&mut push);
        push.args(["--porcelain", "--no-verify"]).args(lease).args(["--", &remote.url, refspec]);
        let output = output_within(push, remote.longest)?;
        if output.status.success() {
            return Ok(PushOutcome::Done);
        }
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = GitError::new("push", output.status, &output.stderr);
        if stderr.contains("remote ref does not exist") {
            return Ok(PushOutcome::Done);
        }
        let Some(rejection) = report.lines().find(|line| line.starts_with('!')) else {
            return Err(error.into());
        };
        if is_unreported(rejection) {
            return Err(error.into());
        }
        let says = |words: &&str| rejection.contains(words) || stderr.contains(words);
        if IN_THE_WAY.iter().any(&says) {
            return Ok(PushOutcome::InTheWay);
        }
        if MOVED.iter().any(says) {
            return Ok(PushOutcome::Moved(error));
        }
        Ok(PushOutcome::Refused(rejection_reason(&stderr, rejection)))
    }
}

/// Reads files of a repository's default branch without a checkout; `None` for a missing file. A symlink or
/// folder in place of a file is an error, because the repository's owner intended something else.
pub fn fetch_files(remote: &Remote, paths: &[&str]) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
    let temporary = WorkDir::new().context("cannot create a temporary directory")?;
    let dir = temporary.path().join("repository");
    let mut init = Git::new("init")?;
    init.args(["--bare", "--quiet", "--template=", "--"]).arg(&dir);
    init.run()?;
    let dir = GitDir::own(&dir);
    let mut config = Git::at(&dir, "config")?;
    config.args(["remote.origin.url", &remote.url]);
    config.run()?;
    // Only the commit; trees and files are fetched when read.
    remote_run(
        remote,
        &dir,
        "fetch",
        &["--quiet", "--no-tags", "--depth=1", "--filter=tree:0", "origin", "+HEAD:refs/heads/default"],
    )?;
    paths.iter().map(|path| read_file(remote, &dir, path)).collect()
}

fn read_file(remote: &Remote, dir: &GitDir, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
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
            .hint("replace it with the file: links are not followed")
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
    dir: &GitDir,
    subcommand: &'static str,
    args: &[&str],
) -> anyhow::Result<Vec<u8>> {
    retry(remote, backoff::GIT.attempts(), || {
        let mut command = Git::at(dir, subcommand)?;
        remote.authenticate(&mut command);
        // The only partial clone that run-evals makes.
        command.allow_lazy_fetch().args(args);
        let output = output(command)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(GitError::new(subcommand, output.status, &output.stderr).into())
    })
}

/// Runs a remote command and returns its stdout. A failure is a [`GitError`].
fn run(git: Git) -> anyhow::Result<Vec<u8>> {
    let subcommand = git.subcommand();
    let output = output(git)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(GitError::new(subcommand, output.status, &output.stderr).into())
    }
}

/// Runs a remote command with a timeout.
pub(super) fn output(git: Git) -> anyhow::Result<Output> {
    output_within(git, LONGEST_COMMAND)
}

pub(super) fn output_within(git: Git, limit: Duration) -> anyhow::Result<Output> {
    let subcommand = git.subcommand();
    let mut child = git.spawn()?;
    let stdout = read_beside(child.take_stdout());
    let stderr = read_beside(child.take_stderr());
    let until = Instant::now() + limit;
    // Both pipes close when git and its helpers have exited.
    let (read, stderr) = (stdout.recv_timeout(limit), stderr.recv_timeout(until - Instant::now().min(until)));
    if let (Ok(stdout), Ok(stderr)) = (read, stderr) {
        let status = child.wait().with_context(|| format!("cannot wait for `git {subcommand}`"))?;
        return Ok(Output { status, stdout: stdout?, stderr: stderr? });
    }
    let status = child.end().with_context(|| format!("cannot end `git {subcommand}`"))?;
    let stderr = format!("fatal: timed out: it took longer than {} s", limit.as_secs()).into_bytes();
    Ok(Output { status, stdout: Vec::new(), stderr })
}

/// Reads a pipe on a thread of its own, which a hanging git may block.
fn read_beside(pipe: Option<impl Read + Send + 'static>) -> Receiver<std::io::Result<Vec<u8>>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        // The receiver is gone after a timeout.
        let _ = send.send(read.map(|_| bytes));
    });
    receive
}

/// The server's reason for rejecting a push, or git's own line.
fn rejection_reason(stderr: &str, rejection: &str) -> String {
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
    fn an_endless_response_of_a_server_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Remote::new(&format!("http://{}/o/r.git", listener.local_addr().unwrap()), None);
        let mut list = Git::new("ls-remote").unwrap();
        remote.authenticate(&mut list);
        list.args(["--", &remote.url]);
        let started = Instant::now();
        let output = output_within(list, Duration::from_millis(300)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let error = GitError::new("ls-remote", output.status, &output.stderr);
        assert!(error.is_passing() && !output.status.success(), "{error}");
        drop(listener);
    }
}
