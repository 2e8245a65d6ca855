//! AgentV's own registry: `projects:` in its `config.yaml`. A sync only reads it; `register` writes it.

use std::path::{Path, PathBuf};

use super::entry;
use super::registry::{Benchmark, GitSource, RegistryReader, document};
use crate::config::{Document, Node, Span};
use crate::model::Failure;

/// The projects of a file. Those that AgentV would drop are reported and left out.
pub(super) fn projects(
    file: &Document,
    path: &Path,
    reader: &mut RegistryReader<'_>,
) -> Result<Vec<(Benchmark, Span)>, Failure> {
    let Some(mut fields) = file.root.fields("registry", &mut reader.problems) else { return Ok(Vec::new()) };
    let Some(node) = fields.get("projects") else { return Ok(Vec::new()) };
    // AgentV 5 allows the list to be in a separate file.
    if let Some(other) = node.as_str().and_then(|text| text.strip_prefix("file://")) {
        let other = path.parent().unwrap_or(Path::new("/")).join(other);
        let listed = document(&other)?;
        let node = listed.root.entries().unwrap_or_default().iter().find(|(key, _)| key.text == "projects");
        let node = node.map_or(&listed.root, |(_, node)| node);
        return Ok(read_all(node, &other, reader));
    }
    Ok(read_all(node, path, reader))
}

fn read_all(node: &Node, path: &Path, reader: &mut RegistryReader<'_>) -> Vec<(Benchmark, Span)> {
    let Some(items) = node.items() else {
        reader.problems.error(&node.span, format!("`projects`: expected a list, found {}", node.kind()));
        return Vec::new();
    };
    items.iter().filter_map(|item| Some((read(item, path, reader)?, item.span.clone()))).collect()
}

/// A project: AgentV 4 uses `repo_url` and `ref`, AgentV 5 `repo` and `branch`.
fn read(node: &Node, path: &Path, reader: &mut RegistryReader<'_>) -> Option<Benchmark> {
    let mut fields = node.fields("project", &mut reader.problems)?;
    let mut text = |key: &str| fields.get(key).filter(|node| node.as_str().is_some());
    let (Some(id), Some(dir)) = (text("id"), text("path")) else {
        reader.problems.warning(
            &node.span,
            "a project without `id` or `path`, which AgentV leaves out too",
            None,
        );
        return None;
    };
    let (name, added_at) = (text("name"), text("added_at"));
    let url = text("repo_url").or_else(|| text("repo"));
    let reference = text("ref").or_else(|| text("branch"));
    let id = entry::checked_id(id.as_str()?, id, reader)?;
    let source = match url {
        Some(node) => {
            let reference = match reference {
                Some(node) => Some(entry::reference(node, reader)?),
                None => None,
            };
            Some(GitSource { url: entry::url(node.as_str()?, node, reader)?, reference })
        }
        None => None,
    };
    let owned = |node: Option<&Node>| node.and_then(Node::as_str).map(ToOwned::to_owned);
    Some(Benchmark {
        name: owned(name).unwrap_or_else(|| id.clone()),
        id,
        path: directory(dir.as_str()?, dir, path, reader)?,
        source,
        added_at: owned(added_at),
        registry: path.to_path_buf(),
        named: None,
    })
}

/// The directory of a project. AgentV uses the text as it is, so a relative path starts at AgentV's working directory.
fn directory(text: &str, at: &Node, registry: &Path, reader: &mut RegistryReader<'_>) -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let path = entry::path(text, at, &here, registry, reader)?;
    let hint = Some(format!("write `{}`, if that is the directory", path.display()));
    if text.starts_with('~') {
        reader.problems.warning(&at.span, "`path`: AgentV does not expand `~`", hint);
    } else if !text.starts_with('/') && !text.contains("${{") {
        let message = "`path`: AgentV resolves a relative path from the directory that it is started in";
        reader.problems.warning(&at.span, message, hint);
    }
    Some(path)
}
