//! After a power cut nothing is lost or stuck: `eval` is interrupted at random moments, and the same command resumes.
//!
//! What may be paid twice: the calls in flight, and the answers since the last sync of the journal, which is synced
//! four times a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::power::{Disk, power_cuts, show};
use crate::support::{MockLlm, Workspace};

const REQUESTS: usize = 800;
const CONCURRENCY: usize = 16;
/// An answer this old has been synced: the journal's interval, plus the time that a busy machine needs for a sync.
const SYNCED_AFTER: Duration = Duration::from_millis(250 + 1000);
const COMMAND: [&str; 10] =
    ["eval", "suite.eval.yaml", "--target", "llm", "--output", "out", "--no-grade", "-q", "--batch-id", "b1"];

/// A workspace on a disk whose power can be cut.
struct PoweredRun<'d> {
    disk: &'d Disk,
    llm: MockLlm,
    workspace: Workspace,
}

impl<'d> PoweredRun<'d> {
    fn new(disk: &'d Disk) -> Self {
        let llm = MockLlm::start(&["--latency-ms", "30", "--jitter-ms", "10"]);
        let workspace = Workspace::within(&disk.path());
        std::fs::create_dir(workspace.path("tmp")).unwrap();
        let temporary = workspace.path("tmp");
        let workspace = workspace.env("TMPDIR", temporary.to_str().unwrap());
        workspace.write_target(&llm.base_url(), &format!("max_concurrency: {CONCURRENCY}"));
        let mut suite = "tests:\n".to_owned();
        for i in 0..REQUESTS {
            writeln!(suite, "  - {{ id: r{i}, input: message {i}, criteria: y }}").unwrap();
        }
        workspace.write("suite.eval.yaml", suite);
        disk.sync();
        Self { disk, llm, workspace }
    }

    fn start(&self) -> Child {
        let mut command = self.workspace.command(&COMMAND);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs until the power cut, or to the end.
    fn run_until(&self, moment: Moment) -> Cut {
        let mut child = self.start();
        let started = Instant::now();
        let mut answers = Vec::new();
        let mut all_answered = None;
        let mut ended = None;
        loop {
            let (now, count) = (Instant::now(), self.llm.counter("ok"));
            answers.push((now, count));
            if count >= REQUESTS as u64 {
                all_answered.get_or_insert(now);
            }
            let is_now = match moment {
                Moment::Start(wait) => started.elapsed() >= wait,
                Moment::Answers(most) => count >= most,
                Moment::AllAnswered(wait) => all_answered.is_some_and(|since| since.elapsed() >= wait),
            };
            ended = ended.or(child.try_wait().unwrap());
            if is_now || ended.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let at = Instant::now();
        self.disk.cut(&mut child);
        let synced = answers.iter().rev().find(|(time, _)| at.duration_since(*time) > SYNCED_AFTER);
        Cut { synced: synced.map_or(0, |(_, answers)| *answers), finished: ended }
    }

    /// The messages whose answers are complete in the journal.
    fn journaled(&self) -> BTreeSet<String> {
        let journal = self.workspace.path(".run-evals/exchange.git/journal/b1/shard-000.jsonl");
        let bytes = std::fs::read(journal).unwrap_or_default();
        let rows = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let rows = rows.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        rows.filter_map(|row| Some(row["output"][0]["content"].as_str()?.to_owned())).collect()
    }

    fn check_all_answered(&self) {
        let rows = self.workspace.rows("out/responses.jsonl");
        assert_eq!(rows.len(), REQUESTS);
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(row["id"], format!("r{i}"));
            assert_eq!(row["output"][0]["content"], format!("message {i}"), "{row}");
        }
    }
}

/// When the power is cut.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// While the batch is planned and written to the exchange, or shortly after.
    Start(Duration),
    /// While calls are made.
    Answers(u64),
    /// While the batch is published, collected and deleted.
    AllAnswered(Duration),
}

impl Moment {
    fn of(seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        match dice.u32(0..10) {
            0..2 => Self::Start(Duration::from_micros(dice.u64(0..300_000))),
            2..7 => Self::Answers(dice.u64(0..REQUESTS as u64)),
            _ => Self::AllAnswered(Duration::from_micros(dice.u64(0..400_000))),
        }
    }
}

/// A power cut.
struct Cut {
    /// How many answers were old enough to be synced.
    synced: u64,
    /// The exit status of the command, if it had ended.
    finished: Option<std::process::ExitStatus>,
}

fn cut_and_resume(disk: &Disk, moment: Moment) -> Result<(u64, bool), String> {
    let stage = PoweredRun::new(disk);
    let cut = stage.run_until(moment);
    let journaled = stage.journaled();
    if cut.finished.is_some_and(|status| status.success()) {
        // The command has reported success: the responses exist without another run.
        stage.check_all_answered();
    } else if (journaled.len() as u64) < cut.synced {
        return Err(format!("lost: {} answers were synced, {} are there", cut.synced, journaled.len()));
    }
    let paid = stage.llm.counter("ok");
    let output = stage.workspace.run(&COMMAND);
    if output.code != Some(0) {
        return Err(format!("stuck: exit code {:?}: {}", output.code, output.stderr));
    }
    stage.check_all_answered();
    let served: BTreeMap<String, u64> = stage.llm.served();
    let again: Vec<&String> = journaled.iter().filter(|message| served[*message] != 1).collect();
    if !again.is_empty() {
        return Err(format!("lost: {} answers in the journal were paid twice: {again:?}", again.len()));
    }
    let twice = served.values().sum::<u64>() - REQUESTS as u64;
    let most = CONCURRENCY as u64 + paid - cut.synced;
    if twice > most {
        return Err(format!("lost: {twice} answers were paid twice, {most} at most"));
    }
    let calls = stage.llm.counter("requests");
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    stage.check_all_answered();
    stage.workspace.run(&COMMAND).expect(0);
    assert_eq!(stage.llm.counter("requests"), calls, "a finished batch is paid again");
    Ok((twice, cut.finished.is_some()))
}

#[test]
fn after_a_power_cut_the_same_command_finishes_without_paying_for_synced_answers_again() {
    let name = "after_a_power_cut_the_same_command_finishes_without_paying_for_synced_answers_again";
    let Some((disk, seeds)) = power_cuts(name, 4) else { return };
    let count = seeds.clone().count();
    let (mut failed, mut twice, mut finished) = (Vec::new(), 0, 0);
    for seed in seeds {
        match cut_and_resume(&disk, Moment::of(seed)) {
            Ok((again, had_ended)) => {
                twice += again;
                finished += u64::from(had_ended);
            }
            Err(why) => failed.push(format!("seed {seed}, {:?}: {why}", Moment::of(seed))),
        }
    }
    show(&format!("{count} power cuts, {finished} of them after the end: {twice} answers paid twice"));
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}
