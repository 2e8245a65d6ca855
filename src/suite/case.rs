//! One test.

use std::collections::HashMap;
use std::path::PathBuf;

use super::dialect::Dialect;
use super::grading::{self, SuiteGrading};
use super::input::{self, SuiteInput};
use super::loader::{Loader, key_span};
use super::tree::Test;
use super::{execution, refuse, tools};
use crate::config::{Fields, Node, Span};
use crate::model::{TestCase, TestPlace, Tool};

/// Reads the tests of a suite.
pub(super) struct Cases<'n> {
    pub(super) dialect: &'static Dialect,
    pub(super) input: SuiteInput<'n>,
    pub(super) grading: SuiteGrading,
    /// The default tools of tests, and their size as JSON.
    pub(super) tools: (Vec<Tool>, usize),
    /// How many trials each test has.
    pub(super) replicates: u32,
    /// The first position of each id.
    pub(super) ids: HashMap<String, (PathBuf, u32)>,
}

impl Cases<'_> {
    /// Reads a test.
    pub(super) fn read(&mut self, Test { node, workspace }: &Test, loader: &mut Loader) -> Option<TestCase> {
        if let Some(workspace) = workspace {
            refuse::refuse_workspace_directory(workspace, &node.span, loader);
        }
        let mut fields = node.fields("test", &mut loader.problems)?;
        let id = read_id(&mut fields, self.replicates, loader);
        refuse::refuse_workspace(&mut fields, loader);
        let is_conversation = refuse::refuse_conversation(&mut fields, loader);
        let execution = execution::read_test(&mut fields, self.dialect, loader);
        let vars = fields.get("vars");
        let before = loader.problems.error_count();
        let grading = grading::read(&mut fields, vars, &execution, &self.grading, loader);
        let has_grading = grading.is_some() || is_conversation;
        if !has_grading && loader.problems.error_count() == before {
            loader.problems.error_with_hint(
                id.as_ref().map_or(&node.span, |_| id_span(node)),
                "the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it",
                "add one of them; assertions of the suite do not count",
            );
        }
        if let Some(vars) = vars
            && vars.entries().is_none()
        {
            loader.problems.error(&vars.span, format!("`vars`: expected a mapping, found {}", vars.kind()));
        }
        let input = if is_conversation {
            // Its turns are its input; it is already reported that it cannot run.
            None
        } else {
            input::read(&mut fields, vars, execution.skip_defaults, &mut self.input, loader)
        };
        let tools = self.tools(&mut fields, loader);
        if fields.get("depends_on").is_some() {
            let message = "`depends_on` has no effect: the tests of a batch run at the same time".to_owned();
            loader.warn_once(key_span(node, "depends_on"), message, None);
        }
        loader.warn_foreign(node, "a test", self.dialect.test);

        let id = id?;
        let place = (node.span.source.path.clone(), node.span.line);
        if let Some((path, line)) = self.ids.insert(id.clone(), place) {
            let message = format!("duplicate id `{id}`, first in {}:{line}", path.display());
            let hint = "ids are unique in a suite: rename one of them";
            loader.problems.error_with_hint(id_span(node), message, hint);
        }
        let (messages, files) = input?;
        let grading = grading.unwrap_or_default();
        let at = id_span(node);
        let place = TestPlace { id: id.clone(), file: at.source.path.display().to_string(), line: at.line };
        Some(TestCase { id, messages, tools, files, targets: execution.targets, place: Some(place), grading })
    }

    /// The test's tools, else the suite's. They are sent with each test, so their bytes count like those of its messages.
    fn tools(&self, fields: &mut Fields, loader: &mut Loader) -> Vec<Tool> {
        let (tools, bytes) = match tools::read(fields, loader) {
            Some(own) => {
                let bytes = tools::bytes(&own);
                (own, bytes)
            }
            None => self.tools.clone(),
        };
        if let Err(too_large) = loader.text.message(bytes) {
            loader.stop(too_large, &fields.node.span);
        }
        tools
    }
}

fn read_id(fields: &mut Fields, replicates: u32, loader: &mut Loader) -> Option<String> {
    let problems = &mut loader.problems;
    let Some(node) = fields.get("id") else {
        problems.error_with_hint(
            &fields.node.span,
            "the test has no `id`, so AgentV skips it",
            "give it one: any text that no other test of the suite has",
        );
        return None;
    };
    let Some(id) = node.as_str() else {
        problems.error_with_hint(
            &node.span,
            format!("`id`: expected a string, found {}, so AgentV skips the test", node.kind()),
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
        "`id`: an ending like `#2` is reserved for the second trial of a test"
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
