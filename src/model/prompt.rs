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
    places(text).map(|(name, _, _)| name)
}

/// Replaces the placeholders of a text. Those without a value stay, and inserted values are not expanded
/// again.
pub fn fill_prompt(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut copied = 0;
    for (name, start, end) in places(text) {
        if let Some(value) = value(name) {
            out.push_str(&text[copied..start]);
            out.push_str(&value);
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Each placeholder: its name, start and end.
fn places(text: &str) -> impl Iterator<Item = (&str, usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("{{")?;
            from = start + 1;
            let inner = text[start + 2..].trim_start();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
            let (name, rest) = inner.split_at(length);
            if let Some(after) = rest.trim_start().strip_prefix("}}").filter(|_| !name.is_empty()) {
                from = text.len() - after.len();
                return Some((name, start, from));
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
