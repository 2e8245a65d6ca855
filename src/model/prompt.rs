//! `{{ name }}` placeholders in the prompt of an LLM grader.

/// Names of the known placeholders.
pub const PROMPT_PLACES: [&str; 10] = [
    "input",
    "output",
    "expected_output",
    "criteria",
    "metadata",
    "metadata_json",
    "rubrics",
    "rubrics_json",
    "file_changes",
    "tool_calls",
];

/// Names of the placeholders in a text, in order.
pub fn prompt_places(text: &str) -> impl Iterator<Item = &str> {
    placeholders(text, is_word).map(|place| place.name)
}

/// Replaces the placeholders of a text. Those without a value stay, and inserted values are not expanded
/// again.
pub fn fill_prompt(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut copied = 0;
    for place in placeholders(text, is_word) {
        if let Some(value) = value(place.name) {
            out.push_str(&text[copied..place.start]);
            out.push_str(&value);
            copied = place.end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A `{{ name }}` in a text.
#[derive(Debug)]
pub struct Placeholder<'t> {
    /// The name.
    pub name: &'t str,
    /// Where the braces start.
    pub start: usize,
    /// Where they end.
    pub end: usize,
}

/// The placeholders of a text, in order; `is_name` says which characters a name has.
pub fn placeholders(text: &str, is_name: impl Fn(char) -> bool) -> impl Iterator<Item = Placeholder<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("{{")?;
            from = start + 1;
            let inner = text[start + 2..].trim_start();
            let length = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
            let (name, rest) = inner.split_at(length);
            if let Some(after) = rest.trim_start().strip_prefix("}}").filter(|_| !name.is_empty()) {
                from = text.len() - after.len();
                return Some(Placeholder { name, start, end: from });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once() {
        let value = |name: &str| match name {
            "output" => Some("{{ input }}".to_owned()),
            "input" => Some("x".to_owned()),
            _ => None,
        };
        assert_eq!(
            fill_prompt("{{output}}|{{ input }}|{{ gone }}|{{{input}}}|{{ a.b }}", value),
            "{{ input }}|x|{{ gone }}|{x}|{{ a.b }}"
        );
        assert_eq!(prompt_places("{{ a }} {{b}} {{ }} {{ c").collect::<Vec<_>>(), ["a", "b"]);
    }
}
