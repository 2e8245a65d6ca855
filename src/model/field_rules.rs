//! How the fields of a response are compared with the expected ones: a skill's `evals/scoring.yaml`.

use std::fmt;
use std::str::FromStr;

use super::Digest;

/// The rules of a skill. Without rules, every field counts, types are inferred, long texts are compared as
/// prose, and list items are matched by what agrees best.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldRules {
    /// Each rule with the fields it applies to.
    pub rules: Vec<(FieldPath, FieldRule)>,
}

impl FieldRules {
    /// The digest of what the rules say; comments and layout of the file play no part.
    pub fn digest(&self) -> Digest {
        let lines: Vec<String> = self.rules.iter().map(|(path, rule)| format!("{path}\t{rule}\n")).collect();
        Digest::of(lines.concat().as_bytes())
    }

    /// The model that grades prose, if a rule names one.
    pub fn grader(&self) -> Option<&GraderModel> {
        self.rules.iter().find_map(|(_, rule)| match rule {
            FieldRule::Grader(model) => Some(model),
            _ => None,
        })
    }
}

/// The model that decides whether prose is correct, and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct GraderModel {
    /// Model name, as the server lists it.
    pub model: String,
    /// Sampling temperature; `None` uses the server's default.
    pub temperature: Option<f64>,
    /// Limit on output tokens.
    pub max_tokens: Option<u64>,
    /// Seed sent to the server.
    pub seed: Option<i64>,
}

impl fmt::Display for GraderModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, temperature, max_tokens, seed } = self;
        write!(f, "{model:?} temperature={temperature:?} max_tokens={max_tokens:?} seed={seed:?}")
    }
}

/// How a field is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldRule {
    /// The field and everything in it is ignored.
    Ignore,
    /// The field is parsed as this type.
    Type(FieldType),
    /// A number within the tolerance is correct.
    Tolerance(Tolerance),
    /// The field is prose, and must share this fraction of its words with the expected text.
    Overlap(f64),
    /// The field is prose, and this model decides whether it is correct.
    Grader(GraderModel),
    /// A text is correct if it contains the expected text; a list, if it contains all expected items.
    Contains,
    /// Any text that occurs in the input of the case is correct.
    InInput,
    /// A list is compared as a set.
    Set,
    /// List items are matched by these fields.
    Key(Vec<String>),
    /// List items are matched by position.
    Order,
}

/// As the digest of the rules has it.
impl fmt::Display for FieldRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignore => f.write_str("ignore"),
            Self::Type(kind) => write!(f, "type {}", kind.as_str()),
            Self::Tolerance(Tolerance::Absolute(most)) => write!(f, "tolerance {most}"),
            Self::Tolerance(Tolerance::Relative(share)) => write!(f, "tolerance of {share}"),
            Self::Overlap(least) => write!(f, "overlap {least}"),
            Self::Grader(model) => write!(f, "grader {model}"),
            Self::Contains => f.write_str("contains"),
            Self::InInput => f.write_str("in_input"),
            Self::Set => f.write_str("set"),
            Self::Key(fields) => write!(f, "key {fields:?}"),
            Self::Order => f.write_str("order"),
        }
    }
}

/// How far a number may be from the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// By this amount.
    Absolute(f64),
    /// By this fraction of the expected number.
    Relative(f64),
}

/// The type of a field that cannot be inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Text. Case and white space are ignored, and it is never parsed as a number or a date.
    Text,
    /// Text, compared exactly.
    Exact,
    /// A number, or a number as text with separators.
    Number,
    /// An amount, with or without a currency.
    Money,
    /// A percentage, with or without `%`.
    Percent,
    /// A date.
    Date,
    /// A date; `01/02/2026` is January 2.
    DateMonthFirst,
    /// A date; `01/02/2026` is February 1.
    DateDayFirst,
    /// `true` or `false`, or `yes` and `no`.
    Boolean,
    /// Prose: the words may differ, the facts may not.
    Prose,
    /// Prose if it is long enough, otherwise a value.
    Phrase,
}

impl FieldType {
    /// All types with their names in files.
    pub const WORDS: [(&'static str, Self); 11] = [
        ("text", Self::Text),
        ("exact", Self::Exact),
        ("number", Self::Number),
        ("money", Self::Money),
        ("percent", Self::Percent),
        ("date", Self::Date),
        ("date_mdy", Self::DateMonthFirst),
        ("date_dmy", Self::DateDayFirst),
        ("boolean", Self::Boolean),
        ("prose", Self::Prose),
        ("phrase", Self::Phrase),
    ];

    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// A pattern for fields: `award.title`, `people[].name`, `[].code`, `*.notes`, `**.rationale`.
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
    /// Zero or more steps: `**`.
    Deep,
}

/// The text is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path is written as `award.title`, `people[].name`, `[].code`, `*.notes` or `**.rationale`; `$` is the whole answer, `\\.` a dot in a key"
)]
pub struct InvalidFieldPath;

impl FieldPath {
    /// The steps from the root of the response.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// The same path with its keys lowercased and trimmed, as markdown sections are named.
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
                // Only the root, a list, has items without a key before them.
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

/// Splits at dots; an escaped dot in a key is a NUL until the keys are built.
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
