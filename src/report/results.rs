//! Reads an output directory: scores, call statistics, and as much text as a report shows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::lines::{count, each_line};
use super::text::clip;
use crate::model::{
    Block, Content, ErrorInfo, Failure, GraderScore, Message, OutputMessage, Problem, Role, ScoreError,
    ScoreRow, ScoreStatus, TestPlace, TokenUsage, Trial, Verdict, printable,
};
use crate::util::regular_file;

/// The files of an output directory that a baseline consists of.
pub const RESULT_FILES: [&str; 5] =
    ["responses.jsonl", "scores.jsonl", "summary.json", "requests.jsonl", "tests.jsonl"];

/// The report in an output directory, generated from its other files.
pub const REPORT_FILE: &str = "report.html";

/// The most characters kept of all texts of a kind, and of one.
const MOST_KEPT: usize = 48 << 20;
const LONGEST_KEPT: usize = 16 << 10;
const SHORTEST_KEPT: usize = 400;

/// The content of a directory.
#[derive(Debug, Default)]
pub struct Results {
    /// Its path, as the user gave it.
    pub shown: String,
    /// The suite's name, or the requests file's.
    pub suite: Option<String>,
    /// Every request, in order.
    pub trials: Vec<Trial>,
    /// The answer to each.
    pub answers: Vec<Option<String>>,
    /// The input of each test, by request id.
    pub prompts: HashMap<String, String>,
    /// The position of each test.
    pub places: HashMap<String, TestPlace>,
    /// Whether there are scores at all.
    pub is_graded: bool,
    /// The facts in `summary.json`.
    pub about: About,
    /// The models that responded, by target.
    pub models: Vec<(String, String)>,
}

/// The part of `summary.json` that reports show; the figures come from the rows.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct About {
    #[serde(default)]
    suite: Option<String>,
    /// The threshold that the command line or the suite sets.
    #[serde(default)]
    pub threshold: Option<f64>,
    /// When the run finished.
    #[serde(default)]
    pub finished_at: Option<String>,
    /// The commit that was checked out.
    #[serde(default)]
    pub commit: Option<String>,
    /// The workflow run of the evaluation.
    #[serde(default)]
    pub workflow_run: Option<String>,
    /// The verdict that `eval` gave.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Its problems.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// The fields of a response that are used.
#[derive(Deserialize)]
struct ResponseFields {
    id: String,
    target: String,
    #[serde(default)]
    output: Option<Vec<OutputMessage>>,
    #[serde(default)]
    token_usage: Option<TokenUsage>,
    #[serde(default)]
    cost_usd: Option<f64>,
    duration_ms: u64,
    attempts: u32,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    error: Option<ErrorInfo>,
}

/// The fields of a request that are used.
#[derive(Deserialize)]
struct RequestFields {
    id: String,
    messages: Vec<Message>,
    #[serde(default)]
    metadata: RequestMetadata,
}

#[derive(Default, Deserialize)]
struct RequestMetadata {
    #[serde(default)]
    test_id: String,
    #[serde(default)]
    replicate: u32,
}

impl Results {
    /// Reads a directory that `eval`, `dispatch --output` or `collect --output` wrote.
    pub fn read(dir: &Path, shown: &str) -> Result<Self, Failure> {
        let file = |name: &str| NamedFile { path: dir.join(name), shown: format!("{shown}/{name}") };
        let responses = file("responses.jsonl");
        let scores = file("scores.jsonl");
        if !responses.path.is_file() && !scores.path.is_file() {
            let what = if dir.exists() { "has no `responses.jsonl`" } else { "does not exist" };
            return Err(Failure::config(format!("no results: `{shown}` {what}"))
                .hint("pass the directory that `eval` printed, or the one given to `--output`"));
        }
        let mut results = Self { shown: shown.to_owned(), ..Self::default() };
        results.about = about(&file("summary.json"))?;
        results.suite = results.about.suite.take();
        let rows = count(&responses.path).max(count(&scores.path)).max(1);
        let longest = (MOST_KEPT / rows).clamp(SHORTEST_KEPT, LONGEST_KEPT);
        if scores.path.is_file() {
            results.is_graded = true;
            results.read_scores(&scores, longest)?;
        }
        if responses.path.is_file() {
            results.read_responses(&responses, longest)?;
        }
        let requests = file("requests.jsonl");
        if requests.path.is_file() {
            results.read_requests(&requests, longest)?;
        }
        let tests = file("tests.jsonl");
        if tests.path.is_file() {
            each_line(&tests.path, &tests.shown, |place: TestPlace| {
                results.places.insert(place.id.clone(), place);
                Ok(())
            })?;
        }
        Ok(results)
    }

    /// Keeps the rows of these targets.
    pub fn keep_targets(&mut self, names: &[String]) -> Result<(), Failure> {
        let mut known: Vec<&str> = Vec::new();
        for trial in &self.trials {
            if !known.contains(&trial.row.target.as_str()) {
                known.push(&trial.row.target);
            }
        }
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let known: Vec<String> = known.iter().map(|name| format!("`{}`", printable(name))).collect();
            let message = format!("`{}` has no target `{}`", printable(&self.shown), printable(unknown));
            return Err(Failure::config(message).hint(format!("it has {}", known.join(", "))));
        }
        let is_kept = |trial: &Trial| names.contains(&trial.row.target);
        let mut kept = self.trials.iter().map(is_kept).collect::<Vec<_>>().into_iter();
        self.answers.retain(|_| kept.next().unwrap_or(false));
        self.trials.retain(is_kept);
        self.models.retain(|(target, _)| names.contains(target));
        Ok(())
    }

    fn read_scores(&mut self, file: &NamedFile, longest: usize) -> Result<(), Failure> {
        let mut times: HashMap<(String, String), u32> = HashMap::new();
        each_line(&file.path, &file.shown, |mut row: ScoreRow| {
            for (what, value) in [("score", row.score), ("threshold", row.threshold)] {
                if !(0.0..=1.0).contains(&value) {
                    return Err(format!("`{what}` is {value}, expected 0 to 1"));
                }
            }
            if row.replicate == 0 {
                return Err("`replicate` is 0, expected 1 or more".to_owned());
            }
            for grader in &mut row.scores {
                shorten(grader, longest, 0);
            }
            row.target = numbered(&mut times, &row.target, &row.id);
            let is_open = match &row.error {
                Some(ScoreError::Call(error)) => error.retryable,
                Some(ScoreError::Grader { .. }) => true,
                None => false,
            };
            self.trials.push(Trial { row, is_open, duration_ms: None, cost_usd: None, tokens: None });
            self.answers.push(None);
            Ok(())
        })
    }

    fn read_responses(&mut self, file: &NamedFile, longest: usize) -> Result<(), Failure> {
        let key = |trial: &Trial| (trial.row.target.clone(), trial.row.id.clone());
        let scored: HashMap<(String, String), usize> =
            self.trials.iter().enumerate().map(|(place, trial)| (key(trial), place)).collect();
        let mut times = HashMap::new();
        each_line(&file.path, &file.shown, |row: ResponseFields| {
            let target = numbered(&mut times, &row.target, &row.id);
            let known = scored.get(&(target.clone(), row.id.clone())).copied();
            let target_name = target.clone();
            let place = known.unwrap_or_else(|| {
                self.trials.push(ungraded(&row, target, self.is_graded));
                self.answers.push(None);
                self.trials.len() - 1
            });
            let trial = &mut self.trials[place];
            if let Some(model) = row.model
                && !self.models.iter().any(|(of, known)| *of == target_name && *known == model)
            {
                self.models.push((target_name, model));
            }
            trial.tokens = row.token_usage;
            trial.cost_usd = row.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
            trial.duration_ms = (row.error.is_none() && row.attempts > 0).then_some(row.duration_ms);
            let turns = row.output.unwrap_or_default();
            let answer: Vec<String> = turns.iter().map(OutputMessage::shown).collect();
            self.answers[place] = row.error.is_none().then(|| clip(&answer.join("\n\n"), longest));
            Ok(())
        })
    }

    fn read_requests(&mut self, file: &NamedFile, longest: usize) -> Result<(), Failure> {
        each_line(&file.path, &file.shown, |asked: RequestFields| {
            // All replicates of a test have the same input.
            if asked.metadata.replicate <= 1 {
                let id = if asked.metadata.test_id.is_empty() { asked.id } else { asked.metadata.test_id };
                self.prompts.insert(id, clip(&prompt(&asked.messages), longest));
            }
            Ok(())
        })
    }
}

/// A file and its name for messages.
struct NamedFile {
    path: PathBuf,
    shown: String,
}

fn about(file: &NamedFile) -> Result<About, Failure> {
    let text = match regular_file::read(&file.path, regular_file::CONTENT) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(About::default()),
        Err(error) => return Err(Failure::config(format!("cannot read `{}`: {error}", file.shown))),
    };
    serde_json::from_slice(&text).map_err(|error| {
        Failure::config(format!(
            "`summary.json` cannot be read: {error}\n  --> {}:{}:{}",
            file.shown,
            error.line(),
            error.column()
        ))
        .hint("`eval` writes it: run it again, or remove the file")
    })
}

/// Two runner repositories may use the same target name; the second one gets a number.
fn numbered(times: &mut HashMap<(String, String), u32>, target: &str, id: &str) -> String {
    let times = times.entry((target.to_owned(), id.to_owned())).or_default();
    *times += 1;
    if *times == 1 { target.to_owned() } else { format!("{target} ({times})") }
}

/// A response without a score; an error if others have one.
fn ungraded(row: &ResponseFields, target: String, others_are_graded: bool) -> Trial {
    let (test_id, replicate) = match row.id.rsplit_once('#').map(|(id, number)| (id, number.parse::<u32>())) {
        Some((id, Ok(number @ 2..))) => (id.to_owned(), number),
        _ => (row.id.clone(), 1),
    };
    let error = match (&row.error, others_are_graded) {
        (Some(error), _) => Some(ScoreError::Call(error.clone())),
        (None, true) => Some(ScoreError::Grader {
            grader: "all".to_owned(),
            message: "`scores.jsonl` has no row for this answer".to_owned(),
        }),
        (None, false) => None,
    };
    let is_open = match &error {
        Some(ScoreError::Call(error)) => error.retryable,
        Some(ScoreError::Grader { .. }) => true,
        None => false,
    };
    let status = if error.is_some() { ScoreStatus::Error } else { ScoreStatus::Skipped };
    Trial {
        row: ScoreRow {
            id: row.id.clone(),
            test_id,
            replicate,
            target,
            status,
            score: 0.0,
            threshold: 0.0,
            scores: Vec::new(),
            error,
        },
        is_open,
        duration_ms: None,
        cost_usd: None,
        tokens: None,
    }
}

/// A grader's text may be as long as the answer.
fn shorten(grader: &mut GraderScore, longest: usize, depth: u32) {
    const DEEPEST: u32 = 8;
    const MOST_CHECKS: usize = 50;
    let cut = |text: &mut String| *text = clip(text, longest);
    cut(&mut grader.name);
    grader.reasoning.iter_mut().for_each(cut);
    grader.error.iter_mut().for_each(cut);
    grader.assertions.truncate(MOST_CHECKS);
    for check in &mut grader.assertions {
        cut(&mut check.text);
        check.evidence.iter_mut().for_each(cut);
    }
    if depth == DEEPEST {
        grader.scores.clear();
    }
    grader.scores.iter_mut().for_each(|member| shorten(member, longest, depth + 1));
}

/// A conversation as text, with roles unless only the user speaks.
fn prompt(messages: &[Message]) -> String {
    let said = |message: &Message| match &message.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            let block = |block: &Block| match block {
                Block::Text { text } => text.clone(),
                Block::File { name, .. } => format!("[file {}]", name.as_deref().unwrap_or("")),
                Block::Image { name, .. } => format!("[image {}]", name.as_deref().unwrap_or("")),
            };
            blocks.iter().map(block).collect::<Vec<_>>().join("\n")
        }
    };
    if let [only] = messages
        && only.role == Role::User
    {
        return said(only);
    }
    let turn = |message: &Message| {
        let who = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        format!("{who}: {}", said(message))
    };
    messages.iter().map(turn).collect::<Vec<_>>().join("\n\n")
}
