//! Markdown as a tree of fields, so that it is compared like JSON.
//!
//! A section is a mapping: `#` marks its presence, `labels` has its lines such as `**Outcome:** allowable`, `items` its checklist
//! with the state of each item, `bullets` its other points that contain a number or a name, `rows` those of its tables, `sections`
//! its subsections, and `text` the words. Words count only where a rule names them: two good texts are rarely equal.

use serde_json::{Map, Value};

use super::matcher::Matcher;
use super::prose;
use crate::model::{FieldPath, FieldRule, FieldType, folded};

/// How the parts of a section are compared by default.
pub(super) fn default_rules() -> impl Iterator<Item = (FieldPath, FieldRule)> {
    let rules = [
        ("**.bullets[]", FieldType::Prose),
        ("**.labels.*", FieldType::Phrase),
        ("**.rows[].*", FieldType::Phrase),
    ];
    rules.into_iter().filter_map(|(path, kind)| Some((path.parse().ok()?, FieldRule::Type(kind))))
}

/// The tree of a text, without words that no rule names.
pub(super) fn tree(text: &str, rules: &Matcher<'_>) -> Value {
    let mut root = read(text).into_value(false);
    prune(&mut root, rules);
    root
}

#[derive(Default)]
struct Section {
    text: Vec<String>,
    labels: Map<String, Value>,
    items: Map<String, Value>,
    bullets: Vec<Value>,
    rows: Vec<Value>,
    sections: Vec<(String, Self)>,
}

impl Section {
    fn into_value(self, is_section: bool) -> Value {
        let mut map = Map::new();
        if is_section {
            map.insert("#".to_owned(), Value::Bool(true));
        }
        let sections: Map<String, Value> = {
            let mut sections = Map::new();
            for (title, section) in self.sections {
                insert(&mut sections, title, section.into_value(true));
            }
            sections
        };
        for (key, part) in [("labels", self.labels), ("items", self.items)] {
            if !part.is_empty() {
                map.insert(key.to_owned(), Value::Object(part));
            }
        }
        for (key, part) in [("bullets", self.bullets), ("rows", self.rows)] {
            if !part.is_empty() {
                map.insert(key.to_owned(), Value::Array(part));
            }
        }
        if !sections.is_empty() {
            map.insert("sections".to_owned(), Value::Object(sections));
        }
        if !self.text.is_empty() {
            map.insert("text".to_owned(), Value::from(self.text.join("\n")));
        }
        Value::Object(map)
    }

    /// The section at a path of positions.
    fn at(&mut self, path: &[usize]) -> &mut Self {
        path.iter().fold(self, |section, place| &mut section.sections[*place].1)
    }
}

/// Adds a number to a name that is already used.
fn insert(map: &mut Map<String, Value>, name: String, value: Value) {
    if !map.contains_key(&name) {
        map.insert(name, value);
        return;
    }
    let mut number = 2;
    while map.contains_key(&format!("{name} ({number})")) {
        number += 1;
    }
    map.insert(format!("{name} ({number})"), value);
}

fn read(text: &str) -> Section {
    let mut root = Section::default();
    // The open sections: their levels and positions.
    let (mut levels, mut path): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut fence: Option<(char, usize)> = None;
    // The column names, inside a table.
    let mut columns: Option<Vec<String>> = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let bare = line.trim();
        let marks = |mark: char| bare.chars().take_while(|c| *c == mark).count();
        if let Some((mark, length)) = fence {
            if marks(mark) >= length && bare.chars().all(|c| c == mark) {
                fence = None;
            } else {
                root.at(&path).text.push(line.to_owned());
            }
            continue;
        }
        if let Some(mark) = ['`', '~'].into_iter().find(|mark| marks(*mark) >= 3) {
            fence = Some((mark, marks(mark)));
            continue;
        }
        if let Some((level, title)) = heading(bare) {
            while levels.last().is_some_and(|open| *open >= level) {
                levels.pop();
                path.pop();
            }
            let parent = root.at(&path);
            parent.sections.push((name(title), Section::default()));
            path.push(parent.sections.len() - 1);
            levels.push(level);
            continue;
        }
        let section = root.at(&path);
        if let Some(cells) = cells(bare) {
            if let Some(names) = &columns {
                section.rows.push(row(names, &cells));
                continue;
            }
            if lines.next_if(|line| is_separator(line.trim())).is_some() {
                columns = Some(cells.into_iter().map(name).collect());
                continue;
            }
        }
        columns = None;
        let (content, is_item) = match list_item(bare) {
            Some(content) => (content, true),
            None => (bare, false),
        };
        if is_item && let Some((is_done, what)) = checkbox(content) {
            insert(&mut section.items, name(what), Value::Bool(is_done));
        } else if let Some((label, value)) = label(content) {
            insert(&mut section.labels, name(label), Value::from(unmarked(value)));
        } else if !bare.is_empty() {
            let words = unmarked(content);
            if is_item && prose::has_facts(&words) {
                section.bullets.push(Value::from(words.clone()));
            }
            section.text.push(words);
        }
    }
    root
}

/// The cells of a table row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(str::trim).collect())
}

/// `|---|:--:|`, below the column names.
fn is_separator(line: &str) -> bool {
    let is_rule = |cell: &str| cell.contains('-') && cell.bytes().all(|byte| matches!(byte, b'-' | b':'));
    cells(line).is_some_and(|cells| cells.into_iter().all(is_rule))
}

/// A table row by column names.
fn row(columns: &[String], cells: &[&str]) -> Value {
    let mut row = Map::new();
    for (place, cell) in cells.iter().enumerate() {
        let column = columns.get(place).filter(|name| !name.is_empty());
        let column = column.cloned().unwrap_or_else(|| format!("column {}", place + 1));
        insert(&mut row, column, Value::from(unmarked(cell)));
    }
    Value::Object(row)
}

/// The level and the title of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(level..)?;
    let legal = (1..=6).contains(&level) && title.starts_with([' ', '\t']);
    legal.then(|| (level, title.trim().trim_end_matches('#').trim_end()))
}

/// The content of a list item.
fn list_item(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix(['-', '*', '+']) {
        return rest.starts_with([' ', '\t']).then(|| rest.trim_start());
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..)?.strip_prefix(['.', ')'])?;
    ((1..=9).contains(&digits) && rest.starts_with([' ', '\t'])).then(|| rest.trim_start())
}

/// The state and the content of a checklist item.
fn checkbox(content: &str) -> Option<(bool, &str)> {
    let rest = content.strip_prefix('[')?;
    let mark = rest.chars().next()?;
    let what = rest[mark.len_utf8()..].strip_prefix(']')?;
    let is_done = match mark {
        ' ' => false,
        'x' | 'X' | '✓' | '✔' => true,
        _ => return None,
    };
    (what.starts_with([' ', '\t']) && !what.trim().is_empty()).then(|| (is_done, what.trim()))
}

/// `**Outcome:** allowable` or `**Outcome**: allowable`.
fn label(content: &str) -> Option<(&str, &str)> {
    let rest = content.strip_prefix("**")?;
    let (label, after) = rest.split_once("**")?;
    let (label, value) = match label.trim_end().strip_suffix(':') {
        Some(label) => (label, after),
        None => (label, after.trim_start().strip_prefix(':')?),
    };
    (!label.trim().is_empty()).then(|| (label.trim(), value.trim()))
}

/// The text without emphasis and code markers.
fn unmarked(text: &str) -> String {
    text.replace("**", "").replace("__", "").replace('`', "")
}

/// The key of a title, a label or an item.
fn name(text: &str) -> String {
    let folded = folded(&unmarked(text));
    folded.trim_end_matches(['.', ':', ';', ' ']).to_owned()
}

/// Removes the words that no rule names.
fn prune(section: &mut Value, rules: &Matcher<'_>) {
    let Some(map) = section.as_object_mut() else { return };
    if !rules.key("text").here().is_ruled {
        map.shift_remove("text");
    }
    if let Some(Value::Object(sections)) = map.get_mut("sections") {
        let below = rules.key("sections");
        for (title, section) in sections.iter_mut() {
            prune(section, &below.key(title));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::FieldRules;

    const TEXT: &str = "Preface.\n\n# Review\n\n## Decision:\n**Outcome:** Allowable\n- **Amount**: `$5`\nIt is **fine**.\n\n## Steps ##\n\
        - [ ] File the *form*.\n* [X] Keep `it`\n1. [x] Third\n- [] no box\n- [?] nor this\n```md\n# no heading\n- [x] no item\n```\n\
        ### Below\n## Steps\n- [ ] Same\n- [x] same.\n#hashtag\n";

    #[test]
    fn sections_labels_and_checklists_are_fields() {
        let none = FieldRules::default();
        assert_eq!(
            tree(TEXT, &Matcher::new(&none)),
            json!({"sections": {"review": {"#": true, "sections": {
                "decision": {"#": true, "labels": {"outcome": "Allowable", "amount": "$5"}},
                "steps": {"#": true, "items": {"file the *form*": false, "keep it": true, "third": true},
                    "sections": {"below": {"#": true}}},
                "steps (2)": {"#": true, "items": {"same": false, "same (2)": true}},
            }}}})
        );
    }

    #[test]
    fn bullets_with_facts_and_tables_are_fields() {
        let none = FieldRules::default();
        let text = "## Costs\n- Flight with **Meadow Air**, $420.50\n- fine\n1. Due on 2026-03-02\n\n| Item | Cost |\n|:--|--:|\n\
            | Train | `$9` |\n| Bus |\nAfter\n| no | table |\n";
        assert_eq!(
            tree(text, &Matcher::new(&none)),
            json!({"sections": {"costs": {"#": true,
                "bullets": ["Flight with Meadow Air, $420.50", "Due on 2026-03-02"],
                "rows": [{"item": "Train", "cost": "$9"}, {"item": "Bus"}],
            }}})
        );
    }

    #[test]
    fn words_count_where_a_rule_names_them() {
        let rule = |path: &str| (path.parse().unwrap(), FieldRule::Contains);
        let rules = FieldRules { rules: vec![rule("text"), rule("sections.review.sections.decision.text")] };
        let tree = tree(TEXT, &Matcher::new(&rules));
        assert_eq!(tree["text"], "Preface.");
        assert_eq!(tree["sections"]["review"]["sections"]["decision"]["text"], "It is fine.");
        assert_eq!(tree["sections"]["review"]["sections"]["steps"].get("text"), None);
    }
}
