//! Adds a benchmark to AgentV's own registry, the `projects:` of its `config.yaml`, so that AgentV's dashboard shows it.
//!
//! The entry is inserted as text, so that comments, order and spelling of the rest stay. The new file is compared with the old one
//! before it replaces it.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::lock::lock;
use super::registry::{AGENTV_FILE, Benchmark, agentv_home, document};
use crate::config::{Document, Env, Key, Node};
use crate::model::Failure;
use crate::util::durable;
use crate::util::path::normalized;

const PROJECTS: &str = "projects";

/// The result of adding an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// It was added to this file.
    Added(PathBuf),
    /// The directory was already listed, under this id.
    AlreadyAs(String),
}

/// An entry in AgentV 4's format. It names no repository: AgentV's dashboard would pull it at every start without the checks of a
/// sync, and a project that cannot be pulled blocks the others.
#[derive(Debug, Serialize)]
struct Project<'b> {
    id: &'b str,
    name: &'b str,
    path: &'b str,
    added_at: String,
    last_opened_at: String,
}

/// Adds a benchmark to the registry that AgentV's dashboard reads, unless its directory is already listed.
pub fn register(benchmark: &Benchmark, env: &Env) -> anyhow::Result<Registration> {
    let home = agentv_home(env)?;
    fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
    let _lock = lock(&home.join("config.sync.lock"), || {})?;
    let file = listing(home.join(AGENTV_FILE))?;
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read `{}`", file.display()))?,
    };
    let before = Document::parse(&file, text.as_str()).map_err(|_| unclear(&file, benchmark))?;
    for known in list(&before).and_then(|(_, node)| node.items()).unwrap_or_default() {
        if let Some(id) = same(known, benchmark, &file)? {
            return Ok(Registration::AlreadyAs(id));
        }
    }
    let after = inserted(&text, &before, &yaml(benchmark)?).ok_or_else(|| unclear(&file, benchmark))?;
    let reread = Document::parse(&file, after.as_str()).map_err(|_| unclear(&file, benchmark))?;
    if !is_one_more(&before, &reread, benchmark) {
        return Err(unclear(&file, benchmark).into());
    }
    write(&file, after.as_bytes()).with_context(|| format!("cannot write `{}`", file.display()))?;
    Ok(Registration::Added(file))
}

/// The file with the list: AgentV 5 allows a separate one. Follows a link, so that it stays a link.
fn listing(config: PathBuf) -> Result<PathBuf, Failure> {
    if !config.exists() {
        return Ok(config);
    }
    let main = document(&config)?;
    let other = list(&main).and_then(|(_, node)| node.as_str()?.strip_prefix("file://"));
    let file = match other {
        Some(other) => config.parent().unwrap_or(Path::new("/")).join(other),
        None => config,
    };
    Ok(file.canonicalize().unwrap_or(file))
}

/// The list of projects, with its key unless it is the whole file.
fn list(document: &Document) -> Option<(Option<&Key>, &Node)> {
    let root = &document.root;
    let Some(entries) = root.entries() else { return root.items().map(|_| (None, root)) };
    entries.iter().find(|(key, _)| key.text == PROJECTS).map(|(key, node)| (Some(key), node))
}

/// The id of an entry for the benchmark's directory. The same id with another directory is an error.
fn same(known: &Node, benchmark: &Benchmark, file: &Path) -> Result<Option<String>, Failure> {
    let text = |name: &str| {
        let value = known.entries()?.iter().find(|(key, _)| key.text == name);
        value.and_then(|(_, node)| node.as_str())
    };
    let (Some(id), Some(path)) = (text("id"), text("path")) else { return Ok(None) };
    let here = std::env::current_dir().unwrap_or_default();
    if normalized(&here.join(path)) == benchmark.path {
        return Ok(Some(id.to_owned()));
    }
    if id == benchmark.id {
        let message = format!("`{id}` is already a project in `{}`, with the path `{path}`", file.display());
        let hint = "remove that entry, or give the benchmark another `id`";
        return Err(Failure::config(message).hint(hint));
    }
    Ok(None)
}

/// The lines of an entry, not indented.
fn yaml(benchmark: &Benchmark) -> anyhow::Result<String> {
    let path = benchmark.path.to_str().filter(|path| !path.contains("${{"));
    let path = path.ok_or_else(|| {
        let message =
            format!("AgentV does not support a project with the path `{}`", benchmark.path.display());
        Failure::config(message).hint("use a directory whose name is plain text")
    })?;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let project = Project {
        id: &benchmark.id,
        name: &benchmark.name,
        path,
        added_at: now.clone(),
        last_opened_at: now,
    };
    Ok(serde_yaml::to_string(&project)?)
}

/// The text with one more entry at the end of the list; `None` if the list has an unsupported format.
fn inserted(text: &str, document: &Document, entry: &str) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let (at, indent) = match list(document) {
        None => {
            lines.push(format!("{PROJECTS}:"));
            (lines.len(), 2)
        }
        Some((key, node)) => match node.items().and_then(<[Node]>::last) {
            Some(last) => after_item(&lines, last)?,
            None => (opened(&mut lines, key?)?, 2),
        },
    };
    let indented = |(number, line): (usize, &str)| {
        format!("{:indent$}{}{line}", "", if number == 0 { "- " } else { "  " })
    };
    lines.splice(at..at, entry.lines().enumerate().map(indented));
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Some(lines.join(end) + end)
}

/// The line after an item of a block list, and the list's indentation.
fn after_item(lines: &[String], item: &Node) -> Option<(usize, usize)> {
    let first = usize::try_from(item.span.line).ok()?.checked_sub(1)?;
    let indent = lines.get(first)?.find('-')?;
    if !lines[first][..indent].trim().is_empty() {
        return None;
    }
    let is_inside = |line: &&String| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
    let inside = lines[first + 1..].iter().take_while(is_inside).enumerate();
    let last = inside.filter(|(_, line)| !line.trim().is_empty()).last();
    Some((last.map_or(first + 1, |(at, _)| first + 1 + at + 1), indent))
}

/// Prepares a key without entries for a block list, and returns the next line.
fn opened(lines: &mut [String], key: &Key) -> Option<usize> {
    let line = usize::try_from(key.span.line).ok()?.checked_sub(1)?;
    let rest = lines.get(line)?.strip_prefix(PROJECTS)?.strip_prefix(':')?;
    let (value, comment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    if !["", "[]", "~", "null"].contains(&value.trim()) {
        return None;
    }
    let space = if comment.is_empty() { "" } else { " " };
    lines[line] = format!("{PROJECTS}:{space}{comment}");
    Some(line + 1)
}

/// Whether the second file is the first with the benchmark added at the end.
fn is_one_more(before: &Document, after: &Document, benchmark: &Benchmark) -> bool {
    let projects = |document: &Document| -> Vec<Value> {
        let items = list(document).and_then(|(_, node)| node.items()).unwrap_or_default();
        items.iter().map(Node::to_json).collect()
    };
    let others = |document: &Document| -> Vec<(String, Value)> {
        let entries = document.root.entries().unwrap_or_default().iter();
        let entries = entries.filter(|(key, _)| key.text != PROJECTS);
        entries.map(|(key, node)| (key.text.clone(), node.to_json())).collect()
    };
    let mut now = projects(after);
    let added = now.pop().unwrap_or_default();
    now == projects(before)
        && others(before) == others(after)
        && added["id"] == benchmark.id.as_str()
        && added["path"].as_str().map(Path::new) == Some(&benchmark.path)
}

/// Replaces the file; a new one is readable only by its owner, an old one keeps its mode.
fn write(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let mode = fs::metadata(file).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    let mut temporary = durable::temporary_for(file)?;
    temporary.write_all(content)?;
    temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    durable::persist(temporary, file)
}

fn unclear(file: &Path, benchmark: &Benchmark) -> Failure {
    let message = format!("cannot add `{}` to `projects` in `{}`", benchmark.id, file.display());
    let (id, name, path) = (&benchmark.id, &benchmark.name, benchmark.path.display());
    Failure::config(message)
        .hint(format!("add it by hand under `projects:`: `- {{ id: {id}, name: '{name}', path: '{path}' }}`"))
}
