//! One pass over the rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::command::CommandJob;
use super::notes::{Note, Notes, PreviousNotes};
use super::requests::{Prompt, request_id};
use super::{Commands, GraderRequests, Prompts};
use crate::model::{Exit, Failure, Response, ScoreRow, Suite, TestCase};
use crate::scoring::{self, GraderCall, GraderReply, Scorer};
use crate::util::regular_file;

/// How many rows are graded at once, so that their commands run in parallel.
const WINDOW: usize = 64;
/// The most commands at once.
const MOST_COMMANDS: usize = 16;

/// The rows of a batch, and how to grade them.
#[derive(Debug)]
pub struct BatchToGrade<'s> {
    /// The suite of the batch.
    pub suite: &'s Suite,
    /// The file with the responses.
    pub responses: &'s Path,
    /// The range of the batch in it.
    pub range: std::ops::Range<u64>,
    /// The default threshold of tests without one.
    pub threshold: Option<f64>,
    /// How to run commands.
    pub commands: Arc<Commands>,
    /// The directory for files between passes.
    pub dir: PathBuf,
}

/// The models' responses, for each target that the graders name.
pub type GraderResponses = BTreeMap<Option<String>, PathBuf>;

/// The result of a pass.
#[derive(Debug)]
pub enum Pass {
    /// Every row has its score.
    Done,
    /// Models must be called before the next pass, which needs these notes.
    Asks(Vec<GraderRequests>, File),
}

/// A row being graded.
struct OpenRow<'s> {
    test: &'s TestCase,
    replicate: u32,
    response: Response,
    note: Note,
    prompts: Vec<Prompt>,
    score: Option<ScoreRow>,
}

/// Grades all rows that can be graded, and writes the scores if that is all of them. `notes` and `answers` come from the
/// previous pass, if any.
pub async fn grade(
    rows: &BatchToGrade<'_>,
    notes: Option<File>,
    answers: &GraderResponses,
    out: &mut dyn std::io::Write,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<Pass> {
    let tests: HashMap<&str, &TestCase> =
        rows.suite.tests.iter().map(|test| (test.id.as_str(), test)).collect();
    let mut reader = RowReader::open(rows, notes, answers)?;
    let mut scorer = Scorer::default();
    let mut prompts = Prompts::new(&rows.dir);
    let mut new_notes = Notes::create()?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    loop {
        let mut window = reader.window(&tests)?;
        if window.is_empty() {
            break;
        }
        tokio::select! {
            graded = grade_window(rows, &mut scorer, &mut window) => graded?,
            _ = stop.wait_for(|stop| *stop) => return Err(interrupted().into()),
        }
        for row in window {
            match row.score {
                Some(score) if prompts.is_empty() => {
                    serde_json::to_writer(&mut out, &score)?;
                    out.write_all(b"\n").context("cannot write the scores")?;
                }
                _ => {}
            }
            for prompt in row.prompts {
                prompts.push(&row.response.id, &row.test.id, row.replicate, prompt)?;
            }
            new_notes.push(&row.note)?;
        }
    }
    out.flush().context("cannot write the scores")?;
    if prompts.is_empty() {
        return Ok(Pass::Done);
    }
    Ok(Pass::Asks(prompts.finish()?, new_notes.finish()?))
}

fn interrupted() -> Failure {
    Failure::new(Exit::Incomplete, "interrupted before all answers were graded")
        .hint("the answers are in the exchange: the same command with `--batch-id` continues from there")
}

/// Grades some rows, with all commands that they need.
async fn grade_window(
    rows: &BatchToGrade<'_>,
    scorer: &mut Scorer,
    window: &mut [OpenRow<'_>],
) -> anyhow::Result<()> {
    let most = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, MOST_COMMANDS);
    let slots = Arc::new(Semaphore::new(most));
    let mut open: Vec<usize> = (0..window.len()).collect();
    while !open.is_empty() {
        let mut running = JoinSet::new();
        for position in std::mem::take(&mut open) {
            for (place, job) in grade_row(rows, scorer, &mut window[position]) {
                let (slots, commands) = (Arc::clone(&slots), Arc::clone(&rows.commands));
                running.spawn(async move {
                    let _slot = slots.acquire_owned().await;
                    (position, place, commands.run(job).await)
                });
            }
        }
        while let Some(done) = running.join_next().await {
            let (position, place, given) = done.context("a command was lost")?;
            window[position].note.given.insert(place, given);
            if !open.contains(&position) {
                open.push(position);
            }
        }
    }
    Ok(())
}

/// Grades a row as far as possible; returns the commands that it needs to continue.
fn grade_row(
    rows: &BatchToGrade<'_>,
    scorer: &mut Scorer,
    row: &mut OpenRow<'_>,
) -> Vec<(String, CommandJob)> {
    let OpenRow { test, replicate, response, note, prompts, score } = row;
    prompts.clear();
    let mut jobs = Vec::new();
    let read = |file: &crate::model::Attachment| {
        let bytes =
            regular_file::read(rows.suite.attachments.get(&file.sha256)?, regular_file::CONTENT).ok()?;
        String::from_utf8(bytes).ok()
    };
    let question = || scoring::question(&test.messages, &test.files, read);
    let mut ask = |place: &str, need: GraderCall<'_>| -> Option<GraderReply> {
        if let Some(given) = note.given.get(place) {
            return Some(given.clone());
        }
        let place = place.to_owned();
        match need {
            GraderCall::Command { argv, cwd, input } => {
                jobs.push((place, CommandJob { argv, cwd: cwd.to_path_buf(), input }));
            }
            GraderCall::Model { system, prompt, temperature, target } => {
                let target = target.map(ToOwned::to_owned);
                prompts.push(Prompt { place, target, system, text: prompt, temperature });
            }
        }
        None
    };
    *score = scorer.row(test, *replicate, response, rows.threshold, &question, &mut ask).ok();
    note.asked = prompts.iter().map(|prompt| (prompt.place.clone(), prompt.target.clone())).collect();
    jobs
}

/// Reads rows with their notes.
struct RowReader {
    responses: std::io::Take<BufReader<File>>,
    notes: PreviousNotes,
    answers: BTreeMap<Option<String>, AnswerFile>,
    line: Vec<u8>,
}

/// The models' responses, in request order.
struct AnswerFile {
    lines: BufReader<File>,
    next: Option<Response>,
}

impl RowReader {
    fn open(rows: &BatchToGrade<'_>, notes: Option<File>, answers: &GraderResponses) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read `{}`", rows.responses.display());
        let (mut responses, _) = regular_file::open(rows.responses).with_context(cannot)?;
        responses.seek(SeekFrom::Start(rows.range.start)).with_context(cannot)?;
        let responses = BufReader::with_capacity(1 << 16, responses).take(rows.range.end - rows.range.start);
        let open = |path: &PathBuf| -> anyhow::Result<AnswerFile> {
            let file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
            Ok(AnswerFile { lines: BufReader::with_capacity(1 << 16, file), next: None })
        };
        let answers = answers
            .iter()
            .map(|(target, path)| Ok((target.clone(), open(path)?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { responses, notes: PreviousNotes::open(notes), answers, line: Vec::new() })
    }

    fn window<'s>(&mut self, tests: &HashMap<&str, &'s TestCase>) -> anyhow::Result<Vec<OpenRow<'s>>> {
        let mut window = Vec::with_capacity(WINDOW);
        while window.len() < WINDOW {
            self.line.clear();
            if self.responses.read_until(b'\n', &mut self.line).context("cannot read the responses")? == 0 {
                break;
            }
            let response: Response =
                serde_json::from_slice(&self.line).context("cannot read a row of the responses")?;
            let (test, replicate) = find_test(tests, &response.id).with_context(|| {
                format!("the answer `{}` does not belong to a test of the suite", response.id)
            })?;
            let mut note = self.notes.next()?;
            for (place, target) in std::mem::take(&mut note.asked) {
                let given = match self.answers.get_mut(&target) {
                    Some(answers) => answers.find(&request_id(&response.id, &place))?,
                    None => None,
                };
                let given = given.unwrap_or_else(|| GraderReply::Failed("it was not requested".to_owned()));
                note.given.insert(place, given);
            }
            window.push(OpenRow { test, replicate, response, note, prompts: Vec::new(), score: None });
        }
        Ok(window)
    }
}

impl AnswerFile {
    /// The response to a request, if it is the next one: failed requests are not in the file.
    fn find(&mut self, id: &str) -> anyhow::Result<Option<GraderReply>> {
        if self.next.is_none() {
            let mut line = Vec::new();
            if self.lines.read_until(b'\n', &mut line).context("cannot read the grades")? > 0 {
                self.next = Some(serde_json::from_slice(&line).context("cannot read a row of the grades")?);
            }
        }
        let Some(row) = self.next.take_if(|row| row.id == id) else { return Ok(None) };
        Ok(Some(match (row.error, row.output) {
            (Some(error), _) => GraderReply::Failed(format!("{}: {}", error.kind.as_str(), error.message)),
            (None, Some(turns)) => {
                let last = turns.into_iter().rev().find(|turn| turn.role == "assistant");
                GraderReply::Text(last.map(|turn| turn.content).unwrap_or_default())
            }
            (None, None) => GraderReply::Failed("it has no response".to_owned()),
        }))
    }
}

/// The test and the replicate of a request.
pub(in crate::engine) fn find_test<'s>(
    tests: &HashMap<&str, &'s TestCase>,
    id: &str,
) -> Option<(&'s TestCase, u32)> {
    if let Some(test) = tests.get(id) {
        return Some((test, 1));
    }
    let (test, replicate) = id.rsplit_once('#')?;
    Some((tests.get(test)?, replicate.parse().ok()?))
}
