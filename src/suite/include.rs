//! `{include: name}`: assertions in a separate file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{Lookup, Reader};
use crate::config::{Node, Span, normalized};

/// How deep includes may be nested, as in AgentV.
const DEEPEST: usize = 3;

/// The included files that were read, by path; a bad one is stored, too, so that it is reported once.
pub type Templates = HashMap<PathBuf, Option<Arc<Node>>>;

/// The entries of a list, with includes replaced by their content.
pub fn expand<'n>(items: &'n [Node], reader: &mut impl Reader) -> Vec<Cow<'n, Node>> {
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        match included(item) {
            Some(name) => expand_file(name, &mut Vec::new(), &mut entries, reader),
            None => entries.push(Cow::Borrowed(item)),
        }
    }
    entries
}

/// The name that an entry includes, if it is only an include.
pub fn included(item: &Node) -> Option<&Node> {
    match item.entries()? {
        [(key, value)] if key.text == "include" => Some(value).filter(|value| value.as_str().is_some()),
        _ => None,
    }
}

fn expand_file(
    include: &Node,
    chain: &mut Vec<PathBuf>,
    entries: &mut Vec<Cow<'_, Node>>,
    reader: &mut impl Reader,
) {
    let at = &include.span;
    let Some(name) = reader.choice(include, "the include") else { return };
    let shown = |chain: &[PathBuf], last: String, reader: &mut _| {
        let shown = |path: &PathBuf| Reader::lookup(reader).shown(path).display().to_string();
        chain.iter().map(shown).chain([last]).collect::<Vec<_>>().join(" → ")
    };
    if chain.len() == DEEPEST {
        let way = shown(chain, name, reader);
        let message = format!("`include` is nested more than {DEEPEST} levels deep: {way}");
        let hint = "put the assertions of the last file into an earlier one";
        reader.problems().error_with_hint(at, message, hint);
        return;
    }
    let Some(path) = find(&name, chain.last().and_then(|path| path.parent()), reader.lookup()) else {
        let hint = format!(
            "a bare name means `.agentv/templates/NAME.yaml`, a path with `./` or `/` a file; looked in {}",
            reader.lookup().listed()
        );
        reader.problems().error_with_hint(at, format!("no template `{name}`"), hint);
        return;
    };
    if !reader.may_include(&path) {
        let hint = format!("only files in {} can be included, links resolved", reader.lookup().listed());
        reader.problems().error_with_hint(at, format!("template outside the roots: `{name}`"), hint);
        return;
    }
    if chain.contains(&path) {
        let last = reader.lookup().shown(&path).display().to_string();
        let message = format!("`include` is circular: {}", shown(chain, last, reader));
        reader.problems().error_with_hint(at, message, "one of these files must not include the next");
        return;
    }
    let Some(template) = read(&path, at, reader) else { return };
    let list = template.entries().unwrap_or_default().iter().find(|(key, _)| key.text == "assertions");
    let Some(items) = list.and_then(|(_, list)| list.items()) else { return };
    chain.push(path);
    for item in items {
        match included(item) {
            Some(name) => expand_file(name, chain, entries, reader),
            None => entries.push(Cow::Owned(item.clone())),
        }
    }
    chain.pop();
}

/// Reads a template once.
fn read(path: &Path, at: &Span, reader: &mut impl Reader) -> Option<Arc<Node>> {
    if let Some(known) = reader.templates().get(path) {
        return known.clone();
    }
    let root = reader.read_yaml(path, at);
    let list = |root: &Node| {
        root.entries()?
            .iter()
            .find(|(key, _)| key.text == "assertions")
            .and_then(|(_, list)| list.items())
            .map(drop)
    };
    let root = root.filter(|root| {
        let is_template = list(root).is_some();
        if !is_template {
            let message = "a template is a mapping with a list of `assertions`";
            reader.problems().error(&Span::of_line(&root.span.source, root.span.line), message);
        }
        is_template
    });
    let root = root.map(Arc::new);
    reader.templates().insert(path.to_path_buf(), root.clone());
    root
}

/// Finds a bare name in `.agentv/templates` of each root; a path first in the template's own directory.
fn find(name: &str, near: Option<&Path>, lookup: &Lookup) -> Option<PathBuf> {
    let is_bare = !name.starts_with('.') && !name.contains(['/', '\\']);
    let candidates = if is_bare {
        vec![format!(".agentv/templates/{name}.yaml"), format!(".agentv/templates/{name}.yml")]
    } else {
        vec![name.to_owned()]
    };
    candidates.iter().find_map(|name| {
        let beside = near.map(|dir| normalized(&dir.join(name.trim_start_matches(['/', '\\']))));
        beside.filter(|path| path.is_file()).or_else(|| lookup.find_file(name))
    })
}
