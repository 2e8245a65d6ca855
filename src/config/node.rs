//! A document as a tree whose nodes know their position, and the readers of its mappings.

use serde_json::Value;

use super::{Problems, Span};

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: NodeValue,
    /// Its position.
    pub span: Span,
}

/// The kinds of value.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the author's order.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its text.
    pub text: String,
    /// Its position.
    pub span: Span,
}

impl Node {
    /// A JSON value from one line of a JSONL file.
    pub fn from_json(json: Value, span: &Span) -> Self {
        let value = match json {
            Value::Null => NodeValue::Null,
            Value::Bool(flag) => NodeValue::Bool(flag),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| NodeValue::Float(number.as_f64().unwrap_or(f64::NAN)), NodeValue::Int),
            Value::String(text) => NodeValue::String(text),
            Value::Array(items) => {
                NodeValue::List(items.into_iter().map(|item| Self::from_json(item, span)).collect())
            }
            Value::Object(map) => NodeValue::Map(
                map.into_iter()
                    .map(|(key, value)| (Key { text: key, span: span.clone() }, Self::from_json(value, span)))
                    .collect(),
            ),
        };
        Self { value, span: span.clone() }
    }

    /// The same value as JSON.
    pub fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(flag) => Value::from(*flag),
            NodeValue::Int(number) => Value::from(*number),
            NodeValue::Float(number) => Value::from(*number),
            NodeValue::String(text) => Value::from(text.as_str()),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect(),
            NodeValue::Map(entries) => {
                entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect()
            }
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Int(_) | NodeValue::Float(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let NodeValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// The number, if it is one.
    #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^52")]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            NodeValue::Int(number) => Some(number as f64),
            NodeValue::Float(number) => Some(number),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn items(&self) -> Option<&[Self]> {
        if let NodeValue::List(items) = &self.value { Some(items) } else { None }
    }

    /// The entries, if it is a mapping.
    pub fn entries(&self) -> Option<&[(Key, Self)]> {
        if let NodeValue::Map(entries) = &self.value { Some(entries) } else { None }
    }

    /// A reader of its keys; records an error if it is not a mapping.
    pub fn fields<'a>(&'a self, what: &str, problems: &mut Problems) -> Option<Fields<'a>> {
        let Some(entries) = self.entries() else {
            problems.error(&self.span, format!("{what}: expected a mapping, found {}", self.kind()));
            return None;
        };
        Some(Fields { node: self, entries, read: vec![false; entries.len()] })
    }
}

/// Reads the keys of a mapping and remembers which ones were read.
#[derive(Debug)]
pub struct Fields<'a> {
    /// The mapping itself.
    pub node: &'a Node,
    entries: &'a [(Key, Node)],
    read: Vec<bool>,
}

impl<'a> Fields<'a> {
    /// The value of a key, which then counts as known; a key without a value counts as absent.
    pub fn get(&mut self, key: &str) -> Option<&'a Node> {
        let at = self.entries.iter().position(|(found, _)| found.text == key)?;
        self.read[at] = true;
        Some(&self.entries[at].1).filter(|node| !node.is_null())
    }

    /// Text.
    pub fn string(&mut self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        self.typed(key, "a string", Node::as_str, problems)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str, problems: &mut Problems) -> Option<bool> {
        let read = |node: &Node| {
            if let NodeValue::Bool(flag) = node.value { Some(flag) } else { None }
        };
        self.typed(key, "`true` or `false`", read, problems)
    }

    /// A number.
    pub fn number(&mut self, key: &str, problems: &mut Problems) -> Option<f64> {
        self.typed(key, "a number", Node::as_f64, problems)
    }

    /// A whole number that is not negative.
    pub fn count(&mut self, key: &str, problems: &mut Problems) -> Option<u64> {
        let read = |node: &Node| {
            if let NodeValue::Int(n) = node.value { u64::try_from(n).ok() } else { None }
        };
        self.typed(key, "a whole number, 0 or more", read, problems)
    }

    /// A whole number.
    pub fn integer(&mut self, key: &str, problems: &mut Problems) -> Option<i64> {
        let read = |node: &Node| {
            if let NodeValue::Int(number) = node.value { Some(number) } else { None }
        };
        self.typed(key, "a whole number", read, problems)
    }

    /// A list.
    pub fn list(&mut self, key: &str, problems: &mut Problems) -> Option<&'a [Node]> {
        self.typed(key, "a list", Node::items, problems)
    }

    /// A value of one kind; records an error if it has another.
    fn typed<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Node) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        let node = self.get(key)?;
        let value = read(node);
        if value.is_none() {
            problems.error(&node.span, format!("`{key}`: expected {expected}, found {}", describe(node)));
        }
        value
    }

    /// The keys that no reader requested.
    pub fn unknown(&self) -> impl Iterator<Item = &'a Key> {
        self.entries.iter().zip(&self.read).filter(|(_, read)| !**read).map(|((key, _), _)| key)
    }
}

/// The kind of a value, and the value itself where that helps.
fn describe(node: &Node) -> String {
    match &node.value {
        NodeValue::Int(number) => format!("the number {number}"),
        NodeValue::Float(number) => format!("the number {number}"),
        NodeValue::Bool(flag) => format!("`{flag}`"),
        _ => node.kind().to_owned(),
    }
}

/// A longer word is not a misspelled one.
const LONGEST_MISSPELLED: usize = 100;
/// The most legal words that a misspelled one is compared with.
const MOST_LEGAL: usize = 1_000;

/// The legal word that was probably meant.
pub fn did_you_mean<'a>(word: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Edit distance takes time and memory proportional to both lengths.
    if word.len() > LONGEST_MISSPELLED {
        return None;
    }
    let distance = |candidate: &str| strsim::damerau_levenshtein(word, candidate);
    legal
        .into_iter()
        .take(MOST_LEGAL)
        .filter(|candidate| candidate.len() <= LONGEST_MISSPELLED)
        .min_by_key(|candidate| distance(candidate))
        .filter(|best| distance(best) <= word.len() / 3 + 1)
}

/// How many legal words a hint lists.
const MOST_LISTED: usize = 24;

/// The hint for an unknown word: the legal word that was probably meant, or else the legal words. `place` says where they apply.
pub fn unknown_hint(word: &str, legal: &[&str], place: &str) -> String {
    match did_you_mean(word, legal.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("legal {place}: {}", listed(legal.iter().copied())),
    }
}

/// Words in backticks, a bounded number of them.
pub fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words = words.into_iter();
    let shown: Vec<String> = words.by_ref().take(MOST_LISTED).map(|word| format!("`{word}`")).collect();
    match words.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_near_word_or_some_legal_ones() {
        assert_eq!(unknown_hint("modle", &["model", "name"], "in a target"), "did you mean `model`?");
        assert_eq!(
            unknown_hint("zzzzz", &["model", "name"], "in a target"),
            "legal in a target: `model`, `name`"
        );
        let many = vec!["abcdefgh"; 30];
        assert!(unknown_hint("zzzzz", &many, "here").ends_with("`abcdefgh` and 6 more"));
    }

    #[test]
    fn suggestions_are_near() {
        assert_eq!(did_you_mean("opnai", ["openai", "azure"]), Some("openai"));
        assert_eq!(did_you_mean("wholly-other", ["openai", "azure"]), None);
        assert_eq!(did_you_mean(&"openai".repeat(100_000), ["openai"]), None);
    }
}
