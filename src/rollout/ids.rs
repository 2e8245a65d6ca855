//! The five ids that tie everything of a rollout together, and the forms in which they travel: path, tags, JSON.

use percent::encode_segment;
use serde::{Deserialize, Serialize};

use crate::model::printable;

/// The longest id; ids of Eval Protocol have some twenty characters.
const LONGEST_ID: usize = 200;

/// The names of the ids, in the order in which they stand in a URL.
pub(super) const NAMES: [&str; 5] = ["rollout_id", "invocation_id", "experiment_id", "run_id", "row_id"];

/// The ids of one rollout. They are somebody else's text: data everywhere, never a path or a word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The rollout: one try at one row.
    pub rollout_id: String,
    /// All that one command of the client asked for.
    pub invocation_id: String,
    /// The experiment.
    pub experiment_id: String,
    /// The run of the experiment.
    pub run_id: String,
    /// The row of the data set.
    pub row_id: String,
}

impl Ids {
    /// The ids by their names.
    pub fn pairs(&self) -> [(&'static str, &str); 5] {
        let values = [&self.rollout_id, &self.invocation_id, &self.experiment_id, &self.run_id, &self.row_id];
        let mut values = values.into_iter();
        NAMES.map(|name| (name, values.next().map(String::as_str).unwrap_or_default()))
    }

    /// As they stand behind the base of a URL: `/rollout_id/…/invocation_id/…`.
    pub fn path(&self) -> String {
        let parts = self.pairs().map(|(name, value)| format!("/{name}/{}", encode_segment(value)));
        parts.concat()
    }

    /// Whether a segment of a path means this rollout, however much of it is encoded.
    pub fn is_rollout_segment(&self, segment: &str) -> bool {
        percent::decode(segment).as_deref() == Some(self.rollout_id.as_bytes())
    }

    /// As they stand in a trace or a log: `rollout_id:…`.
    pub fn tags(&self) -> Vec<String> {
        self.pairs().iter().map(|(name, value)| format!("{name}:{value}")).collect()
    }

    /// Refuses what cannot be an id.
    pub fn check(&self) -> Result<(), String> {
        self.pairs().iter().try_for_each(|(name, value)| check(name, value))
    }

    /// Reads the segments behind the base of a URL, decoded: a name, its value, a name, its value. A value may have slashes;
    /// what comes after the ids is given back.
    pub(super) fn from_segments(segments: &[String]) -> Result<(Self, Option<String>), String> {
        const BEHIND: &str = "encoded_base_url";
        let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
        for segment in segments {
            let is_name = segment == BEHIND || NAMES.contains(&segment.as_str());
            let is_known = values.iter().any(|(name, _)| name == segment);
            match values.last_mut() {
                Some((_, value)) if value.is_empty() || !is_name || is_known => value.push(segment),
                None if !is_name => return Err(format!("`{}` is no id", printable(segment))),
                _ => values.push((segment, Vec::new())),
            }
        }
        let mut take = |name: &str| {
            let at = values.iter().position(|(known, _)| *known == name)?;
            Some(values.remove(at).1.join("/"))
        };
        let base_url = take(BEHIND);
        let mut needed = |name: &str| take(name).ok_or_else(|| format!("the path has no `{name}`"));
        let ids = Self {
            rollout_id: needed("rollout_id")?,
            invocation_id: needed("invocation_id")?,
            experiment_id: needed("experiment_id")?,
            run_id: needed("run_id")?,
            row_id: needed("row_id")?,
        };
        ids.check()?;
        Ok((ids, base_url))
    }
}

/// Refuses what cannot be an id.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    if value.trim().is_empty() {
        return Err(format!("`{name}` is empty"));
    }
    if value.chars().count() > LONGEST_ID {
        return Err(format!("`{name}` is longer than {LONGEST_ID} characters"));
    }
    if value.contains(crate::model::is_obeyed) {
        return Err(format!("`{name}` has control characters in it: `{}`", printable(value)));
    }
    Ok(())
}

mod percent {
    use std::fmt::Write as _;

    /// The bytes that a segment means; nothing where it is none.
    pub(super) fn decode(segment: &str) -> Option<Vec<u8>> {
        let mut bytes = segment.bytes();
        let mut out = Vec::with_capacity(segment.len());
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'%' => {
                    let digit =
                        |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                    16 * digit(bytes.next()?)? + digit(bytes.next()?)?
                }
                byte => byte,
            });
        }
        Some(out)
    }

    /// A text as one segment of a path. A segment of dots alone would climb.
    pub(super) fn encode_segment(text: &str) -> String {
        let only_dots = text.bytes().all(|byte| byte == b'.');
        let mut out = String::with_capacity(text.len());
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || byte == b'.' && !only_dots {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(row_id: &str) -> Ids {
        Ids {
            rollout_id: "late-life-832674".into(),
            invocation_id: "i".into(),
            experiment_id: "e".into(),
            run_id: "r".into(),
            row_id: row_id.into(),
        }
    }

    #[test]
    fn ids_travel_in_a_path_whatever_they_are() {
        let odd = ids("it's \"$(x)\"/é?#");
        assert_eq!(
            odd.path(),
            "/rollout_id/late-life-832674/invocation_id/i/experiment_id/e/run_id/r/row_id/it%27s%20%22%24%28x%29%22%2F%C3%A9%3F%23"
        );
        let segments = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        let plain = "rollout_id/late-life-832674/invocation_id/i/experiment_id/e/run_id/r/row_id/";
        let (read, behind) = Ids::from_segments(&segments(&format!("{plain}a/b/run_id/c"))).unwrap();
        assert_eq!((read, behind), (ids("a/b/run_id/c"), None), "a value may have slashes, and names");
        assert!(odd.is_rollout_segment("late-life-832674") && odd.is_rollout_segment("late%2dlife-832674"));
        assert!(!odd.is_rollout_segment("late-life") && !odd.is_rollout_segment("late-life-832674%"));
        let (read, behind) =
            Ids::from_segments(&segments(&format!("{plain}7/encoded_base_url/eA=="))).unwrap();
        assert_eq!((read, behind.as_deref()), (ids("7"), Some("eA==")));
    }

    #[test]
    fn what_is_no_id_is_told() {
        let problem = |path: &str| {
            let segments: Vec<String> = path.split('/').map(str::to_owned).collect();
            Ids::from_segments(&segments).unwrap_err()
        };
        insta::assert_snapshot!(problem("x/y"), @"`x` is no id");
        insta::assert_snapshot!(problem("rollout_id/a/run_id/b"), @"the path has no `invocation_id`");
        insta::assert_snapshot!(ids(" ").check().unwrap_err(), @"`row_id` is empty");
        insta::assert_snapshot!(ids("a\n::error::b").check().unwrap_err(), @r"`row_id` has control characters in it: `a\n::error::b`");
        insta::assert_snapshot!(ids(&"a".repeat(201)).check().unwrap_err(), @"`row_id` is longer than 200 characters");
    }
}
