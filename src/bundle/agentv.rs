//! The AgentV version that a suite runs with: from the installed package, else from the lock file.
//!
//! No program is started for this: `npm run` puts programs of a checkout into `PATH`.

use std::path::Path;

use super::ignore::NODE_LOCKS;
use crate::util::programs;
use crate::util::regular_file::{self, SETTINGS};

/// The version, if it is known.
pub(super) fn version(dir: &Path, root: &Path) -> Option<String> {
    let dirs = || dir.ancestors().take_while(|dir| dir.starts_with(root));
    let local = dirs().find_map(|dir| package_version(&dir.join("node_modules/agentv")));
    let installed = || installed_version(&programs::find("agentv", &programs::path())?);
    let locked = || dirs().find_map(|dir| NODE_LOCKS.iter().find_map(|name| locked(&dir.join(name))));
    local.or_else(installed).or_else(locked)
}

/// The version of the package that contains a program.
fn installed_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    real.ancestors().find_map(package_version)
}

fn package_version(dir: &Path) -> Option<String> {
    let text = regular_file::read(&dir.join("package.json"), SETTINGS).ok()?;
    let json: serde_json::Value = serde_json::from_slice(&text).ok()?;
    (json["name"] == "agentv").then(|| json["version"].as_str().and_then(checked)).flatten()
}

/// The version in a lock file.
fn locked(path: &Path) -> Option<String> {
    let text = regular_file::read_to_string(path, SETTINGS).ok()?;
    if path.ends_with("package-lock.json") {
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        return json["packages"]["node_modules/agentv"]["version"].as_str().and_then(checked);
    }
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        for (at, name) in line.match_indices("agentv@") {
            let is_name = !line[..at].ends_with(|c: char| c.is_alphanumeric() || "-_.@/".contains(c));
            let rest = &line[at + name.len()..];
            let end = rest.find(['"', '\'', ',', ':', ' ', '(', ')']).unwrap_or(rest.len());
            if let Some(version) = checked(&rest[..end]).filter(|_| is_name) {
                return Some(version);
            }
            // `yarn.lock` has the range, and the version on the next line.
            let next = lines.clone().next().filter(|_| is_name).unwrap_or_default().trim();
            if let Some(version) = next.strip_prefix("version") {
                return checked(version.trim_matches([':', ' ', '"']));
            }
        }
    }
    None
}

/// A text, if it is a version.
fn checked(text: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let is_version = text.split('.').count() >= 3
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.len() < 64
        && text.chars().all(legal);
    is_version.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_lock_files() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, version) in [
            (
                "package-lock.json",
                r#"{"packages": {"node_modules/agentv": {"version": "4.42.4"}}}"#,
                Some("4.42.4"),
            ),
            ("bun.lock", r#"{ "packages": { "agentv": ["agentv@4.42.1", "", {}] } }"#, Some("4.42.1")),
            ("bun.lock", r#"{ "packages": { "@x/agentv": ["@x/agentv@1.2.3", "", {}] } }"#, None),
            ("pnpm-lock.yaml", "packages:\n\n  agentv@4.40.0:\n    resolution: {}\n", Some("4.40.0")),
            ("yarn.lock", "agentv@^4.0.0:\n  version \"4.41.0\"\n", Some("4.41.0")),
            ("yarn.lock", "other@^4.0.0:\n  version \"4.41.0\"\n", None),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert_eq!(locked(&path).as_deref(), version, "{name}: {text}");
        }
    }
}
