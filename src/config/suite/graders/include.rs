//! `{include: name}`: assertions that stand in a file of their own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Entries;
use crate::config::suite::files::normalized;
use crate::config::suite::loader::Loader;
use crate::config::suite::{files, top};
use crate::config::{Node, Span};

/// How many files an include may lead through, as in AgentV.
const DEEPEST: usize = 3;

/// The templates that were read, by path; a bad one is remembered too, and told once.
pub(in crate::config::suite) type Templates = HashMap<PathBuf, Option<Arc<Node>>>;

/// The entries of a list, with those of the files that it includes in their place.
pub(super) fn expand<'n>(list: &'n Node, entries: &mut Entries<'n>, loader: &mut Loader) {
    for item in list.items().unwrap_or_default() {
        match included(item) {
            Some((name, span)) => expand_file(name, span, &mut Vec::new(), entries, loader),
            None => entries.push(Cow::Borrowed(item)),
        }
    }
}

/// The name that an entry includes, if it is nothing but an include.
fn included(item: &Node) -> Option<(&str, &Span)> {
    match item.entries()? {
        [(key, value)] if key.text == "include" => Some((value.as_str()?, &value.span)),
        _ => None,
    }
}

fn expand_file(
    name: &str,
    at: &Span,
    chain: &mut Vec<PathBuf>,
    entries: &mut Entries<'_>,
    loader: &mut Loader,
) {
    let shown = |chain: &[PathBuf], last: &str, loader: &Loader| {
        let mut names: Vec<String> =
            chain.iter().map(|path| loader.shown(path).display().to_string()).collect();
        names.push(last.to_owned());
        names.join(" → ")
    };
    if chain.len() == DEEPEST {
        let message =
            format!("`include` leads through more than {DEEPEST} files: {}", shown(chain, name, loader));
        loader.problems.error_with_hint(
            at,
            message,
            "put the assertions of the last file into an earlier one",
        );
        return;
    }
    let Some(path) = find(name, chain.last().and_then(|path| path.parent()), loader) else {
        let hint = format!(
            "a bare name means `.agentv/templates/NAME.yaml`, a path with `./` or `/` a file; looked in {}",
            loader.listed_roots()
        );
        loader.problems.error_with_hint(at, format!("no template `{name}`"), hint);
        return;
    };
    if !loader.is_inside(&path) {
        let hint = format!("only files in {} can be included, links resolved", loader.listed_roots());
        loader.problems.error_with_hint(at, format!("template outside the roots: `{name}`"), hint);
        return;
    }
    if chain.contains(&path) {
        let last = loader.shown(&path).display().to_string();
        let message = format!("`include` goes in a circle: {}", shown(chain, &last, loader));
        loader.problems.error_with_hint(at, message, "one of these files must not include the next");
        return;
    }
    let Some(template) = read(&path, at, loader) else { return };
    let list = template.entries().unwrap_or_default().iter().find(|(key, _)| key.text == "assertions");
    let Some(items) = list.and_then(|(_, list)| list.items()) else { return };
    chain.push(path);
    for item in items {
        match included(item) {
            Some((name, span)) => expand_file(name, span, chain, entries, loader),
            None => entries.push(Cow::Owned(item.clone())),
        }
    }
    chain.pop();
}

/// A template, once.
fn read(path: &Path, at: &Span, loader: &mut Loader) -> Option<Arc<Node>> {
    if let Some(known) = loader.templates.get(path) {
        return known.clone();
    }
    let root = files::read_text(path, at, loader).and_then(|source| top::parse(source, loader));
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
            loader.problems.error(&Span::of_line(&root.span.source, root.span.line), message);
        }
        is_template
    });
    let root = root.map(Arc::new);
    loader.templates.insert(path.to_path_buf(), root.clone());
    root
}

/// A bare name is looked for in `.agentv/templates` of each root; a path in the template's own directory first.
fn find(name: &str, near: Option<&Path>, loader: &Loader) -> Option<PathBuf> {
    let is_bare = !name.starts_with('.') && !name.contains(['/', '\\']);
    let candidates = if is_bare {
        vec![format!(".agentv/templates/{name}.yaml"), format!(".agentv/templates/{name}.yml")]
    } else {
        vec![name.to_owned()]
    };
    candidates.iter().find_map(|name| {
        let beside = near.map(|dir| normalized(&dir.join(name.trim_start_matches(['/', '\\']))));
        beside.filter(|path| path.is_file()).or_else(|| loader.find(name).filter(|path| path.is_file()))
    })
}
