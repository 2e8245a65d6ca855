//! Problems in files: all are collected, then reported together, each with its source line.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

use super::Span;
use crate::model::{Exit, Failure, Finding, Level, printable};
use crate::util::secrets::is_secret_name;

/// The most problems of one kind that are kept: each is drawn with its line.
const MOST_KEPT: usize = 100;

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub struct Problems {
    errors: ProblemList,
    warnings: ProblemList,
    /// The messages of the warnings that are noted once for each file.
    once: HashSet<(PathBuf, String)>,
}

/// The first problems, and the count of the rest.
#[derive(Debug, Default)]
struct ProblemList {
    first: Vec<Problem>,
    more: usize,
}

impl ProblemList {
    fn push(&mut self, problem: impl FnOnce() -> Problem) {
        if self.first.len() < MOST_KEPT {
            self.first.push(problem());
        } else {
            self.more += 1;
        }
    }

    /// The line that counts the rest.
    fn rest(&self) -> Option<String> {
        match self.more {
            0 => None,
            1 => Some("1 more problem is not shown".to_owned()),
            more => Some(format!("{more} more problems are not shown")),
        }
    }
}

#[derive(Debug)]
struct Problem {
    span: Span,
    message: String,
    hint: Option<String>,
}

impl Problems {
    /// Records an error; reading continues.
    pub fn error(&mut self, span: &Span, message: impl Into<String>) {
        self.errors.push(|| Problem { span: span.clone(), message: message.into(), hint: None });
    }

    /// Records an error with a hint.
    pub fn error_with_hint(&mut self, span: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.errors.push(|| Problem { span: span.clone(), message: message.into(), hint: Some(hint.into()) });
    }

    /// Records a warning: valid, but probably a mistake.
    pub fn warning(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.warnings.push(|| Problem { span: span.clone(), message: message.into(), hint });
    }

    /// Records a warning once per file: a mistake on 100,000 lines is one warning.
    pub fn warn_once(&mut self, span: &Span, message: String, hint: Option<String>) {
        if self.once.insert((span.source.path.clone(), message.clone())) {
            self.warning(span, message, hint);
        }
    }

    /// Adds the problems found in another file.
    pub fn absorb(&mut self, invalid: Invalid) {
        self.errors.more += invalid.problems.more;
        for problem in invalid.problems.first {
            self.errors.push(|| problem);
        }
    }

    /// The number of errors.
    pub fn error_count(&self) -> usize {
        self.errors.first.len() + self.errors.more
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        !self.errors.first.is_empty()
    }

    /// The rendered warnings, or all errors as one.
    pub fn finish(self) -> Result<Vec<String>, Invalid> {
        if self.errors.first.is_empty() {
            let rest = self.warnings.rest();
            Ok(self.warnings.first.iter().map(ToString::to_string).chain(rest).collect())
        } else {
            Err(Invalid { problems: self.errors })
        }
    }

    /// All problems, each with its source line: errors first, then warnings.
    pub fn findings(&self) -> Vec<Finding> {
        let of = |level| move |problem: &Problem| problem.finding(level);
        let rest = |kept: &ProblemList, level| kept.rest().map(|rest| Finding::new(level, rest));
        let errors = self.errors.first.iter().map(of(Level::Error)).chain(rest(&self.errors, Level::Error));
        let warnings = self.warnings.first.iter().map(of(Level::Warning));
        errors.chain(warnings).chain(rest(&self.warnings, Level::Warning)).collect()
    }

    /// All errors as one, or `value` if there are none; warnings stay in `self`.
    pub fn check<T>(&mut self, value: T) -> Result<T, Invalid> {
        if self.errors.first.is_empty() {
            Ok(value)
        } else {
            Err(Invalid { problems: std::mem::take(&mut self.errors) })
        }
    }
}

/// One or more problems in files that the user wrote (exit 3).
#[derive(Debug)]
pub struct Invalid {
    problems: ProblemList,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.first.iter().enumerate() {
            // The reporter writes the first `error: ` itself.
            if i > 0 {
                f.write_str("\n\nerror: ")?;
            }
            problem.fmt(f)?;
        }
        match self.problems.rest() {
            Some(rest) => write!(f, "\n\nerror: {rest}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Invalid {}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::Config, invalid.to_string())
    }
}

impl Invalid {
    /// Each problem on its own, with its source line.
    pub fn findings(&self) -> Vec<Finding> {
        let rest = self.problems.rest().map(|rest| Finding::new(Level::Error, rest));
        self.problems.first.iter().map(|problem| problem.finding(Level::Error)).chain(rest).collect()
    }
}

impl Problem {
    fn finding(&self, level: Level) -> Finding {
        let finding = Finding::new(level, DrawnProblem(self).to_string());
        match &self.hint {
            Some(hint) => finding.hint(printable(hint)),
            None => finding,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DrawnProblem(self).fmt(f)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {}", printable(hint))?;
        }
        Ok(())
    }
}

/// A problem and its source line, without the hint.
struct DrawnProblem<'p>(&'p Problem);

impl fmt::Display for DrawnProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { span, message, hint: _ } = self.0;
        // The message contains keys and values of a possibly untrusted file.
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

/// The part of a line that fits a terminal, without control characters, and the column within it.
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

/// A line such as `api_key: sk-…` with its value hidden: a drawn line ends up in logs.
fn hide_secret(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    let has_brace = line.contains('{');
    while let Some(colon) = rest.find(':') {
        let (name, value) = (&rest[..colon], &rest[colon + 1..]);
        shown.push_str(&rest[..=colon]);
        rest = value;
        // A mapping under a bare `key` lists item keys, and `auth` holds ids: neither is a secret,
        // so their entries are checked one by one.
        let is_mapping = (name.trim() == "key" || name.trim_end().ends_with("auth"))
            && value.trim_start().starts_with('{');
        // In `{ model: m, api_key: x }` only the last word before the colon is the name.
        let key = name.trim_end().trim_end_matches(['"', '\'']);
        let key = key.rsplit([' ', ',', '{', '"', '\'']).next().unwrap_or(key);
        if !is_secret_name(key) || is_mapping {
            continue;
        }
        // In `{ api_key: x, model: y }` the value ends before the rest; that rest keeps its columns.
        let text = value.trim_start();
        let indent = value.len() - text.len();
        let length = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => text[1..].find(quote).map_or(text.len(), |end| end + 2),
            _ if has_brace => text.find([',', '}']).unwrap_or(text.len()),
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
    fn drawing_time_is_linear_in_the_number_of_problems() {
        let drawn = |count: u32| {
            let text = "key: value\n".repeat(count as usize);
            let source = std::sync::Arc::new(crate::config::Source::new("a.yaml", text));
            let mut problems = Problems::default();
            for line in 1..=count {
                let source = std::sync::Arc::clone(&source);
                problems.error(&Span { source, line, column: 1, width: 3 }, "no");
            }
            problems.finish().unwrap_err().to_string()
        };
        let growth = crate::config::growth::growth(|| drawn(4_000), || drawn(8_000));
        assert!(growth < 3.0, "twice as many problems take {growth:.1} times as long");
    }

    #[test]
    fn many_problems_are_counted() {
        let source = std::sync::Arc::new(crate::config::Source::new("a.yaml", "key: value\n"));
        let mut problems = Problems::default();
        for _ in 0..150 {
            problems.error(&Span::of_line(&source, 1), "no");
        }
        assert_eq!(problems.error_count(), 150);
        let told = problems.finish().unwrap_err().to_string();
        assert_eq!(told.matches("error: no").count(), 99, "the reporter writes the first `error: ` itself");
        assert!(told.ends_with("\n\nerror: 50 more problems are not shown"), "{told}");
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
