//! Batches made by hand, as an attacker would make them.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use run_evals::testing::Digest;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::Workspace;

/// A batch, and its defects.
pub(crate) struct Forgery {
    pub(crate) manifest: Value,
    requests: String,
    files: Vec<(String, Vec<u8>)>,
    more: Vec<(Header, Vec<u8>)>,
}

impl Forgery {
    /// A batch `b1` for the target `llm` with a matching manifest: it has no defect yet.
    pub(crate) fn of(requests: &[Value]) -> Self {
        let requests: String = requests.iter().map(|line| format!("{line}\n")).collect();
        let manifest = json!({
            "format": 1,
            "batch_id": "b1",
            "target": "llm",
            "shards": 1,
            "requests": requests.lines().count(),
            "requests_sha256": Digest::of(requests.as_bytes()),
            "files": 0,
            "generator": "by hand",
        });
        Self { manifest, requests, files: Vec::new(), more: Vec::new() }
    }

    /// Sets another value in the manifest.
    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.manifest[key] = value.into();
        self
    }

    /// Adds an attachment, under any name.
    pub(crate) fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.files.push((name.to_owned(), content.to_vec()));
        self.manifest["files"] = json!(self.files.len());
        self
    }

    /// Adds an entry of any kind; a link points to `/etc/passwd`.
    pub(crate) fn entry(mut self, name: &str, kind: EntryType, content: &[u8]) -> Self {
        let mut header = header(name, kind, content.len() as u64);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name_literal("/etc/passwd").unwrap();
            header.set_cksum();
        }
        self.more.push((header, content.to_vec()));
        self
    }

    /// The archive, compressed.
    pub(crate) fn pack(&self) -> Vec<u8> {
        self.pack_with(|_| {})
    }

    /// The archive with a custom end.
    pub(crate) fn pack_with(&self, end: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> Vec<u8> {
        let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
        let manifest = self.manifest.to_string();
        let mut add = |name: &str, content: &[u8]| {
            tar.append(&header(name, EntryType::Regular, content.len() as u64), content).unwrap();
        };
        add("manifest.json", manifest.as_bytes());
        add("requests.jsonl", self.requests.as_bytes());
        for (name, content) in &self.files {
            add(name, content);
        }
        for (header, content) in &self.more {
            tar.append(header, content.as_slice()).unwrap();
        }
        end(&mut tar);
        tar.into_inner().unwrap().finish().unwrap()
    }
}

/// A header with exactly this name: the library would refuse to write a hostile one.
pub(crate) fn header(name: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// Writes bytes to the branch of the batch with this id, with git's own commands.
pub(crate) fn hand_over(workspace: &Workspace, id: &str, archive: &[u8]) {
    let blob = git(workspace, &["hash-object", "-w", "--stdin"], archive);
    let tree = git(workspace, &["mktree"], format!("100644 blob {blob}\tbatch.tar.gz\n").as_bytes());
    let commit = git(workspace, &["commit-tree", &tree, "-m", "by hand"], b"");
    git(workspace, &["update-ref", &format!("refs/heads/eval-batch/{id}"), &commit], b"");
}

/// Runs git in the exchange and returns its output.
pub(crate) fn git(workspace: &Workspace, args: &[&str], input: &[u8]) -> String {
    let mut child = std::process::Command::new("git")
        .args(["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"])
        .arg("--git-dir")
        .arg(workspace.path(".run-evals/exchange.git"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(child.wait().unwrap().success(), "git {args:?}");
    answer.trim().to_owned()
}
