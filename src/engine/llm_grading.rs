//! LLM grading: the prompts of LLM graders are a second batch, on the same path as the first.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::RunLimits;
use super::batch::{self, BatchName, PlannedBatch, Purpose, served_by};
use super::collect::collect;
use super::execution::{Execution, ToGrade};
use super::grade::GraderRequests;
use super::options::AskAgain;
use super::remote::DispatchRecord;
use super::rows::BatchIdentity;
use super::shards::Sharding;
use super::target_identity::identity;
use crate::config::{Env, TargetsFile};
use crate::exchange::LocalExchange;
use crate::model::{
    BatchId, Digest, Exit, Failure, GraderKind, Request, Response, RunnerTarget, Suite, Target,
};
use crate::protocol::Stop;
use crate::report::{GraderUse, TargetSummary};
use crate::runner;
use crate::util::durable;

/// The folder of an exchange that records which target answered each batch of grades.
const GRADERS: &str = "graders";

/// The grader targets: for each target of the answers and each target name of a grader.
#[derive(Default)]
pub(super) struct Graders(BTreeMap<(String, Option<String>), (Target, Sharding)>);

impl Graders {
    /// Resolves all targets that the suite's graders need, before the first call.
    pub(super) fn find(
        suite: &Suite,
        targets: &[(&str, &Target)],
        of_command: Option<&str>,
        file: &TargetsFile,
        limits: &RunLimits,
        env: &Env,
    ) -> anyhow::Result<Self> {
        let mut graders = Self::default();
        for name in names(suite) {
            for (asked, target) in targets {
                let own = file.grader_of(asked, env)?;
                let chosen = name.as_deref().or(of_command).or(own.as_deref());
                let mut grader = match chosen {
                    None => (*target).clone(),
                    Some(name) => find_one(name, target, file, env)?,
                };
                let sharding = match &mut grader {
                    Target::Runner(grader) => {
                        limits.apply(grader);
                        runner::check_budget(grader, limits.budget_usd.or(suite.budget_usd))?;
                        Sharding::one()
                    }
                    Target::Remote(grader) => {
                        let limits = grader.target.as_deref().and_then(|name| file.limits(name, env));
                        Sharding { shards: grader.shards, limits }
                    }
                };
                graders.0.insert((target.name().to_owned(), name.clone()), (grader, sharding));
            }
        }
        Ok(graders)
    }

    /// Whether the suite has LLM graders.
    pub(super) fn are_needed(suite: &Suite) -> bool {
        !names(suite).is_empty()
    }

    /// The target whose responses are graded. Its key is needed only if it grades its own responses.
    pub(super) fn target_under_test(
        suite: &Suite,
        name: &str,
        of_command: Option<&str>,
        file: &TargetsFile,
        env: &Env,
    ) -> Result<Target, Failure> {
        let leaves_it_open = names(suite).contains(&None);
        let grades_itself = leaves_it_open && of_command.is_none() && file.grader_of(name, env)?.is_none();
        let without_keys = (!grades_itself).then(|| file.resolve_without_keys(name, env)).flatten();
        without_keys.map_or_else(|| file.resolve(name, env), Ok)
    }

    /// Whether no model grades.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is a runner repository.
    pub(super) fn any_remote(&self) -> bool {
        self.0.values().any(|(target, _)| matches!(target, Target::Remote(_)))
    }
}

/// The target with this name: from the file, or from the runner repository that the answers come from.
fn find_one(name: &str, answers: &Target, file: &TargetsFile, env: &Env) -> Result<Target, Failure> {
    let Target::Remote(repository) = answers else {
        return file.resolve(name, env).map_err(|failure| {
            let hint = failure.hint_text().unwrap_or_default().to_owned();
            failure.hint(format!("`{name}` grades the answers (`grader_target`); {hint}"))
        });
    };
    if let Some(other @ Target::Remote(_)) = file.resolve_without_keys(name, env) {
        return Ok(other);
    }
    let mut repository = repository.clone();
    repository.target = Some(name.to_owned());
    Ok(Target::Remote(repository))
}

/// The target names of the suite's graders: `None` for those that use the default.
fn names(suite: &Suite) -> Vec<Option<String>> {
    let mut names: Vec<Option<String>> = Vec::new();
    let mut add = |name: Option<String>| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for test in &suite.tests {
        if test.grading.graders.is_empty() {
            add(None);
        }
        for grader in &test.grading.graders {
            grader.each(&mut |grader| match &grader.kind {
                GraderKind::Llm(llm) => add(llm.target.clone()),
                GraderKind::Composite { aggregator: crate::model::Aggregator::Llm { .. }, .. } => add(None),
                _ => {}
            });
        }
    }
    names
}

/// The name of a batch of grades: `<id>-g`, then `<id>-g2`, …
pub(super) fn batch_name(id: &BatchId, number: u32) -> Result<BatchId, Failure> {
    let name = if number == 1 { format!("{id}-g") } else { format!("{id}-g{number}") };
    name.parse().map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot name the batch of grades `{name}`: {error}"))
            .hint("choose a shorter `--batch-id`")
    })
}

/// The graders' responses so far, by request digest.
struct KnownGrades {
    file: File,
    places: HashMap<u128, (u64, usize)>,
    length: u64,
}

impl Execution {
    /// Runs the requests of LLM graders, and writes the responses in the same order. Requests that the same target has already
    /// answered for these responses are called again only on request.
    pub(super) async fn ask_graders(
        &mut self,
        graders: &Graders,
        batch: &ToGrade,
        asked: &GraderRequests,
        to: &Path,
        used: &mut GraderUse,
    ) -> anyhow::Result<()> {
        let key = (batch.target.clone(), asked.target.clone());
        let (target, sharding) = graders.0.get(&key).context("no target grades")?;
        let ids = (&batch.batch_id, &batch.run_id);
        self.ask(target, *sharding, ids, &asked.requests, to, used).await?;
        Ok(())
    }

    /// The same for one target that is called from here, for the responses of a batch. Returns why it ended early, if it did.
    pub async fn ask_grader(
        &mut self,
        target: &RunnerTarget,
        batch: &BatchId,
        requests: &Path,
        to: &Path,
        used: &mut GraderUse,
    ) -> anyhow::Result<Option<Stop>> {
        let target = Target::Runner(Box::new(target.clone()));
        self.ask(&target, Sharding::one(), (batch, batch), requests, to, used).await
    }

    async fn ask(
        &mut self,
        target: &Target,
        sharding: Sharding,
        (batch, run_id): (&BatchId, &BatchId),
        requests: &Path,
        to: &Path,
        used: &mut GraderUse,
    ) -> anyhow::Result<Option<Stop>> {
        let purpose = Purpose { target: served_by(target), label: target.name(), sharding };
        let mut known = KnownGrades::new()?;
        let mut remaining = requests.to_path_buf();
        let mut number = 1;
        let mut stopped = None;
        let free = loop {
            let id = batch_name(batch, number)?;
            let Some(there) = digest_of(&self.exchange, &id)? else { break id };
            if is_by(&self.exchange, &id, target)? {
                let (mut rows, known_there) = (tempfile::tempfile()?, known_of(&self.exchange, &id)?);
                let earlier = collect(&self.exchange, &id, known_there.as_ref(), &mut rows)?;
                let planned =
                    if is_empty(&remaining)? { None } else { Some(plan(&remaining, purpose, &id)?) };
                match planned.filter(|planned| planned.sha256 == there) {
                    // It was interrupted, or its failures are transient.
                    Some(planned) if earlier.resumable || earlier.missing > 0 => {
                        let (summary, stop) = self.run_grades(planned, target, run_id, &mut known).await?;
                        used.add(&summary);
                        stopped = stopped.or(stop);
                    }
                    _ => {
                        known.add(rows)?;
                        if !used.batches.contains(&id) {
                            used.add(&earlier.summary);
                        }
                    }
                }
                remaining = known.without(&remaining, &to.with_extension(format!("asked-{number}")))?;
            }
            number += 1;
        };
        let again = known.forget(requests, &self.ask_again)?;
        if again > 0 {
            remaining = known.without(requests, &to.with_extension("asked-again"))?;
        }
        if stopped.is_none() && !is_empty(&remaining)? {
            note_grader(&self.exchange, &free, target)?;
            let planned = plan(&remaining, purpose, &free)?;
            let note = format!("`{}` grades: {} requests", target.name(), planned.manifest.requests);
            self.observer.note(&note);
            let (summary, stop) = self.run_grades(planned, target, run_id, &mut known).await?;
            used.add(&summary);
            stopped = stop;
        }
        known.write(requests, to)?;
        Ok(stopped)
    }

    async fn run_grades(
        &mut self,
        planned: PlannedBatch,
        target: &Target,
        run_id: &BatchId,
        known: &mut KnownGrades,
    ) -> anyhow::Result<(TargetSummary, Option<Stop>)> {
        let mut stored = self.store_named(&planned, target.clone())?;
        // The command that resumes it is that of the responses.
        stored.run_id = run_id.clone();
        let mut rows = tempfile::tempfile().context("cannot create a temporary file")?;
        let collected = Box::pin(self.run(stored, &mut rows)).await?;
        known.add(rows)?;
        Ok((collected.collection.summary, collected.stopped))
    }
}

/// Plans the batch of these requests.
fn plan(requests: &Path, purpose: Purpose<'_>, id: &BatchId) -> anyhow::Result<PlannedBatch> {
    let name = BatchName { given: Some(id.clone()), one_of_several: false, taken: 0 };
    batch::plan_requests(requests, None, purpose, &name)
}

fn is_empty(requests: &Path) -> anyhow::Result<bool> {
    Ok(std::fs::metadata(requests)?.len() == 0)
}

/// Records which target answers a batch of grades, before it is stored: another model is called again.
fn note_grader(exchange: &LocalExchange, id: &BatchId, target: &Target) -> anyhow::Result<()> {
    let path = grader_file(exchange, id);
    let cannot = || format!("cannot write `{}`", path.display());
    durable::create_dir_all(&exchange.path().join(GRADERS)).with_context(cannot)?;
    durable::write(&path, identity(target).to_string().as_bytes()).with_context(cannot)
}

/// Whether a batch of grades was answered by this target with its current settings.
fn is_by(exchange: &LocalExchange, id: &BatchId, target: &Target) -> anyhow::Result<bool> {
    let path = grader_file(exchange, id);
    match std::fs::read_to_string(&path) {
        Ok(there) => Ok(there == identity(target).to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn grader_file(exchange: &LocalExchange, id: &BatchId) -> PathBuf {
    exchange.path().join(GRADERS).join(id.as_str())
}

/// The digest of the batch with this id.
fn digest_of(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<Option<Digest>> {
    if let Some(record) = DispatchRecord::read(exchange, id)? {
        return Ok(Some(record.batch_sha256));
    }
    if let Some((collected, _)) = exchange.collected(id)? {
        return Ok(Some(collected.batch_sha256));
    }
    if let Some(manifest) = exchange.results_manifest(id)? {
        return Ok(Some(manifest.batch_sha256));
    }
    exchange.batch_digest(id)
}

fn known_of(exchange: &LocalExchange, id: &BatchId) -> anyhow::Result<Option<BatchIdentity>> {
    Ok(DispatchRecord::read(exchange, id)?.map(|record| record.known()))
}

impl KnownGrades {
    fn new() -> anyhow::Result<Self> {
        let file = tempfile::tempfile().context("cannot create a temporary file")?;
        Ok(Self { file, places: HashMap::new(), length: 0 })
    }

    /// Adds rows; a failure never replaces a response.
    fn add(&mut self, mut rows: File) -> anyhow::Result<()> {
        use std::io::Seek as _;
        rows.rewind()?;
        let mut out = BufWriter::with_capacity(1 << 16, self.file.try_clone()?);
        for line in BufReader::with_capacity(1 << 16, rows).split(b'\n') {
            let line = line.context("cannot read the grades")?;
            let row: Response = serde_json::from_slice(&line).context("cannot read a row of the grades")?;
            let half = row.request_sha256.half();
            if row.error.is_none() || !self.places.contains_key(&half) {
                self.places.insert(half, (self.length, line.len()));
            }
            out.write_all(&line).context("cannot write the grades")?;
            self.length += line.len() as u64;
        }
        out.flush().context("cannot write the grades")
    }

    /// The row of a request.
    fn row(&self, request: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let Some((offset, length)) = self.places.get(&Digest::of(request).half()) else { return Ok(None) };
        let mut row = vec![0; *length];
        self.file.read_exact_at(&mut row, *offset).context("cannot read the grades")?;
        Ok(Some(row))
    }

    /// Drops the rows of requests that are called again; returns their number.
    fn forget(&mut self, requests: &Path, again: &AskAgain) -> anyhow::Result<u64> {
        let mut forgotten = 0;
        if matches!(again, AskAgain::Nothing) {
            return Ok(forgotten);
        }
        for line in BufReader::new(File::open(requests)?).split(b'\n') {
            let line = line?;
            let request = Request::from_line(&line).map_err(|error| error.in_batch(1))?;
            if again.is_about(&request.metadata.test_id) {
                self.places.remove(&Digest::of(&line).half());
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// The requests of a file without a response, as another file.
    fn without(&self, requests: &Path, to: &Path) -> anyhow::Result<PathBuf> {
        let mut out = BufWriter::new(File::create(to)?);
        for line in BufReader::new(File::open(requests)?).split(b'\n') {
            let line = line?;
            let is_answered = match self.row(&line)? {
                Some(row) => serde_json::from_slice::<Response>(&row)?.error.is_none(),
                None => false,
            };
            if !is_answered {
                out.write_all(&line)
                    .and_then(|()| out.write_all(b"\n"))
                    .context("cannot write the requests")?;
            }
        }
        out.flush().context("cannot write the requests")?;
        Ok(to.to_path_buf())
    }

    /// Writes the rows of these requests, in their order.
    fn write(&self, requests: &Path, to: &Path) -> anyhow::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(to)?);
        for line in BufReader::new(File::open(requests)?).split(b'\n') {
            if let Some(row) = self.row(&line?)? {
                out.write_all(&row).and_then(|()| out.write_all(b"\n")).context("cannot write the grades")?;
            }
        }
        out.flush().context("cannot write the grades")
    }
}
