//! Problems in files: collected, then told all at once, each with its line drawn.

use std::fmt;

use super::Span;
use crate::model::{Exit, Failure, Finding, Level, printable};

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub struct Problems {
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

#[derive(Debug)]
struct Problem {
    span: Span,
    message: String,
    hint: Option<String>,
}

impl Problems {
    /// Notes an error; the reader goes on to find the next one.
    pub fn error(&mut self, span: &Span, message: impl Into<String>) {
        self.errors.push(Problem { span: span.clone(), message: message.into(), hint: None });
    }

    /// Notes an error and the way out.
    pub fn error_with_hint(&mut self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.errors.push(Problem { span: span.clone(), message: message.into(), hint: Some(hint.into()) });
    }

    /// Notes something that works but is probably not meant.
    pub fn warning(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.warnings.push(Problem { span: span.clone(), message: message.into(), hint });
    }

    /// Notes what was found in another file.
    pub fn absorb(&mut self, invalid: Invalid) {
        self.errors.extend(invalid.problems);
    }

    /// How many errors were noted.
    pub fn error_count(&self) -> usize {
        self.errors.len()
    }

    /// Whether an error was noted.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The warnings, drawn; or all errors as one.
    pub fn finish(self) -> Result<Vec<String>, Invalid> {
        if self.errors.is_empty() {
            Ok(self.warnings.iter().map(ToString::to_string).collect())
        } else {
            Err(Invalid { problems: self.errors })
        }
    }

    /// Everything that was noted, each with its line drawn: the errors, then the warnings.
    pub fn findings(&self) -> Vec<Finding> {
        let of = |level| move |problem: &Problem| problem.finding(level);
        let errors = self.errors.iter().map(of(Level::Error));
        errors.chain(self.warnings.iter().map(of(Level::Warning))).collect()
    }

    /// All errors as one, and the value where there are none; the warnings go on in `self`.
    pub fn check<T>(&mut self, value: T) -> Result<T, Invalid> {
        if self.errors.is_empty() {
            Ok(value)
        } else {
            Err(Invalid { problems: std::mem::take(&mut self.errors) })
        }
    }
}

/// One or more problems in files that the user wrote (exit 3).
#[derive(Debug)]
pub struct Invalid {
    problems: Vec<Problem>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            // The reporter writes the first `error: ` itself.
            if i > 0 {
                f.write_str("\n\nerror: ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::Config, invalid.to_string())
    }
}

impl Invalid {
    /// Each problem by itself, with its line drawn.
    pub fn findings(&self) -> Vec<Finding> {
        self.problems.iter().map(|problem| problem.finding(Level::Error)).collect()
    }
}

impl Problem {
    fn finding(&self, level: Level) -> Finding {
        let finding = Finding::new(level, Drawn(self).to_string());
        match &self.hint {
            Some(hint) => finding.hint(printable(hint)),
            None => finding,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Drawn(self).fmt(f)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {}", printable(hint))?;
        }
        Ok(())
    }
}

/// A problem and its line, without the hint.
struct Drawn<'p>(&'p Problem);

impl fmt::Display for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { span, message, hint: _ } = self.0;
        // Keys and values of the file stand in it, and the file may be a stranger's.
        writeln!(f, "{}", printable(message))?;
        let number = span.line.to_string();
        let pad = " ".repeat(number.len());
        write!(f, "{pad} --> {}:{}:{}", span.source.path.display(), span.line, span.column)?;
        if let Some(line) = span.source.line(span.line) {
            let column = span.column as usize;
            let (line, column) = excerpt(&hide_secret(line), column);
            let width =
                (span.width as usize).clamp(1, line.chars().count().saturating_sub(column - 1).max(1));
            write!(f, "\n{pad}  |\n {number} | {line}\n{pad}  | ")?;
            write!(f, "{}{}", " ".repeat(column - 1), "^".repeat(width))?;
        }
        Ok(())
    }
}

/// The part of a line that fits a terminal, without control characters, and where the column is in it.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    const BEFORE: usize = 60;
    const LONGEST: usize = 120;
    let start = column.saturating_sub(1).saturating_sub(BEFORE);
    let (start, dots) = if line.chars().count() > LONGEST && start > 0 { (start, "…") } else { (0, "") };
    let mut text = String::from(dots);
    text.extend(line.chars().skip(start).take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }));
    if line.chars().count() > start + LONGEST {
        text.push('…');
    }
    (text, (column - start + dots.chars().count()).max(1))
}

/// Whether the value of a key with this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    const NAMES: [&str; 5] = ["key", "token", "secret", "password", "authorization"];
    let lower = name.trim_end().trim_end_matches(['"', '\'']).to_lowercase();
    NAMES.iter().any(|secret| lower.ends_with(secret))
}

/// A line such as `api_key: sk-…` with its value hidden: a drawn line ends up in logs.
fn hide_secret(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(colon) = rest.find(':') {
        let (name, value) = (&rest[..colon], &rest[colon + 1..]);
        shown.push_str(&rest[..=colon]);
        rest = value;
        // A mapping below a bare `key` is looked into: it says how items are told apart.
        let is_mapping = name.trim() == "key" && value.trim_start().starts_with('{');
        if !is_secret_name(name) || is_mapping {
            continue;
        }
        // In `{ api_key: x, model: y }` the value ends before the rest; that rest keeps its columns.
        let text = value.trim_start();
        let indent = value.len() - text.len();
        let length = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => text[1..].find(quote).map_or(text.len(), |end| end + 2),
            _ if line.contains('{') => text.find([',', '}']).unwrap_or(text.len()),
            _ => text.len(),
        };
        let literal = &text[..length];
        if literal.trim().is_empty() || literal.contains("${{") {
            continue;
        }
        let stars = if text.len() == length { 3 } else { literal.chars().count() };
        shown.push_str(&value[..indent]);
        shown.push_str(&"*".repeat(stars));
        rest = &text[length..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Document;

    #[test]
    fn problems_are_drawn_together() {
        let document = Document::parse("a.yaml", "name: x\ntargets:\n  - api_key: sk-123456\n").unwrap();
        let mut problems = Problems::default();
        let mut root = document.root.fields("file", &mut problems).unwrap();
        problems.error(&root.get("name").unwrap().span, "no");
        let entry = &root.list("targets", &mut problems).unwrap()[0];
        let key = entry.fields("target", &mut problems).unwrap().get("api_key").unwrap();
        problems.error_with_hint(&key.span, "never", "stop");
        insta::assert_snapshot!(problems.finish().unwrap_err(), @r"
        no
          --> a.yaml:1:7
           |
         1 | name: x
           |       ^

        error: never
          --> a.yaml:3:14
           |
         3 |   - api_key: ***
           |              ^^^

        hint: stop
        ");
    }

    #[test]
    fn literal_secrets_are_hidden_in_a_line() {
        for (line, shown) in [
            ("  - api_key: sk-123 # mine", "  - api_key: ***"),
            ("{ \"api_key\": \"a,b\", model: m }", "{ \"api_key\": *****, model: m }"),
            ("{ model: m, token: abcd }", "{ model: m, token: *****}"),
            ("{ api_key: ${{ KEY }}, secret: x }", "{ api_key: ${{ KEY }}, secret: **}"),
            ("tokens_per_minute: 7", "tokens_per_minute: 7"),
            ("key: { people: [name], api_key: x }", "key: { people: [name], api_key: **}"),
            ("base_url: https://host/v1", "base_url: https://host/v1"),
        ] {
            assert_eq!(hide_secret(line), shown);
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let (text, column) = excerpt(&"x".repeat(500), 200);
        assert!(text.chars().count() < 130);
        assert_eq!(column, 62);
    }
}
