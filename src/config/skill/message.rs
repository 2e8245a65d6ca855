//! The user message of a case.

use serde_json::Value;

/// The message: the input, then the runtime inputs.
pub(super) fn compose(input: &str, runtime_inputs: Option<&Value>) -> String {
    let Some(inputs) = runtime_inputs else { return input.to_owned() };
    let json = serde_json::to_string_pretty(inputs).unwrap_or_default();
    format!("{}\n\nRuntime inputs:\n\n```json\n{json}\n```\n", input.trim_end())
}

/// The input in `input.md`: if the file is headings around one fenced block of JSON, that block; otherwise the whole file.
pub(super) fn of_markdown(text: &str) -> &str {
    single_block(text).unwrap_or(text)
}

/// The content of the only fenced block, if there are only headings around it.
fn single_block(text: &str) -> Option<&str> {
    let mut found: Option<(usize, usize)> = None;
    let mut fence: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim();
        if let Some((marks, begin)) = fence {
            let closes = bare.len() >= marks.len() && bare.bytes().all(|byte| byte == marks.as_bytes()[0]);
            if closes {
                found = Some((begin, start));
                fence = None;
            }
            continue;
        }
        let length = bare.bytes().take_while(|byte| *byte == b'`').count();
        if length >= 3 {
            let info = bare[length..].trim();
            if found.is_some() || !info.eq_ignore_ascii_case("json") {
                return None;
            }
            fence = Some((&bare[..length], at));
        } else if !bare.is_empty() && !bare.starts_with('#') {
            return None;
        }
    }
    if fence.is_some() {
        return None;
    }
    found.map(|(begin, end)| text[begin..end].trim_end_matches(['\n', '\r']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_json_block_under_headings_is_the_input() {
        for (text, input) in [
            ("# Budget\n\n```json\n{\n  \"a\": 1\n}\n```\n", "{\n  \"a\": 1\n}"),
            ("````JSON\n[\"```\"]\n````", "[\"```\"]"),
            ("```json\r\n{}\r\n```\r\n", "{}"),
        ] {
            assert_eq!(of_markdown(text), input);
        }
        for whole in [
            "A letter.\n",
            "Read this:\n```json\n{}\n```\n",
            "## One\n```markdown\n# x\n```\n## Two\n```json\n{}\n```\n",
            "```json\n{}\n```\n```json\n{}\n```\n",
            "```json\n{}\n",
            "```\n{}\n```\n",
            "",
        ] {
            assert_eq!(of_markdown(whole), whole);
        }
    }

    #[test]
    fn runtime_inputs_follow_the_input() {
        assert_eq!(compose("text\n", None), "text\n");
        let inputs = json!({"source": "a.pdf", "at": null});
        insta::assert_snapshot!(compose("text\n\n", Some(&inputs)), @r#"
        text

        Runtime inputs:

        ```json
        {
          "source": "a.pdf",
          "at": null
        }
        ```
        "#);
    }
}
