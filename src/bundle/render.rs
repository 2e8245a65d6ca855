//! The output of `bundle`, as text and as JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Manifest, State, VerifiedBundle, WriteOutcome};
use crate::model::{Digest, printable};

/// A bundle that was written.
#[derive(Debug)]
pub struct WrittenBundle {
    /// The directory, or the archive if one was made.
    pub path: PathBuf,
    /// Its digest.
    pub sha256: Digest,
    /// Whether it already existed.
    pub placed: WriteOutcome,
    /// Its manifest.
    pub manifest: Manifest,
}

impl WrittenBundle {
    /// The JSON output.
    pub fn to_json(&self) -> Value {
        let manifest = &self.manifest;
        json!({
            "bundle": self.path,
            "sha256": self.sha256,
            "unchanged": self.placed == WriteOutcome::Unchanged,
            "name": manifest.name,
            "tests": manifest.tests,
            "targets": manifest.targets,
            "files": manifest.files.len(),
            "env": manifest.env,
            "left_behind": manifest.left_behind,
            "agentv": manifest.agentv,
            "manifest_sha256": Digest::of(manifest.to_text().as_bytes()),
        })
    }

    /// The text output.
    pub fn to_text(&self) -> String {
        let manifest = &self.manifest;
        let mut text = String::new();
        let unchanged = if self.placed == WriteOutcome::Unchanged { ", unchanged" } else { "" };
        let _ = writeln!(text, "bundle   {}{unchanged}", self.path.display());
        let _ = writeln!(text, "sha256   {}", self.sha256);
        let targets =
            if manifest.targets.is_empty() { "none".to_owned() } else { manifest.targets.join(", ") };
        let _ = writeln!(text, "agentv   {}", manifest.agentv.as_deref().unwrap_or("unknown"));
        let _ = writeln!(text, "tests    {}", manifest.tests);
        let _ = writeln!(text, "targets  {}", printable(&targets));
        let _ = writeln!(text, "files    {}", manifest.files.len());
        let named = |states: &[State]| {
            let names = manifest.env.iter().filter(|variable| states.contains(&variable.state));
            names.map(|variable| variable.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        for (label, states) in [
            ("set      ", &[State::Reference, State::Redacted][..]),
            ("captured ", &[State::Captured]),
            ("resolved ", &[State::Resolved]),
        ] {
            let names = named(states);
            if !names.is_empty() {
                let _ = writeln!(text, "{label}{names}");
            }
        }
        text.push_str(&render_left_behind(manifest));
        text
    }
}

/// The files that the bundle does not contain, each with the reason.
pub fn render_left_behind(manifest: &Manifest) -> String {
    let mut text = String::new();
    if !manifest.left_behind.is_empty() {
        text.push_str("\nleft behind:\n");
    }
    for left in &manifest.left_behind {
        let place = left.file.as_deref().zip(left.line).map(|(file, line)| format!(" ({file}:{line})"));
        let place = printable(&place.unwrap_or_default());
        let _ = writeln!(text, "  {}: {}{place}", printable(&left.what), printable(&left.why));
    }
    text
}

impl VerifiedBundle {
    /// The JSON output.
    pub fn to_json(&self, path: &Path) -> Value {
        json!({
            "bundle": path, "files": self.manifest.files.len(), "manifest_sha256": self.sha256,
            "not_in_bundle": self.beside,
        })
    }

    /// The text output.
    pub fn to_text(&self, path: &Path) -> String {
        let (files, sha256) = (self.manifest.files.len(), &self.sha256);
        let mut text = format!("{} is valid: {files} files, manifest {sha256}\n", path.display());
        if !self.beside.is_empty() {
            text.push_str("\nnot part of the bundle and not checked:\n");
        }
        for name in &self.beside {
            let _ = writeln!(text, "  {}: {}", printable(name), what_is_beside(name));
        }
        text
    }
}

/// The description of an entry that may be next to a bundle.
fn what_is_beside(name: &str) -> &'static str {
    match name {
        ".git" => "a git repository; keep it only if you cloned the bundle or made it yourself",
        ".env" => "variables for runs; keep it only if you wrote it yourself",
        _ => "left by runs; remove it if you have not run the bundle here",
    }
}
