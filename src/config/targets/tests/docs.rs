//! The files in `docs` that are generated from the tables of providers and keys.

use std::fmt::Write as _;
use std::path::Path;

use crate::config::targets::auth_keys::auth_of;
use crate::config::targets::keys::{Key, KeyGroup, LINK, PRICE, of_kind};
use crate::config::targets::shape::Shape;
use crate::config::targets::targets_schema;
use crate::model::PROVIDERS;
use crate::protocol::MOST_SHARDS;

const INTRODUCTION: &str = "# Keys of `targets.yaml`

Unknown keys are errors. `${{ NAME }}` and `${{ NAME:-default }}` may replace any value except `name` and `price`. An API key is always a
reference. [Choose targets](models.md) has examples. This page is generated.

";

#[test]
fn the_page_and_the_schema_have_every_provider_and_every_key() {
    let schema = serde_json::to_string_pretty(&targets_schema()).unwrap() + "\n";
    for (name, text) in [("targets.md", page()), ("targets.schema.json", schema)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == text, "docs/{name} is stale: run this test with UPDATE_DOCS=1");
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("## Providers\n\n| `provider` | other names | usual variable of the key | default of `base_url` |\n|---|---|---|---|\n");
    let code = |text: &str| format!("`{text}`");
    for kind in &PROVIDERS {
        let aliases: Vec<String> = kind.aliases.iter().map(|alias| code(alias)).collect();
        let or_dash = |text: Option<&str>| text.map_or_else(|| "–".to_owned(), code);
        let (key, base) = (or_dash(kind.key_variable), or_dash(kind.base_url));
        let _ = writeln!(page, "| `{}` | {} | {key} | {base} |", kind.name, aliases.join(", "));
    }
    for (title, keys) in sections() {
        let _ = writeln!(page, "\n## {title}\n");
        table(&mut page, keys);
    }
    page.push_str("\n## `price`\n\nA mapping:\n\n");
    table(&mut page, PRICE.keys());
    for kind in &PROVIDERS {
        let Some((_, oidc)) = kind.api().and_then(auth_of) else { continue };
        let _ = writeln!(page, "\n## `auth.github_oidc` of `{}`\n\nA mapping:\n", kind.name);
        table(&mut page, oidc.keys());
    }
    page
}

/// The keys by the targets that have them, in the order of the providers; keys that most targets have come first.
fn sections() -> Vec<(String, Vec<&'static Key>)> {
    let groups: Vec<(&str, KeyGroup)> = PROVIDERS.iter().map(|kind| (kind.name, of_kind(kind))).collect();
    let mut seen: Vec<&Key> = Vec::new();
    let mut sections: Vec<(usize, String, Vec<&Key>)> = Vec::new();
    for key in groups.iter().flat_map(|(_, group)| group.keys()).chain(LINK.keys()) {
        if seen.iter().any(|known| known.id == key.id) {
            continue;
        }
        seen.push(key);
        let has = |group: &KeyGroup| group.keys().any(|known| known.id == key.id);
        let names: Vec<String> =
            groups.iter().filter(|(_, group)| has(group)).map(|(name, _)| format!("`{name}`")).collect();
        let title = match names.len() {
            0 => "Links to another target".to_owned(),
            count if count == groups.len() => "All targets".to_owned(),
            count if count + 1 == groups.len() && !has(&groups[count].1) => {
                "All targets but `github-actions`".to_owned()
            }
            _ => names.join(", "),
        };
        match sections.iter_mut().find(|(_, known, _)| *known == title) {
            Some((_, _, keys)) => keys.push(key),
            None => sections.push((names.len(), title, vec![key])),
        }
    }
    sections.sort_by_key(|(count, _, _)| std::cmp::Reverse(*count));
    sections.into_iter().map(|(_, title, keys)| (title, keys)).collect()
}

fn table(page: &mut String, keys: impl IntoIterator<Item = &'static Key>) {
    page.push_str("| key | value | meaning |\n|---|---|---|\n");
    for key in keys {
        let _ = writeln!(page, "| `{}` | {} | {} |", key.name, value(key.shape), key.about);
    }
}

/// The legal values, in a few words.
fn value(shape: Shape) -> String {
    let range = |what: &str, least: Option<String>, most: Option<String>| match (least, most) {
        (Some(least), Some(most)) => format!("{what}, {least} to {most}"),
        (Some(least), None) => format!("{what}, {least} or more"),
        (None, _) => what.to_owned(),
    };
    match shape {
        Shape::Name | Shape::Text | Shape::Verbatim => "text".to_owned(),
        Shape::Provider => "one of [these](#providers)".to_owned(),
        Shape::Form(_, expected) => {
            let mut chars = expected.trim_end_matches('.').chars();
            chars
                .next()
                .map(|first| first.to_lowercase().collect::<String>() + chars.as_str())
                .unwrap_or_default()
        }
        Shape::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
        Shape::Flag => "`true` or `false`".to_owned(),
        // The maximum of 32 bits is not a limit in practice.
        Shape::Whole(least, most) => range(
            "whole number",
            least.map(|least| least.to_string()),
            most.filter(|most| *most < i64::from(u32::MAX)).map(|most| most.to_string()),
        ),
        Shape::Number(least, most) => {
            range("number", Some(least.to_string()), most.map(|most| most.to_string()))
        }
        Shape::Above0(None) => "number above 0".to_owned(),
        Shape::Above0(Some(most)) => format!("number above 0, at most {most}"),
        Shape::Duration(_) => "duration such as `90s` or `10m`".to_owned(),
        Shape::Strings => "text, or a list of texts".to_owned(),
        Shape::Shards => format!("`auto`, or 1 to {MOST_SHARDS}"),
        Shape::ApiKey | Shape::AnyKey => "`${{ NAME }}`".to_owned(),
        Shape::Mapping(_) | Shape::ResponseFormat => "mapping".to_owned(),
        Shape::Wholes => "list of numbers".to_owned(),
        Shape::Any => "any".to_owned(),
    }
}
