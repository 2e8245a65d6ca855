//! One entry of `benchmarks:`.

use std::path::{Path, PathBuf};

use super::address;
use super::registry::{Benchmark, GitSource, RegistryReader, expand};
use crate::config::{Fields, Node, did_you_mean, references};
use crate::util::path::normalized;

/// The longest id.
const LONGEST_ID: usize = 100;
const KEYS: [&str; 5] = ["id", "name", "path", "source", "added_at"];
const SOURCE_KEYS: [&str; 2] = ["url", "ref"];

/// Reads an entry; records its problems.
pub(super) fn read(node: &Node, registry: &Path, reader: &mut RegistryReader<'_>) -> Option<Benchmark> {
    let mut fields = node.fields("benchmark", &mut reader.problems)?;
    let id = required(&mut fields, "id", reader).and_then(|(id, at)| checked_id(id, at, reader));
    let name = fields.string("name", &mut reader.problems).map(ToOwned::to_owned);
    let base = registry.parent().unwrap_or(Path::new("/"));
    let path =
        required(&mut fields, "path", reader).and_then(|(text, at)| path(text, at, base, registry, reader));
    let added_at = fields
        .get("added_at")
        .map(|node| node.as_str().map_or_else(|| node.to_json().to_string(), ToOwned::to_owned));
    let errors = reader.problems.error_count();
    let source = fields.get("source").and_then(|node| source(node, reader));
    let is_sound = reader.problems.error_count() == errors;
    near_misses(&fields, &KEYS, reader);
    let id = id?;
    let benchmark = Benchmark {
        name: name.unwrap_or_else(|| id.clone()),
        id,
        path: path?,
        source,
        added_at,
        registry: registry.to_path_buf(),
        named: None,
    };
    is_sound.then_some(benchmark)
}

fn source(node: &Node, reader: &mut RegistryReader<'_>) -> Option<GitSource> {
    let mut fields = node.fields("`source`", &mut reader.problems)?;
    let url = required(&mut fields, "url", reader).and_then(|(url, at)| self::url(url, at, reader));
    let reference = fields.get("ref").and_then(|node| reference(node, reader));
    near_misses(&fields, &SOURCE_KEYS, reader);
    Some(GitSource { url: url?, reference })
}

/// The address, with variables replaced.
pub(super) fn url(text: &str, at: &Node, reader: &mut RegistryReader<'_>) -> Option<String> {
    let url = filled("url", text, at, reader)?;
    match address::check(&url) {
        Ok(()) => Some(url),
        Err((message, hint)) => {
            reader.problems.error_with_hint(&at.span, message, hint);
            None
        }
    }
}

/// The branch, tag or commit, with variables replaced. A name of digits is a number in YAML.
pub(super) fn reference(node: &Node, reader: &mut RegistryReader<'_>) -> Option<String> {
    let text = match node.as_str() {
        Some(text) => text.to_owned(),
        None if node.as_f64().is_some() => {
            let hint = "put it in quotes";
            reader.problems.error_with_hint(&node.span, "`ref`: expected a string, found a number", hint);
            return None;
        }
        None => {
            reader.problems.error(&node.span, format!("`ref`: expected a string, found {}", node.kind()));
            return None;
        }
    };
    let reference = filled("ref", &text, node, reader)?;
    if !is_reference(&reference) {
        let hint = "a branch or a tag by its name (`main`, `v1.2`), or a commit by its 40 digits";
        reader.problems.error_with_hint(
            &node.span,
            format!("`ref`: `{reference}` is not a valid ref name"),
            hint,
        );
        return None;
    }
    Some(reference)
}

/// The path, absolute, with variables replaced. A relative one starts at `base`.
pub(super) fn path(
    text: &str,
    at: &Node,
    base: &Path,
    registry: &Path,
    reader: &mut RegistryReader<'_>,
) -> Option<PathBuf> {
    let text = filled("path", text, at, reader)?;
    let expanded = match expand(&text, reader.env) {
        Ok(path) => path,
        Err(message) => {
            reader.problems.error(&at.span, format!("`path`: {message}"));
            return None;
        }
    };
    let path = normalized(&base.join(expanded));
    let home = reader.env.get("HOME").map(|home| normalized(Path::new(home)));
    if path.parent().is_none() || home.is_some_and(|home| home == path) || registry.starts_with(&path) {
        let message = format!("`path`: `{}` cannot hold a benchmark", path.display());
        reader.problems.error_with_hint(&at.span, message, "use a directory that contains nothing else");
        return None;
    }
    Some(path)
}

/// An id that is safe in a command line, a table and a URL.
pub(super) fn checked_id(id: &str, at: &Node, reader: &mut RegistryReader<'_>) -> Option<String> {
    let is_sound = id.len() <= LONGEST_ID
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_sound {
        let hint =
            format!("letters, digits, `.`, `_` and `-`, at most {LONGEST_ID}, a letter or digit first");
        reader.problems.error_with_hint(&at.span, format!("`{id}` cannot be an id"), hint);
    }
    is_sound.then(|| id.to_owned())
}

pub(super) fn required<'n>(
    fields: &mut Fields<'n>,
    key: &str,
    reader: &mut RegistryReader<'_>,
) -> Option<(&'n str, &'n Node)> {
    let Some(node) = fields.get(key) else {
        reader.problems.error(&fields.node.span, format!("`{key}` is missing"));
        return None;
    };
    fields.string(key, &mut reader.problems).map(|text| (text, node))
}

/// The text with its variables replaced. An unset variable is an error, and so is one that holds a key.
fn filled(key: &str, text: &str, at: &Node, reader: &mut RegistryReader<'_>) -> Option<String> {
    let mut is_sound = true;
    if text.matches("${{").count() > references(text).count() {
        let message = format!("`{key}`: a reference that names no variable");
        reader.problems.error_with_hint(&at.span, message, "write `${{ NAME }}` or `${{ NAME:-default }}`");
        is_sound = false;
    }
    for variable in references(text) {
        let name = variable.name;
        if reader.env.is_secret(name) {
            let message =
                format!("`{key}`: `{name}` holds a secret, which would appear in logs and in the clone");
            let hint = "git's credential helpers and `GITHUB_TOKEN` authenticate without storing it";
            reader.problems.error_with_hint(&at.span, message, hint);
            is_sound = false;
        } else if variable.value(reader.env).is_none() {
            let message = format!("`{key}`: the variable `{name}` is not set");
            let hint = format!("set it, or give a default: `${{{{ {name}:-… }}}}`");
            reader.problems.error_with_hint(&at.span, message, hint);
            is_sound = false;
        }
    }
    if let Some(variable) = shell_variable(text).filter(|_| key != "ref") {
        let name = variable.trim_matches(['$', '{', '}']);
        let message = format!("`{key}`: `{variable}` is not replaced by its value");
        reader.problems.error_with_hint(&at.span, message, format!("write `${{{{ {name} }}}}`"));
        is_sound = false;
    }
    let value = crate::config::interpolate(text, reader.env, |_| {});
    if is_sound && (value.is_empty() || value.starts_with('-') || value.chars().any(char::is_control)) {
        let message = format!("`{key}`: the value is empty, begins with `-` or has control characters");
        reader.problems.error(&at.span, message);
        is_sound = false;
    }
    is_sound.then_some(value)
}

/// A variable in the syntax of a shell, `$NAME` or `${NAME}`, which would name a directory.
fn shell_variable(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let start = usize::from(rest.starts_with('{'));
        let name = rest[start..].split(|c| !is_name(c)).next().filter(|name| !name.is_empty())?;
        let end = at + 1 + start + name.len();
        let end = if start == 1 { end + text[end..].find('}').map_or(0, |close| close + 1) } else { end };
        Some(&text[at..end])
    })
}

/// Whether git accepts this as a branch, a tag or a commit.
fn is_reference(name: &str) -> bool {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let bad_part =
        |part: &str| part.is_empty() || part.starts_with('.') || part.strip_suffix(".lock").is_some();
    !name.contains(bad)
        && !name.split('/').any(bad_part)
        && !["..", "@{"].iter().any(|text| name.contains(text))
        && !name.ends_with('.')
        && name != "@"
        && name != "HEAD"
        && name.len() <= 250
}

/// Unknown keys are ignored; likely typos produce a warning.
fn near_misses(fields: &Fields<'_>, keys: &[&'static str], reader: &mut RegistryReader<'_>) {
    for key in fields.unknown() {
        if let Some(near) = did_you_mean(&key.text, keys.iter().copied()) {
            let message = format!("unknown key `{}`", key.text);
            reader.problems.warning(&key.span, message, Some(format!("did you mean `{near}`?")));
        }
    }
}
