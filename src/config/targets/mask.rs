//! Hides literal secrets from the lines that messages draw.
//!
//! A key that was written into the file is rejected, but the message that says so, and every other message about the same
//! line, would carry it into a log.

use std::sync::Arc;

use crate::config::{Document, Node, NodeValue, Reference, Source, Span, did_you_mean};
use crate::util::secrets::is_secret_name;

/// Shorter words are not secrets; hiding them everywhere would make messages unreadable.
const SHORTEST_SECRET: usize = 8;

#[derive(Default)]
struct MaskedWords {
    words: Vec<String>,
    spans: Vec<Span>,
}

/// Replaces literal secrets by stars. Only the text that lines are drawn from changes, not the values, and every column
/// stays the same.
pub(super) fn hide_literals(document: &mut Document) {
    let mut found = MaskedWords::default();
    find(&document.root, &mut found);
    if found.words.is_empty() && found.spans.is_empty() {
        return;
    }
    // The longest first, so that a word inside another one does not split it.
    found.words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut text = document.source.text.clone();
    for word in &found.words {
        text = text.replace(word, &stars(word.chars().count()));
    }
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for span in &found.spans {
        if let Some(line) = lines.get_mut(span.line as usize - 1) {
            let (from, width) = (span.column as usize - 1, span.width as usize);
            let hidden = |(at, c)| if (from..from + width).contains(&at) && c != '\r' { '*' } else { c };
            *line = line.chars().enumerate().map(hidden).collect();
        }
    }
    let source = Arc::new(Source { path: document.source.path.clone(), text: lines.join("\n") });
    move_to(&mut document.root, &source);
    document.source = source;
}

fn find(node: &Node, found: &mut MaskedWords) {
    match &node.value {
        NodeValue::Map(entries) => {
            for (key, value) in entries {
                if is_secret_name(&key.text) || did_you_mean(&key.text, ["api_key"]).is_some() {
                    find_literal(value, found);
                }
                if key.text == "command" {
                    find_in_command(value.as_str().unwrap_or_default(), found);
                }
                find(value, found);
            }
        }
        NodeValue::List(items) => items.iter().for_each(|item| find(item, found)),
        NodeValue::String(text) => {
            // `https://user:password@host`
            if let Some((_, rest)) = text.split_once("://")
                && let Some((user, _)) = rest.split('/').next().unwrap_or_default().rsplit_once('@')
            {
                found.words.push(user.to_owned());
            }
        }
        _ => {}
    }
}

/// `OPENAI_API_KEY=… run-evals`, `--api-key …`, `--token=…`
fn find_in_command(command: &str, found: &mut MaskedWords) {
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value),
            None if word.starts_with('-') => (word, words.peek().copied().unwrap_or_default()),
            None => continue,
        };
        let value = value.trim_matches(['"', '\'']);
        let is_literal = value.len() >= SHORTEST_SECRET && !value.starts_with(['$', '{', '-']);
        if is_literal && is_secret_name(name) {
            found.words.push(value.to_owned());
        }
    }
}

fn find_literal(value: &Node, found: &mut MaskedWords) {
    let literal = match &value.value {
        NodeValue::String(text) => {
            let text = text.trim();
            if let Some(reference) = Reference::whole(text) {
                reference.default.unwrap_or_default()
            } else if text.starts_with("${{") && text.ends_with("}}") && !text.contains(":-") {
                // A misspelled reference, such as `${{ secrets.KEY }}`, should be visible.
                ""
            } else {
                found.spans.push(value.span.clone());
                text
            }
        }
        NodeValue::Int(_) | NodeValue::Float(_) => {
            found.spans.push(value.span.clone());
            ""
        }
        _ => "",
    };
    // A value over several lines has no width: search for its words instead.
    let long = literal.split_whitespace().filter(|word| word.len() >= SHORTEST_SECRET);
    found.words.extend(long.map(str::to_owned));
}

fn move_to(node: &mut Node, source: &Arc<Source>) {
    node.span.source = Arc::clone(source);
    match &mut node.value {
        NodeValue::List(items) => items.iter_mut().for_each(|item| move_to(item, source)),
        NodeValue::Map(entries) => {
            for (key, value) in entries {
                key.span.source = Arc::clone(source);
                move_to(value, source);
            }
        }
        _ => {}
    }
}

fn stars(count: usize) -> String {
    "*".repeat(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_secrets_are_hidden_everywhere() {
        for text in [
            "a: { api_key: \"sk-very-secret\", b: 1 }",
            "a: { b: 1, apiKey: sk-very-secret, c: 2 }",
            "api_ky: sk-very-secret",
            "api_key:\n  sk-very-secret\n",
            "api_key: >-\n  sk-very-secret\n",
            "api_key: ${{ KEY:-sk-very-secret }}",
            "github_token: sk-very-secret # sk-very-secret",
            "base_url: https://me:sk-very-secret@host/v1",
            "x: &k sk-very-secret\napi_key: *k",
            "command: OPENAI_API_KEY=sk-very-secret /bin/x {PROMPT}",
            "command: /bin/x --api-key 'sk-very-secret' --token=\"sk-very-secret\"",
        ] {
            let mut document = Document::parse("x.yaml", text).unwrap();
            let before: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
            hide_literals(&mut document);
            let hidden = &document.source.text;
            assert!(!hidden.contains("very-secret"), "{hidden}");
            assert_eq!(hidden.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), before);
            assert_eq!(document.root.span.source, document.source);
        }
    }

    #[test]
    fn other_values_stay_visible() {
        let text = "api_key: ${{ OPENAI_API_KEY }}\ntokens_per_minute: 2000000\nmax_tokens: 12345678\n\
                    command: x --token-file /etc/a-long-token-file --key $A_LONG_VARIABLE --token {OUTPUT_FILE}\n";
        let mut document = Document::parse("x.yaml", text).unwrap();
        hide_literals(&mut document);
        assert_eq!(document.source.text, text);
    }
}
