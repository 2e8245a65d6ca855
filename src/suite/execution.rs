//! `execution`, of a suite and of a test.

use super::dialect::{Dialect, Part};
use super::loader::{Loader, key_span};
use super::refuse;
use crate::config::{Fields, Node};
use crate::model::{Suite, SuiteTarget};

const MOST_WORKERS: u64 = 50;

/// The `execution` of a test.
#[derive(Debug, Default)]
pub(super) struct TestExecution<'n> {
    pub(super) targets: Vec<String>,
    /// Whether to ignore the suite's `input`, `input_files` and `assertions`.
    pub(super) skip_defaults: bool,
    /// The threshold of the score.
    pub(super) threshold: Option<f64>,
    /// An old name of `assertions`.
    pub(super) evaluators: Option<&'n Node>,
}

/// Reads `execution` and `target` of a suite; returns the assertions in `execution`.
pub(super) fn read_suite<'n>(
    top: &mut Fields<'n>,
    dialect: &Dialect,
    suite: &mut Suite,
    loader: &mut Loader,
) -> Option<&'n Node> {
    let mut assertions = None;
    let old_target = top.string("target", &mut loader.problems).and_then(name);
    let mut target = None;
    if let Some(node) = top.get("execution")
        && let Some(mut fields) = node.fields("`execution`", &mut loader.problems)
    {
        target = fields.string("target", &mut loader.problems).and_then(name);
        for entry in fields.list("targets", &mut loader.problems).unwrap_or_default() {
            suite.targets.extend(read_target(entry, loader));
        }
        suite.workers = read_workers(&mut fields, loader);
        suite.budget_usd = read_budget(&mut fields, loader);
        suite.replicates = read_trials(&mut fields, loader);
        suite.threshold = read_threshold(&mut fields, loader);
        let mut lists = dialect.execution.names(Part::Assertions).filter_map(|name| fields.get(name));
        assertions = lists.find(|node| node.items().is_some());
        loader.warn_foreign(node, "`execution`", dialect.execution);
    }
    if suite.targets.is_empty() {
        suite.targets.extend(target.or(old_target).map(|name| SuiteTarget { name, use_target: None }));
    }
    assertions
}

/// Reads `execution` of a test.
pub(super) fn read_test<'n>(
    test: &mut Fields<'n>,
    dialect: &Dialect,
    loader: &mut Loader,
) -> TestExecution<'n> {
    let Some(node) = test.get("execution") else { return TestExecution::default() };
    let Some(mut fields) = node.fields("`execution`", &mut loader.problems) else {
        return TestExecution::default();
    };
    let mut targets = Vec::new();
    for entry in fields.list("targets", &mut loader.problems).unwrap_or_default() {
        match entry.as_str().and_then(name) {
            Some(target) => targets.push(target),
            None => loader.problems.error(
                &entry.span,
                format!(
                    "`execution.targets` of a test: expected the name of a target, found {}",
                    entry.kind()
                ),
            ),
        }
    }
    let skip_defaults = fields.boolean("skip_defaults", &mut loader.problems).unwrap_or_default();
    let threshold = read_threshold(&mut fields, loader);
    let evaluators = fields.get("evaluators").filter(|node| node.items().is_some());
    for (key, value) in node.entries().unwrap_or_default() {
        let name = key.text.as_str();
        if dialect.execution.part(name).is_none() {
            loader.unknown(key, "the `execution` of a test", &dialect.test_execution.current());
        } else if dialect.test_execution.part(name).is_none() && !value.is_null() {
            let hint = match name {
                "target" => "write `targets`, a list of names",
                "assertions" | "assert" => "write `assertions` in the test itself",
                _ => "it belongs to the `execution` of the suite",
            };
            let message = format!("`execution.{name}` of a test is not read");
            loader.warn_once(&key.span, message, Some(hint.to_owned()));
        }
    }
    TestExecution { targets, skip_defaults, threshold, evaluators }
}

fn read_target(entry: &Node, loader: &mut Loader) -> Option<SuiteTarget> {
    let problems = &mut loader.problems;
    if let Some(text) = entry.as_str() {
        let name = name(text);
        if name.is_none() {
            problems.error(&entry.span, "a target needs a name");
        }
        return Some(SuiteTarget { name: name?, use_target: None });
    }
    let mut fields = entry.fields("target", problems)?;
    let before = problems.error_count();
    let found = fields.string("name", problems).and_then(name);
    if found.is_none() && before == problems.error_count() {
        problems.error(&entry.span, "a target needs a `name`");
    }
    let use_target = fields.string("use_target", problems).and_then(name);
    refuse::refuse_hooks(&mut fields, loader);
    loader.warn_unknown(&fields, "a target of the suite", &["name", "use_target"]);
    Some(SuiteTarget { name: found?, use_target })
}

fn read_threshold(fields: &mut Fields, loader: &mut Loader) -> Option<f64> {
    let threshold = fields.number("threshold", &mut loader.problems)?;
    if (0.0..=1.0).contains(&threshold) {
        return Some(threshold);
    }
    let span = &fields.get("threshold")?.span;
    loader.problems.error(span, format!("`threshold`: expected 0 to 1, found {threshold}"));
    None
}

fn read_workers(fields: &mut Fields, loader: &mut Loader) -> Option<u32> {
    let workers = fields.count("workers", &mut loader.problems)?;
    if !(1..=MOST_WORKERS).contains(&workers) {
        let span = &fields.get("workers")?.span;
        loader.problems.error(span, format!("`workers`: expected 1 to {MOST_WORKERS}, found {workers}"));
        return None;
    }
    u32::try_from(workers).ok()
}

fn read_budget(fields: &mut Fields, loader: &mut Loader) -> Option<f64> {
    for old in ["total_budget_usd", "totalBudgetUsd"] {
        if fields.get(old).is_some() {
            let span = key_span(fields.node, old);
            loader.problems.error_with_hint(span, format!("`{old}` is not read"), "write `budget_usd`");
        }
    }
    // AgentV reads both spellings.
    let other = fields.number("budgetUsd", &mut loader.problems);
    let budget = fields.number("budget_usd", &mut loader.problems).or(other)?;
    if budget > 0.0 && budget.is_finite() {
        return Some(budget);
    }
    let span = &fields.get("budget_usd").or_else(|| fields.get("budgetUsd"))?.span;
    loader.problems.error(span, format!("`budget_usd`: expected more than 0, found {budget}"));
    None
}

/// How many trials each test has.
fn read_trials(fields: &mut Fields, loader: &mut Loader) -> u32 {
    let Some(node) = fields.get("trials") else { return 1 };
    let Some(mut trials) = node.fields("`trials`", &mut loader.problems) else { return 1 };
    let count = trials.count("count", &mut loader.problems).unwrap_or(1);
    for key in ["strategy", "cost_limit_usd", "costLimitUsd"] {
        trials.get(key);
    }
    loader.warn_unknown(&trials, "`trials`", &["count", "strategy", "cost_limit_usd"]);
    if let Ok(count @ 1..) = u32::try_from(count) {
        return count;
    }
    let span = trials.get("count").map_or(&node.span, |count| &count.span);
    loader.problems.error(span, format!("`trials.count`: expected 1 or more, found {count}"));
    1
}

fn name(text: &str) -> Option<String> {
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
