//! One test.

use std::collections::HashMap;
use std::path::PathBuf;

use super::grading::{self, SuiteGrading};
use super::input::{self, SuiteInput};
use super::loader::{Loader, key_span};
use super::{execution, refuse};
use crate::config::{Fields, Node, Span};
use crate::model::{TestCase, TestPlace};

/// Errors that are told before the rest is left unread; a file of 100,000 lines may have one on each.
const MOST_ERRORS: usize = 20;

const KEYS: [&str; 16] = [
    "id",
    "vars",
    "criteria",
    "input",
    "input_files",
    "expected_output",
    "assertions",
    "rubrics",
    "execution",
    "workspace",
    "metadata",
    "conversation_id",
    "suite",
    "depends_on",
    "mode",
    "turns",
];

/// Keys that change nothing about what is asked.
const NOT_USED: [&str; 7] = [
    "metadata",
    "conversation_id",
    "suite",
    "on_dependency_failure",
    "aggregation",
    "on_turn_failure",
    "window_size",
];

/// The tests so far.
pub(super) struct Cases<'l, 'a, 'n> {
    pub(super) loader: &'l mut Loader<'a>,
    input: SuiteInput<'n>,
    grading: SuiteGrading,
    /// How often each test is run.
    replicates: u32,
    tests: Vec<TestCase>,
    /// Where each id was first used.
    places: HashMap<String, (PathBuf, u32)>,
    is_full: bool,
}

impl<'l, 'a, 'n> Cases<'l, 'a, 'n> {
    /// No tests yet.
    pub(super) fn new(
        input: SuiteInput<'n>,
        grading: SuiteGrading,
        replicates: u32,
        loader: &'l mut Loader<'a>,
    ) -> Self {
        Self { loader, input, grading, replicates, tests: Vec::new(), places: HashMap::new(), is_full: false }
    }

    /// Reads a test; `default_id` is the name of the directory that it stands in.
    pub(super) fn push(&mut self, node: &Node, default_id: Option<&str>) {
        if self.is_full {
            return;
        }
        if let Some(test) = self.read(node, default_id) {
            self.tests.push(test);
        }
        self.stop_at_too_many(&node.span);
    }

    /// Notes a line that is no test at all.
    pub(super) fn reject(&mut self, at: &Span, message: String) {
        self.loader.problems.error_with_hint(at, message, "a `.jsonl` file has one whole JSON object a line");
        self.stop_at_too_many(at);
    }

    /// Whether further tests would not be read.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The tests; that there are none is an error at `tests`.
    pub(super) fn finish(self, tests: &Span) -> Vec<TestCase> {
        if self.tests.is_empty() && !self.loader.problems.has_errors() {
            self.loader.problems.error(tests, "the suite has no tests");
        }
        self.tests
    }

    fn stop_at_too_many(&mut self, at: &Span) {
        let count = self.loader.problems.error_count();
        if count >= MOST_ERRORS {
            self.is_full = true;
            self.loader.problems.error(at, format!("{count} errors: the tests after this one are not read"));
        }
    }

    fn read(&mut self, node: &Node, default_id: Option<&str>) -> Option<TestCase> {
        let loader = &mut *self.loader;
        let mut fields = node.fields("test", &mut loader.problems)?;
        let id = read_id(&mut fields, default_id, self.replicates, loader);
        refuse::refuse_workspace(&mut fields, loader);
        let is_conversation = refuse::refuse_conversation(&mut fields, loader);
        let execution = execution::read_test(&mut fields, loader);
        let vars = fields.get("vars");
        let before = loader.problems.error_count();
        let grading = grading::read(&mut fields, vars, &execution, &self.grading, loader);
        let has_grading = grading.is_some() || is_conversation;
        if !has_grading && loader.problems.error_count() == before {
            loader.problems.error_with_hint(
                id.as_ref().map_or(&node.span, |_| id_span(node)),
                "the test says nothing about its answer, so AgentV leaves it out",
                "give it `criteria`, `expected_output` or `assertions`; those of the suite do not count",
            );
        }
        if let Some(vars) = vars
            && vars.entries().is_none()
        {
            loader.problems.error(&vars.span, format!("`vars`: expected a mapping, found {}", vars.kind()));
        }
        let input = if is_conversation {
            // Its turns are its input; that they cannot be run is told.
            let _ = ["input", "input_files"].map(|key| fields.get(key));
            None
        } else {
            input::read(&mut fields, vars, execution.skip_defaults, &mut self.input, loader)
        };
        if fields.get("depends_on").is_some() {
            let message = "`depends_on` has no effect: the tests of a batch run at the same time".to_owned();
            loader.warn_once(key_span(node, "depends_on"), message, None);
        }
        for key in NOT_USED {
            fields.get(key);
        }
        loader.warn_unknown(&fields, "a test", &KEYS);

        let id = id?;
        let place = (node.span.source.path.clone(), node.span.line);
        if let Some((path, line)) = self.places.insert(id.clone(), place) {
            let message = format!("duplicate id `{id}`, first in {}:{line}", path.display());
            let hint = "ids are unique in a suite: rename one of them";
            loader.problems.error_with_hint(id_span(node), message, hint);
        }
        let (messages, files) = input?;
        let grading = grading.unwrap_or_default();
        let at = id_span(node);
        let place = TestPlace { id: id.clone(), file: at.source.path.display().to_string(), line: at.line };
        Some(TestCase { id, messages, files, targets: execution.targets, place: Some(place), grading })
    }
}

fn read_id(
    fields: &mut Fields,
    default_id: Option<&str>,
    replicates: u32,
    loader: &mut Loader,
) -> Option<String> {
    let problems = &mut loader.problems;
    let Some(node) = fields.get("id") else {
        let Some(id) = default_id else {
            problems.error_with_hint(
                &fields.node.span,
                "the test has no `id`, so AgentV leaves it out",
                "give it one: any text that no other test of the suite has",
            );
            return None;
        };
        return check_id(id, &fields.node.span, replicates, loader);
    };
    let Some(id) = node.as_str() else {
        problems.error_with_hint(
            &node.span,
            format!("`id`: expected a string, found {}, so AgentV leaves the test out", node.kind()),
            "put it in quotes",
        );
        return None;
    };
    check_id(id, &node.span, replicates, loader)
}

fn check_id(id: &str, at: &Span, replicates: u32, loader: &mut Loader) -> Option<String> {
    let problem = if id.trim().is_empty() {
        "`id`: it is empty"
    } else if id.contains(char::is_control) {
        "`id`: it contains a control character"
    } else if replicates > 1 && ends_like_a_replicate(id) {
        "`id`: an ending like `#2` is kept for the second run of a test"
    } else {
        return Some(id.to_owned());
    };
    loader.problems.error_with_hint(at, problem, "choose another id");
    None
}

fn ends_like_a_replicate(id: &str) -> bool {
    id.rsplit_once('#')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn id_span(node: &Node) -> &Span {
    let entries = node.entries().unwrap_or_default();
    entries.iter().find(|(key, _)| key.text == "id").map_or(&node.span, |(_, id)| &id.span)
}
