//! The five ids of a rollout, and their formats: path, tags, JSON.

use serde::{Deserialize, Serialize};

use crate::model::printable;
use crate::util::percent;

/// The longest id; ids of Eval Protocol have about twenty characters.
const LONGEST_ID: usize = 200;

/// The names of the ids, in URL order.
pub(super) const NAMES: [&str; 5] = ["rollout_id", "invocation_id", "experiment_id", "run_id", "row_id"];

/// The ids of one rollout. They are untrusted text: always data, never a path or part of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The rollout: one attempt at one row.
    pub rollout_id: String,
    /// One command of the client.
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

    /// The path after the base URL: `/rollout_id/…/invocation_id/…`.
    pub fn path(&self) -> String {
        let parts = self.pairs().map(|(name, value)| format!("/{name}/{}", encode_segment(value)));
        parts.concat()
    }

    /// Whether a path segment is this rollout, however it is encoded.
    pub fn is_rollout_segment(&self, segment: &str) -> bool {
        percent::decode(segment).as_deref() == Some(self.rollout_id.as_bytes())
    }

    /// The tags in a trace or a log: `rollout_id:…`.
    pub fn tags(&self) -> Vec<String> {
        self.pairs().iter().map(|(name, value)| format!("{name}:{value}")).collect()
    }

    /// Refuses an illegal id.
    pub fn check(&self) -> Result<(), String> {
        self.pairs().iter().try_for_each(|(name, value)| check(name, value))
    }

    /// Reads the decoded segments after the base URL, as pairs of name and value. A value may contain slashes; returns what
    /// follows the ids.
    pub(super) fn from_segments(segments: &[String]) -> Result<(Self, Option<String>), String> {
        let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
        for segment in segments {
            let is_name = segment == BEHIND || NAMES.contains(&segment.as_str());
            let is_known = values.iter().any(|(name, _)| name == segment);
            match values.last_mut() {
                Some((_, value)) if value.is_empty() || !is_name || is_known => value.push(segment),
                None if !is_name => return Err(format!("`{}` is not an id", printable(segment))),
                _ => values.push((segment, Vec::new())),
            }
        }
        let mut take = |name: &str| {
            let at = values.iter().position(|(known, _)| *known == name)?;
            Some(values.remove(at).1.join("/"))
        };
        let base_url = take(BEHIND);
        let needed = |name: &str| take(name).ok_or_else(|| format!("the path has no `{name}`"));
        Ok((Self::read(needed)?, base_url))
    }

    /// Reads each id by its name, and checks it.
    pub(super) fn read(mut value: impl FnMut(&str) -> Result<String, String>) -> Result<Self, String> {
        let ids = Self {
            rollout_id: value("rollout_id")?,
            invocation_id: value("invocation_id")?,
            experiment_id: value("experiment_id")?,
            run_id: value("run_id")?,
            row_id: value("row_id")?,
        };
        ids.check()?;
        Ok(ids)
    }
}

/// Separates the ids in a URL from the address of another server.
pub(super) const BEHIND: &str = "encoded_base_url";

/// Refuses an illegal id.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    if value.trim().is_empty() {
        return Err(format!("`{name}` is empty"));
    }
    if value.chars().count() > LONGEST_ID {
        return Err(format!("`{name}` is longer than {LONGEST_ID} characters"));
    }
    if value.bytes().all(|byte| byte == b'.') {
        return Err(format!("`{name}` consists of dots only, which is another path"));
    }
    // An endpoint that decodes the path before splitting it would read an address there.
    if value.to_ascii_lowercase().contains(BEHIND) {
        return Err(format!("`{name}` has `{BEHIND}` in it"));
    }
    if value.contains(crate::model::is_obeyed) {
        return Err(format!("`{name}` contains control characters: `{}`", printable(value)));
    }
    Ok(())
}

/// A text as one path segment. A segment of only dots would climb.
fn encode_segment(text: &str) -> String {
    let only_dots = text.bytes().all(|byte| byte == b'.');
    if only_dots { text.replace('.', "%2E") } else { percent::encode(text) }
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
    fn any_id_can_be_part_of_a_path() {
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
    fn an_invalid_id_is_an_error() {
        let problem = |path: &str| {
            let segments: Vec<String> = path.split('/').map(str::to_owned).collect();
            Ids::from_segments(&segments).unwrap_err()
        };
        insta::assert_snapshot!(problem("x/y"), @"`x` is not an id");
        insta::assert_snapshot!(problem("rollout_id/a/run_id/b"), @"the path has no `invocation_id`");
        insta::assert_snapshot!(ids(" ").check().unwrap_err(), @"`row_id` is empty");
        insta::assert_snapshot!(ids("a\n::error::b").check().unwrap_err(), @r"`row_id` contains control characters: `a\n::error::b`");
        insta::assert_snapshot!(ids("7/Encoded_Base_URL/eA==").check().unwrap_err(), @"`row_id` has `encoded_base_url` in it");
        insta::assert_snapshot!(ids("..").check().unwrap_err(), @"`row_id` consists of dots only, which is another path");
        insta::assert_snapshot!(ids(&"a".repeat(201)).check().unwrap_err(), @"`row_id` is longer than 200 characters");
    }
}
