//! Hints for invalid YAML: common mistakes that the parser's message does not explain.

/// The fix for an error on this line, counted from 1, if that line or the next shows a common mistake.
pub(super) fn hint(text: &str, line: u32) -> Option<String> {
    let first = (line as usize).saturating_sub(1);
    let near = || text.lines().enumerate().skip(first).take(2);
    if let Some((at, _)) = near().find(|(_, line)| indentation(line).contains('\t')) {
        return Some(format!("line {} is indented with a tab: YAML allows only spaces", at + 1));
    }
    near().take(1).find_map(|(_, line)| unquoted(line))
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// The hint for a line whose value needs quotes. It never repeats the value, which may be a secret.
fn unquoted(line: &str) -> Option<String> {
    let entry = line.trim_start().trim_start_matches("- ");
    let (key, value) = entry.split_once(": ").unwrap_or(("", entry));
    let is_name = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_name(key) {
        return None;
    }
    let value = value.trim();
    let why = match value.chars().next()? {
        '@' | '`' | '%' => "a value that starts with a special character",
        '*' | '&' | '!' => "a value that starts with `*`, `&` or `!`",
        '{' if value.starts_with("{{") => "a value that starts with `{{`",
        '"' | '\'' | '[' | '{' | '|' | '>' | '#' => return None,
        _ if !key.is_empty() && (value.contains(": ") || value.ends_with(':')) => {
            "a value that contains `: `"
        }
        _ => return None,
    };
    let key = if key.is_empty() { "key" } else { key };
    Some(format!("{why} needs quotes: `{key}: '…'`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_need_quotes() {
        for (line, fixed) in [
            ("    input: Note: be polite", "`input: '…'`"),
            ("  - input: @user hi", "`input: '…'`"),
            ("value: *bold*", "`value: '…'`"),
            ("value: {{ name }}", "`value: '…'`"),
            ("  - @user", "`key: '…'`"),
        ] {
            let hint = hint(line, 1).unwrap();
            assert!(hint.ends_with(fixed), "{hint}");
        }
        for line in ["a: \"x: y\"", "a: [1", "a: b", "", "a:", "{ name: t, api_key: sk: [ }"] {
            assert_eq!(hint(line, 1), None, "{line}");
        }
    }

    #[test]
    fn a_tab_is_found_on_the_next_line_too() {
        let tab = "line 2 is indented with a tab: YAML allows only spaces";
        assert_eq!(hint("a:\n\tb: 1", 2).as_deref(), Some(tab));
        assert_eq!(hint("- id: a\n\t b: 1", 1).as_deref(), Some(tab));
    }
}
