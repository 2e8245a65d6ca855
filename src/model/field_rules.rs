//! How the fields of an answer are compared with what is expected: what `evals/scoring.yaml` of a skill says.

use std::fmt;
use std::str::FromStr;

/// The rules of a skill; without any, every field counts, is read by its form, and lists are compared by order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldRules {
    /// Each rule with the fields that it is for.
    pub rules: Vec<(FieldPath, FieldRule)>,
}

/// What is done with a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldRule {
    /// It does not count, nor does anything in it.
    Ignore,
    /// It is read as this type.
    Type(FieldType),
    /// A number this near is right.
    Tolerance(Tolerance),
    /// A text that has the expected text in it is right; a list that has all expected items, whatever else.
    Contains,
    /// Any text that stands in the input of the case is right.
    InInput,
    /// A list without order.
    Set,
    /// A list whose items are told apart by these fields.
    Key(Vec<String>),
    /// A list compared place by place, as without a rule.
    Order,
}

/// How far from the expected number an answer may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// By this much.
    Absolute(f64),
    /// By this share of the expected number.
    Relative(f64),
}

/// What a field holds, where its form does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Text; case and white space do not matter, and nothing is read from it.
    Text,
    /// Text, to the letter.
    Exact,
    /// A number, also as text with separators.
    Number,
    /// An amount, with or without its currency.
    Money,
    /// A number of percent, with or without `%`.
    Percent,
    /// A day.
    Date,
    /// A day; `01/02/2026` is the second of January.
    DateMonthFirst,
    /// A day; `01/02/2026` is the first of February.
    DateDayFirst,
    /// `true` and `false`, also as `yes` and `no`.
    Boolean,
}

impl FieldType {
    /// All of them, as they are written.
    pub const WORDS: [(&'static str, Self); 9] = [
        ("text", Self::Text),
        ("exact", Self::Exact),
        ("number", Self::Number),
        ("money", Self::Money),
        ("percent", Self::Percent),
        ("date", Self::Date),
        ("date_mdy", Self::DateMonthFirst),
        ("date_dmy", Self::DateDayFirst),
        ("boolean", Self::Boolean),
    ];
}

/// Which fields: `award.title`, `people[].name`, `[].code`, `*.notes`, `**.rationale`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldPath {
    steps: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// A key of a mapping.
    Key(String),
    /// Any key of a mapping: `*`.
    AnyKey,
    /// Any item of a list: `[]`.
    Item,
    /// Any number of steps, also none: `**`.
    Deep,
}

/// The text is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path is written as `award.title`, `people[].name`, `[].code`, `*.notes` or `**.rationale`; `$` is the whole answer, `\\.` a dot in a key"
)]
pub struct InvalidFieldPath;

impl FieldPath {
    /// The steps from the whole answer down.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// The same path with its keys in lower case and without white space around them, as sections of markdown are named.
    #[must_use]
    pub fn folded(&self) -> Self {
        let fold = |step: &PathStep| match step {
            PathStep::Key(key) => PathStep::Key(super::folded(key)),
            other => other.clone(),
        };
        Self { steps: self.steps.iter().map(fold).collect() }
    }
}

impl FromStr for FieldPath {
    type Err = InvalidFieldPath;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MOST_STEPS: usize = 64;
        let mut steps = Vec::new();
        let text = match text.strip_prefix('$') {
            Some("") => return Ok(Self { steps }),
            Some(rest) if rest.starts_with(['.', '[']) => rest.strip_prefix('.').unwrap_or(rest),
            _ => text,
        };
        if text.is_empty() {
            return Err(InvalidFieldPath);
        }
        for (place, part) in parts(text).into_iter().enumerate() {
            let mut key = part.as_str();
            let mut items = 0;
            while let Some(rest) = key.strip_suffix("[]") {
                (key, items) = (rest, items + 1);
            }
            match key {
                // Only the whole answer, a list, has items without a key before them.
                "" if items == 0 || place > 0 => return Err(InvalidFieldPath),
                "" => {}
                "*" => steps.push(PathStep::AnyKey),
                "**" if items == 0 => steps.push(PathStep::Deep),
                "**" => return Err(InvalidFieldPath),
                _ if key.contains(['[', ']']) => return Err(InvalidFieldPath),
                _ => steps.push(PathStep::Key(key.replace('\0', "."))),
            }
            steps.extend(std::iter::repeat_n(PathStep::Item, items));
        }
        if steps.len() > MOST_STEPS || steps.last() == Some(&PathStep::Deep) {
            return Err(InvalidFieldPath);
        }
        Ok(Self { steps })
    }
}

/// The text between dots; a dot of a key is a NUL for now.
fn parts(text: &str) -> Vec<String> {
    let hidden = text.replace('\0', "").replace("\\.", "\0");
    hidden.split('.').map(str::to_owned).collect()
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("$");
        }
        for (place, step) in self.steps.iter().enumerate() {
            if place > 0 && *step != PathStep::Item {
                f.write_str(".")?;
            }
            match step {
                PathStep::Key(key) => f.write_str(&key.replace('.', "\\."))?,
                PathStep::AnyKey => f.write_str("*")?,
                PathStep::Item => f.write_str("[]")?,
                PathStep::Deep => f.write_str("**")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written() {
        for path in [
            "$",
            "a",
            "a.b",
            "a[].b",
            "[]",
            "[].code",
            "a[][]",
            "*.notes",
            "**.rationale",
            "a.**.b",
            "x\\.y.z",
        ] {
            assert_eq!(path.parse::<FieldPath>().unwrap().to_string(), path);
        }
        assert_eq!("$.a".parse::<FieldPath>().unwrap().to_string(), "a");
        assert_eq!("$[].a".parse::<FieldPath>().unwrap().to_string(), "[].a");
        for bad in ["", "a.", ".a", "a..b", "a.[]", "a[0]", "a]", "**", "a.**", "**[]", "a[]b"] {
            assert_eq!(bad.parse::<FieldPath>(), Err(InvalidFieldPath), "{bad}");
        }
        insta::assert_snapshot!(InvalidFieldPath, @r"a path is written as `award.title`, `people[].name`, `[].code`, `*.notes` or `**.rationale`; `$` is the whole answer, `\.` a dot in a key");
    }
}
