//! `sync`, with real git on both sides: local repositories, and smart HTTP with authentication.

mod access;
mod changes;
mod concurrent_edits;
mod crash;
mod extras;
mod hostile;
mod instead_of;
mod power;
mod refusals;
mod register;
mod registry;
mod status;
mod step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Output, Workspace};

/// A registry with one benchmark, `one`, and the repository that it comes from.
pub(super) struct Bench {
    pub(super) workspace: Workspace,
}

/// A directory as a reader and as `git status` see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) branch: String,
    /// `git status`, without untracked files.
    pub(super) status: String,
    /// Every file except git's own, with its mode.
    pub(super) files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

impl Bench {
    /// The source is a directory, with three commits on `main`.
    pub(super) fn new() -> Self {
        Self::of(Workspace::new())
    }

    /// The same in any workspace.
    pub(super) fn of(workspace: Workspace) -> Self {
        let bench = Self { workspace };
        let upstream = bench.upstream();
        std::fs::create_dir_all(&upstream).unwrap();
        git(&upstream, &["init", "-q", "--initial-branch=main"]);
        git(&upstream, &["config", "uploadpack.allowFilter", "true"]);
        bench.commit("README.md", "one\n");
        bench.commit("cases/a.yaml", "a: 1\n");
        bench.commit("cases/b.yaml", "b: 1\n");
        bench.register(&format!("url: {}, ref: main", upstream.display()));
        bench
    }

    pub(super) fn upstream(&self) -> PathBuf {
        self.workspace.path("upstream")
    }

    pub(super) fn clone(&self) -> PathBuf {
        self.workspace.path("clones/one")
    }

    /// Sets the source in the registry.
    pub(super) fn register(&self, source: &str) {
        let text = format!(
            "# mine\nbenchmarks:\n  - id: one\n    path: ../clones/one\n    owner: me # kept\n    source: {{ {source} }}\n"
        );
        self.workspace.write(".agentv/benchmarks.yaml", text);
    }

    /// Adds a commit.
    pub(super) fn commit(&self, file: &str, content: &str) -> String {
        let path = self.upstream().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        git(&self.upstream(), &["add", "--all"]);
        git(&self.upstream(), &["commit", "-q", "-m", file]);
        git(&self.upstream(), &["rev-parse", "HEAD"])
    }

    pub(super) fn sync(&self, more: &[&str]) -> Output {
        self.workspace.run(&[&["sync", "one", "--allow-local"], more].concat())
    }

    /// Syncs, and runs an action after the replica is created and before the exchange: git waits for it.
    pub(super) fn meanwhile(&self, more: &[&str], act: impl FnOnce()) -> Output {
        let (bin, frozen, go) =
            (self.workspace.path("bin"), self.workspace.path("frozen"), self.workspace.path("go"));
        for file in [&frozen, &go] {
            let _ = std::fs::remove_file(file);
        }
        let path = std::env::var_os("PATH").unwrap();
        let real =
            std::env::split_paths(&path).map(|dir| dir.join("git")).find(|path| path.is_file()).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *' read-tree '*)\n: > '{}'\nwhile ! test -e '{}'; do sleep 0.01; done;;\nesac\nexec '{}' \"$@\"\n",
            frozen.display(),
            go.display(),
            real.display()
        );
        self.workspace.write_program("bin/git", script);
        let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
        let mut command = self.workspace.command(&[&["sync", "one", "--allow-local"], more].concat());
        command.env("PATH", std::env::join_paths(paths).unwrap());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !frozen.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote any file");
            std::thread::sleep(Duration::from_millis(5));
        }
        act();
        std::fs::write(&go, "").unwrap();
        let output = child.wait_with_output().unwrap();
        output.into()
    }

    /// The directory that was kept next to the clone, if any.
    pub(super) fn kept(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.workspace.path("clones")).unwrap().map(|entry| entry.unwrap());
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("one.before-sync-"))
            .map(|entry| entry.path())
            .next()
    }

    /// Syncs successfully and returns the output of `--format json`.
    pub(super) fn synced(&self, more: &[&str]) -> serde_json::Value {
        let output = self.sync(&[&["--format", "json"], more].concat()).expect(0);
        serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()["benchmarks"][0].clone()
    }

    /// A sync that must be refused without changes; returns the message.
    pub(super) fn refused(&self, more: &[&str]) -> String {
        let before = whole(&self.workspace.path("clones"));
        let output = self.sync(more).expect(1);
        assert_eq!(whole(&self.workspace.path("clones")), before, "something was changed: {}", output.stderr);
        self.message(&output)
    }

    /// The message, with stable names for the directory and the commits.
    pub(super) fn message(&self, output: &Output) -> String {
        let mut text = output.stderr.replace(self.workspace.root().to_str().unwrap(), "[dir]");
        let head = git(&self.upstream(), &["log", "--all", "--reflog", "--format=%H"]);
        for commit in head.lines() {
            text = text.replace(commit, "[commit]").replace(&commit[..12], "[commit]");
        }
        text.trim_end().to_owned()
    }

    pub(super) fn seen(&self) -> Seen {
        seen(&self.clone())
    }

    /// The same for a clone that may be damaged; if it is, git's error.
    pub(super) fn try_seen(&self) -> Result<Seen, String> {
        for args in [&["rev-parse", "--verify", "HEAD^{tree}"][..], &["status", "--porcelain"]] {
            let output = git_command(&self.clone(), args).output().unwrap();
            if !output.status.success() {
                return Err(format!("damaged: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok(self.seen())
    }

    /// The state that a sync must lead to: the files of the upstream commit, plus these.
    pub(super) fn expected(&self, branch: &str, own: &[(&str, &str)]) -> Seen {
        let mut expected = seen(&self.upstream());
        branch.clone_into(&mut expected.branch);
        for (file, content) in own {
            expected.files.insert(PathBuf::from(file), (0o644, content.as_bytes().to_vec()));
        }
        expected
    }

    /// Writes a file into the clone.
    pub(super) fn write(&self, file: &str, content: &str) {
        self.workspace.write(&format!("clones/one/{file}"), content);
    }
}

/// Runs git, which must succeed.
pub(super) fn git(dir: &Path, args: &[&str]) -> String {
    let output = git_command(dir, args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(super) fn git_command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=somebody",
        "-c",
        "user.email=somebody@example.com",
        "-c",
        "commit.gpgsign=false",
    ]);
    command.args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    // Reading a clone must not need the network.
    command.env("GIT_ALLOW_PROTOCOL", "file").env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap());
    command
}

pub(super) fn seen(dir: &Path) -> Seen {
    Seen {
        head: git(dir, &["rev-parse", "HEAD"]),
        branch: git(dir, &["rev-parse", "--abbrev-ref", "HEAD"]),
        status: git(dir, &["status", "--porcelain", "--untracked-files=no"]),
        files: files(dir).into_iter().filter(|(path, _)| !path.starts_with(".git")).collect(),
    }
}

/// Everything in a directory, with git's own files, but without locks and without what git writes when it only reads.
pub(super) fn whole(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    files(dir).into_iter().filter(|(path, _)| !path.to_string_lossy().ends_with(".sync.lock")).collect()
}

fn files(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = BTreeMap::new();
    if !dir.exists() {
        return found;
    }
    for entry in walkdir::WalkDir::new(dir).min_depth(1) {
        let entry = entry.unwrap();
        let name = entry.path().strip_prefix(dir).unwrap().to_owned();
        let mode = entry.path().symlink_metadata().unwrap().permissions().mode() & 0o777;
        if entry.file_type().is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            found.insert(name, (0, target.into_os_string().into_encoded_bytes()));
        } else if entry.file_type().is_file() {
            found.insert(name, (mode, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}
