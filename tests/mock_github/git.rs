//! The bare repositories, through git's plumbing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context as _, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The settings of every repository, as on GitHub.
const CONFIG: [(&str, &str); 7] = [
    ("http.receivepack", "true"),
    ("uploadpack.allowFilter", "true"),
    ("uploadpack.allowAnySHA1InWant", "true"),
    ("receive.denyNonFastForwards", "false"),
    ("receive.denyDeleteCurrent", "refuse"),
    ("receive.shallowUpdate", "true"),
    ("gc.auto", "0"),
];

/// Refuses files above 100 MB, in GitHub's words.
const PRE_RECEIVE: &str = include_str!("pre-receive");

/// One bare repository.
#[derive(Debug, Clone)]
pub(crate) struct Bare {
    /// Its directory.
    pub(crate) dir: PathBuf,
}

impl Bare {
    /// Creates an empty one.
    pub(crate) async fn init(dir: &Path, default_branch: &str) -> anyhow::Result<Self> {
        let bare = Self { dir: dir.to_owned() };
        std::fs::create_dir_all(dir)?;
        bare.run(&["init", "--quiet", "--bare", &format!("--initial-branch={default_branch}")], b"").await?;
        for (key, value) in CONFIG {
            bare.run(&["config", key, value], b"").await?;
        }
        let hook = dir.join("hooks/pre-receive");
        std::fs::create_dir_all(dir.join("hooks"))?;
        std::fs::write(&hook, PRE_RECEIVE)?;
        std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755))?;
        Ok(bare)
    }

    /// The commit of a branch or tag.
    pub(crate) async fn resolve(&self, reference: &str) -> Option<String> {
        let name = reference.strip_prefix("refs/").unwrap_or(reference);
        for candidate in [format!("refs/{name}"), format!("refs/heads/{name}"), format!("refs/tags/{name}")] {
            let commit = format!("{candidate}^{{commit}}");
            if let Ok(sha) = self.run(&["rev-parse", "--verify", "--quiet", &commit], b"").await {
                return Some(sha.trim().to_owned());
            }
        }
        None
    }

    /// The same, but a commit can also be named by its id.
    pub(crate) async fn resolve_any(&self, reference: &str) -> Option<String> {
        if reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let commit = format!("{reference}^{{commit}}");
            if let Ok(sha) = self.run(&["rev-parse", "--verify", "--quiet", &commit], b"").await {
                return Some(sha.trim().to_owned());
            }
        }
        self.resolve(reference).await
    }

    /// The bytes of a file of a commit.
    pub(crate) async fn file(&self, commit: &str, path: &str) -> Option<Vec<u8>> {
        let output = self.output(&["cat-file", "blob", &format!("{commit}:{path}")], b"").await.ok()?;
        output.status.success().then_some(output.stdout)
    }

    /// The content of a directory of a commit: mode, type, id, size and path.
    pub(crate) async fn list(&self, commit: &str, path: &str) -> Option<Vec<Entry>> {
        let tree = format!("{commit}:{path}");
        let text = self.run(&["ls-tree", "--long", &tree], b"").await.ok()?;
        Some(text.lines().filter_map(Entry::parse).collect())
    }

    /// The refs with this prefix, and their commits.
    pub(crate) async fn references(&self, prefix: &str) -> Vec<(String, String, String)> {
        let format = "--format=%(refname) %(objectname) %(objecttype)";
        let text = self.run(&["for-each-ref", format], b"").await.unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            Some((words.next()?, words.next()?, words.next()?))
        };
        text.lines().filter_map(of_line).filter(|(name, ..)| name.starts_with(prefix)).collect()
    }

    /// Deletes a ref, if it exists.
    pub(crate) async fn delete(&self, reference: &str) -> anyhow::Result<()> {
        self.run(&["update-ref", "-d", reference], b"").await.map(drop)
    }

    /// Commits a file on a branch, which is created if it does not exist, and returns the commit.
    pub(crate) async fn commit(
        &self,
        branch: &str,
        path: &str,
        content: &[u8],
        subject: &str,
    ) -> anyhow::Result<String> {
        let parent = self.resolve(&format!("heads/{branch}")).await;
        let mut stream = format!(
            "commit refs/heads/{branch}\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{subject}\n",
            crate::world::now().as_second(),
            subject.len(),
        )
        .into_bytes();
        if let Some(parent) = parent {
            stream.extend_from_slice(format!("from {parent}\n").as_bytes());
        }
        stream.extend_from_slice(format!("M 100644 inline {path}\ndata {}\n", content.len()).as_bytes());
        stream.extend_from_slice(content);
        stream.extend_from_slice(b"\ndone\n");
        self.run(&["fast-import", "--quiet", "--done"], &stream).await?;
        self.resolve(&format!("heads/{branch}")).await.context("the commit is not there")
    }

    /// The output of a git command, or its error.
    pub(crate) async fn run(&self, args: &[&str], input: &[u8]) -> anyhow::Result<String> {
        let output = self.output(args, input).await?;
        if !output.status.success() {
            bail!("git {args:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn output(&self, args: &[&str], input: &[u8]) -> anyhow::Result<Output> {
        let mut command = command();
        command.arg("--git-dir").arg(&self.dir).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start git")?;
        let mut stdin = child.stdin.take().context("no pipe to git")?;
        // A command that does not read stdin may have ended already.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        child.wait_with_output().await.context("cannot wait for git")
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `blob`, `tree` or `commit`.
    pub(crate) kind: String,
    /// Its id.
    pub(crate) sha: String,
    /// Its size; 0 for a directory.
    pub(crate) size: u64,
    /// Its name.
    pub(crate) name: String,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let (head, name) = line.split_once('\t')?;
        let mut words = head.split_whitespace().skip(1);
        let (kind, sha, size) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            kind: kind.to_owned(),
            sha: sha.to_owned(),
            size: size.parse().unwrap_or(0),
            name: name.to_owned(),
        })
    }
}

/// git with only our configuration.
pub(crate) fn command() -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(&name);
        }
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
    command.args(["-c", "safe.directory=*"]).kill_on_drop(true);
    command
}
