//! Finds the rules of a field, step by step down an answer.

use crate::model::{FieldPath, FieldRule, FieldRules, FieldType, PathStep, Tolerance};

/// The rules of a skill, and how far each has matched at one place.
#[derive(Debug, Clone)]
pub(super) struct Matcher<'r> {
    rules: &'r [(FieldPath, FieldRule)],
    /// The rule, and the number of its steps that have matched.
    states: Vec<(usize, usize)>,
}

/// What the rules require at a place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RulesHere<'r> {
    pub(super) is_ignored: bool,
    pub(super) is_ruled: bool,
    pub(super) kind: Option<FieldType>,
    pub(super) tolerance: Option<Tolerance>,
    /// The required word overlap of prose, if a rule sets it.
    pub(super) overlap: Option<f64>,
    /// Whether a model grades it.
    pub(super) is_graded: bool,
    pub(super) words: WordMatch,
    pub(super) list: List<'r>,
}

/// When text is correct.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WordMatch {
    /// It means the same.
    #[default]
    Same,
    /// It contains the expected text.
    Contains,
    /// It is in the input.
    InInput,
}

/// How a list is compared.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum List<'r> {
    /// Plain values as a set, others by best match.
    #[default]
    Best,
    /// By position.
    Order,
    /// Unordered.
    Set,
    /// By the fields that identify an item.
    Key(&'r [String]),
}

impl<'r> Matcher<'r> {
    /// At the whole answer.
    pub(super) fn new(rules: &'r FieldRules) -> Self {
        let mut matcher = Self { rules: &rules.rules, states: Vec::new() };
        for rule in 0..rules.rules.len() {
            matcher.enter(rule, 0);
        }
        matcher
    }

    /// One key down.
    pub(super) fn key(&self, key: &str) -> Self {
        self.down(|step| match step {
            PathStep::Key(name) => name == key,
            PathStep::AnyKey => true,
            PathStep::Item | PathStep::Deep => false,
        })
    }

    /// One item down.
    pub(super) fn item(&self) -> Self {
        self.down(|step| *step == PathStep::Item)
    }

    fn down(&self, takes: impl Fn(&PathStep) -> bool) -> Self {
        let mut next = Self { rules: self.rules, states: Vec::new() };
        for (rule, place) in &self.states {
            match self.rules[*rule].0.steps().get(*place) {
                Some(PathStep::Deep) => next.enter(*rule, *place),
                Some(step) if takes(step) => next.enter(*rule, place + 1),
                _ => {}
            }
        }
        next
    }

    /// Advances a rule to a step; `**` may also match no step.
    fn enter(&mut self, rule: usize, place: usize) {
        if self.states.contains(&(rule, place)) {
            return;
        }
        self.states.push((rule, place));
        if self.rules[rule].0.steps().get(place) == Some(&PathStep::Deep) {
            self.enter(rule, place + 1);
        }
    }

    /// The rules that end here; if two conflict, the first one wins.
    pub(super) fn here(&self) -> RulesHere<'r> {
        let mut here = RulesHere::default();
        let mut list = None;
        let mut ended: Vec<usize> = self
            .states
            .iter()
            .filter(|(rule, place)| *place == self.rules[*rule].0.steps().len())
            .map(|(rule, _)| *rule)
            .collect();
        ended.sort_unstable();
        for rule in ended {
            here.is_ruled = true;
            match &self.rules[rule].1 {
                FieldRule::Ignore => here.is_ignored = true,
                FieldRule::Type(kind) => here.kind = here.kind.or(Some(*kind)),
                FieldRule::Tolerance(tolerance) => here.tolerance = here.tolerance.or(Some(*tolerance)),
                FieldRule::Overlap(least) => here.overlap = here.overlap.or(Some(*least)),
                FieldRule::Grader(_) => here.is_graded = true,
                FieldRule::Contains => here.words = here.words.max(WordMatch::Contains),
                FieldRule::InInput => here.words = WordMatch::InInput,
                FieldRule::Set => list = list.or(Some(List::Set)),
                FieldRule::Key(fields) => list = list.or(Some(List::Key(fields))),
                FieldRule::Order => list = list.or(Some(List::Order)),
            }
        }
        here.list = list.unwrap_or_default();
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(paths: &[&str]) -> FieldRules {
        FieldRules { rules: paths.iter().map(|path| (path.parse().unwrap(), FieldRule::Ignore)).collect() }
    }

    #[test]
    fn paths_are_followed_down() {
        let rules = rules(&["a.b", "list[].x", "*.notes", "**.why", "deep.**.end"]);
        let top = Matcher::new(&rules);
        assert!(!top.here().is_ignored);
        for (keys, ignored) in [
            (&["a", "b"][..], true),
            (&["a"], false),
            (&["a", "b", "c"], false),
            (&["list", "[]", "x"], true),
            (&["list", "x"], false),
            (&["x", "notes"], true),
            (&["notes"], false),
            (&["x", "y", "notes"], false),
            (&["why"], true),
            (&["a", "[]", "z", "why"], true),
            (&["deep", "end"], true),
            (&["deep", "1", "[]", "end"], true),
            (&["deep"], false),
        ] {
            let at = keys.iter().fold(top.clone(), |matcher, key| match *key {
                "[]" => matcher.item(),
                key => matcher.key(key),
            });
            assert_eq!(at.here().is_ignored, ignored, "{keys:?}");
        }
    }

    #[test]
    fn many_deep_steps_cost_little() {
        let path = format!("{}end", "**.a.".repeat(30));
        let rules = rules(&[&path]);
        let mut at = Matcher::new(&rules);
        for _ in 0..100 {
            at = at.key("a");
            assert!(at.states.len() <= 62);
        }
    }
}
