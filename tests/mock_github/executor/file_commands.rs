//! `GITHUB_OUTPUT` and `GITHUB_STEP_SUMMARY`, read after a step as GitHub's runner reads them.

use std::collections::BTreeMap;

use super::console::Console;
use super::environment::StepEnvironment;

/// A larger summary is dropped entirely.
const LONGEST_SUMMARY: usize = 1 << 20;

/// What a step wrote to its files.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FileCommands {
    /// Names and values.
    pub(super) outputs: BTreeMap<String, String>,
    /// Markdown.
    pub(super) summary: String,
    /// The error that fails the step.
    pub(super) problems: Vec<String>,
}

/// Reads the files of a step.
pub(super) fn read(environment: &StepEnvironment, console: &Console) -> FileCommands {
    let content = |name: &str| {
        let path = environment.variables.get(name);
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let mut result = FileCommands::default();
    match outputs(&content("GITHUB_OUTPUT")) {
        // GitHub drops outputs that contain a secret.
        Ok(outputs) => {
            result.outputs = outputs.into_iter().filter(|(_, value)| !console.has_secret(value)).collect();
        }
        Err(problem) => result.problems.push(problem),
    }
    let summary = content("GITHUB_STEP_SUMMARY");
    if summary.len() <= LONGEST_SUMMARY {
        result.summary = console.masked(&summary);
    }
    result
}

/// `name=value` lines and `name<<DELIMITER` blocks.
fn outputs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut outputs = BTreeMap::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let bare = line.trim_end_matches(['\r', '\n']);
        if bare.is_empty() {
            continue;
        }
        let (equals, heredoc) = (bare.find('='), bare.find("<<"));
        match (equals, heredoc) {
            (equals, Some(at)) if equals.is_none_or(|equals| at < equals) => {
                let (name, delimiter) = (&bare[..at], &bare[at + 2..]);
                let mut value = Vec::new();
                loop {
                    let Some(line) = lines.next() else {
                        return Err(format!("Invalid value. Matching delimiter not found '{delimiter}'"));
                    };
                    let bare = line.trim_end_matches(['\r', '\n']);
                    if bare == delimiter {
                        break;
                    }
                    if bare.len() == line.len() {
                        return Err("Invalid value. EOF marker missing new line.".to_owned());
                    }
                    value.push(bare);
                }
                outputs.insert(name.to_owned(), value.join("\n"));
            }
            (Some(at), _) if at > 0 => {
                outputs.insert(bare[..at].to_owned(), bare[at + 1..].to_owned());
            }
            _ => return Err(format!("Invalid format '{bare}'")),
        }
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_lines_or_blocks() {
        let read = outputs("a=1\n\nb<<EOF\nx=1\n\ny\nEOF\nc==<<\n").unwrap();
        let expected = [("a", "1"), ("b", "x=1\n\ny"), ("c", "=<<")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn malformed_outputs_are_rejected() {
        let problems = ["no sign\n", "a<<EOF\nx\n", "a<<EOF\nEOFx"].map(|text| outputs(text).unwrap_err());
        insta::assert_snapshot!(problems.join("\n"), @r"
        Invalid format 'no sign'
        Invalid value. Matching delimiter not found 'EOF'
        Invalid value. EOF marker missing new line.
        ");
    }
}
