//! The files of a suite: their formats, their names and their text.

use std::path::Path;

use crate::model::Failure;
use crate::util::path::quoted;

/// The formats of a suite and of an external test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One document.
    Yaml,
    /// One test on each line.
    Jsonl,
}

impl Format {
    /// The format of a test file.
    pub fn of(path: &Path) -> Option<Self> {
        match extension(path).as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "jsonl" => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// The format of a suite; refuses formats that only AgentV reads.
    pub fn of_suite(path: &Path) -> Result<Self, Failure> {
        let refused = |what: &str| {
            Failure::config(format!("cannot load the suite `{}`: {what}", path.display()))
                .hint("write the suite as `.yaml`, `.yml` or `.jsonl`")
        };
        match (Self::of(path), extension(path).as_str()) {
            (Some(format), _) => Ok(format),
            (None, "ts" | "mts" | "js" | "mjs") => {
                Err(refused("a TypeScript suite is a program, which only AgentV runs"))
            }
            _ if path.is_dir() => Err(Failure::config(format!("`{}` is a directory, not a suite", path.display()))
                .hint("pass the suite in it, for example `suite.eval.yaml`")),
            (None, "json") => Err(Failure::config(format!(
                "cannot load the suite `{}`: suites are `.yaml`, `.yml` or `.jsonl` files",
                path.display()
            ))
            .hint(format!(
                "JSON is valid YAML, so rename it: `mv {} {}`; an Agent Skills `evals.json` runs with `agentv eval` only",
                quoted(path),
                quoted(&path.with_extension("yaml"))
            ))),
            (None, "") => Err(refused("its name has no extension, so its format is unknown")),
            (None, other) => Err(refused(&format!("unknown format `.{other}`"))),
        }
    }
}

/// The name of a suite without `name`.
pub fn suite_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let ending = [".eval.yaml", ".eval.yml", ".yaml", ".yml", ".jsonl"]
        .into_iter()
        .find(|ending| lower.ends_with(ending))
        .unwrap_or_default();
    let stem = &name[..name.len() - ending.len()];
    if stem.is_empty() { "eval".to_owned() } else { stem.to_owned() }
}

fn extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_file() {
        for (path, name) in [
            ("a/demo.eval.yaml", "demo"),
            ("demo.EVAL.yml", "demo"),
            ("demo.yaml", "demo"),
            ("cases.v2.jsonl", "cases.v2"),
            (".eval.yaml", "eval"),
        ] {
            assert_eq!(suite_name(Path::new(path)), name);
        }
    }
}
