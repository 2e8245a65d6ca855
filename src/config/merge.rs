//! YAML merge keys: `<<: *anchor` includes the keys of another mapping, as in AgentV's parser.

use std::collections::HashMap;

use super::{Key, Node, NodeValue, Problems};

const MERGE: &str = "<<";

/// Replaces every `<<` of a tree by the keys it includes. A mapping's own key wins over a merged one; among merged mappings
/// the first wins.
pub(super) fn merge_keys(node: &mut Node, problems: &mut Problems) {
    match &mut node.value {
        NodeValue::List(items) => {
            for item in items {
                merge_keys(item, problems);
            }
        }
        NodeValue::Map(entries) => {
            for (_, value) in &mut *entries {
                merge_keys(value, problems);
            }
            if entries.iter().any(|(key, _)| key.text == MERGE) {
                *entries = merged(std::mem::take(entries), problems);
            }
        }
        _ => {}
    }
}

fn merged(entries: Vec<(Key, Node)>, problems: &mut Problems) -> Vec<(Key, Node)> {
    let mut out = MergedMap { entries: Vec::with_capacity(entries.len()), places: HashMap::new() };
    for (key, value) in entries {
        if key.text != MERGE {
            out.set(key, value);
            continue;
        }
        let sources = if let NodeValue::List(sources) = value.value { sources } else { vec![value] };
        for source in sources {
            let NodeValue::Map(entries) = source.value else {
                let message = format!("`<<`: expected a mapping, found {}", source.kind());
                problems.error(&source.span, message);
                continue;
            };
            for (key, value) in entries {
                if !out.places.contains_key(&key.text) {
                    out.set(key, value);
                }
            }
        }
    }
    out.entries
}

/// The entries so far, and the index of each key.
struct MergedMap {
    entries: Vec<(Key, Node)>,
    places: HashMap<String, usize>,
}

impl MergedMap {
    fn set(&mut self, key: Key, value: Node) {
        if let Some(at) = self.places.get(&key.text) {
            self.entries[*at] = (key, value);
        } else {
            self.places.insert(key.text.clone(), self.entries.len());
            self.entries.push((key, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Document;

    fn merged(text: &str) -> Result<String, String> {
        let document = Document::parse("x.yaml", text).map_err(|invalid| invalid.to_string())?;
        Ok(document.root.to_json().to_string())
    }

    #[test]
    fn own_keys_win_and_the_order_is_kept() {
        for (text, expected) in [
            ("- &a {x: 1, y: 2}\n- {<<: *a, y: 3, z: 4}", r#"[{"x":1,"y":2},{"x":1,"y":3,"z":4}]"#),
            ("- &a {x: 1}\n- {x: 0, <<: *a}", r#"[{"x":1},{"x":0}]"#),
            ("- &a {x: 1}\n- &b {x: 2, y: 2}\n- <<: [*a, *b]", r#"[{"x":1},{"x":2,"y":2},{"x":1,"y":2}]"#),
            (
                "- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {k: {<<: *b}}",
                r#"[{"x":1},{"x":1,"y":2},{"k":{"x":1,"y":2}}]"#,
            ),
        ] {
            assert_eq!(merged(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn only_mappings_merge() {
        insta::assert_snapshot!(merged("a: &a 7\nb: { <<: *a }").unwrap_err(), @r"
        `<<`: expected a mapping, found a number
          --> x.yaml:1:4
           |
         1 | a: &a 7
           |    ^^^^
        ");
    }
}
