//! Real power cuts while the service works: an accepted job is known and completes, paid and synced answers are
//! not paid again, and the next request is served.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http;
use super::service::{OURS, Service, bearer, job_headers};
use crate::evaluate::stage::{CASES, LIBRARY, SKILL, Stage};
use crate::support::github::MockGithub;
use crate::support::power::{Disk, power_cuts, show};
use crate::support::{MockLlm, Workspace};

const REPLICATES: u32 = 6;
/// Calls of the interrupted job: each case and replicate on three models.
const CALLS: u64 = CASES * REPLICATES as u64 * 3;
const AT_ONCE: u64 = 8;
/// An answer this old has been synced: the journal's interval, plus the time that a busy machine needs for a sync.
const SYNCED_AFTER: Duration = Duration::from_millis(250 + 1000);
const OPTIONS: [&str; 5] = ["--max-concurrency", "8", "--report-failures", "none", "--resume-jobs"];

/// Clones and state on a disk; the library has moved on since it was cloned.
fn stage(disk: &Disk) -> (Stage, MockLlm) {
    let workspace = Workspace::within(&disk.path());
    std::fs::create_dir(workspace.path("tmp")).unwrap();
    let temporary = workspace.path("tmp");
    let stage = Stage::within(MockGithub::start(), workspace.env("TMPDIR", temporary.to_str().unwrap()));
    stage.push(|dir| {
        for note in 0..40 {
            std::fs::write(dir.join(format!("note-{note}.md")), "new\n".repeat(note + 1)).unwrap();
        }
        std::fs::remove_file(dir.join("README.md")).unwrap();
    });
    let llm = stage.gateway(&["--latency-ms", "40", "--jitter-ms", "20"]);
    disk.sync();
    (stage, llm)
}

/// Requests the evaluation in the background and sends the job once it is accepted.
fn submit(service: &Service) -> std::sync::mpsc::Receiver<String> {
    let (send, receive) = channel();
    let body = json!({"skill_name": SKILL, "replicates": REPLICATES}).to_string();
    let address = service.address.clone();
    std::thread::spawn(move || {
        let bearer = bearer(OURS);
        let request = http::request("POST", "/evaluate", &job_headers(&bearer), body.as_bytes());
        let answer = http::send(&address, &request).filter(|answer| answer.status == 202);
        let id = answer.and_then(|answer| Some(answer.json()["job_id"].as_str()?.to_owned()));
        // The test may have ended.
        id.map(|id| send.send(id));
    });
    receive
}

fn state(job: &Value) -> &str {
    job["state"].as_str().unwrap()
}

fn cut_and_resume(disk: &Disk, seed: u64, longest: Duration) -> Result<u64, String> {
    let (stage, llm) = stage(disk);
    let service = Service::start(&stage, &OPTIONS);
    let accepted = submit(&service);
    let until = Instant::now() + longest.mul_f64(fastrand::Rng::with_seed(seed).f64());
    let mut answers = Vec::new();
    while Instant::now() < until {
        answers.push((Instant::now(), llm.counter("ok")));
        std::thread::sleep(Duration::from_millis(5));
    }
    let at = Instant::now();
    let accepted = accepted.try_recv().ok();
    service.cut(disk);
    let synced = answers.iter().rev().find(|(time, _)| at.duration_since(*time) > SYNCED_AFTER);
    let synced = synced.map_or(0, |(_, answers)| *answers);
    let before = llm.counter("ok");

    let service = Service::start(&stage, &OPTIONS);
    // It may have been recorded without a response; then it continues by itself.
    let known = || service.get("/jobs").expect(200)["jobs"][0]["job_id"].as_str().map(ToOwned::to_owned);
    let id = if let Some(id) = accepted.or_else(known) {
        id
    } else {
        let answer = service.submit(&json!({"skill_name": SKILL, "replicates": REPLICATES}));
        if answer.status != 202 {
            return Err(format!("stuck: {} {}", answer.status, answer.json()));
        }
        answer.json()["job_id"].as_str().unwrap().to_owned()
    };
    let answer = service.get(&format!("/jobs/{id}"));
    if answer.status != 200 {
        return Err(format!("lost: the job {id} is not known: {}", answer.json()));
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    let job = loop {
        let job = service.job(&id);
        // A job that is interrupted at the start waits for its turn.
        if ["completed", "failed"].contains(&state(&job)) {
            break job;
        }
        if Instant::now() > deadline {
            return Err(format!("stuck: {job}\n{}", service.stderr()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if state(&job) != "completed" {
        return Err(format!("lost: {job}"));
    }
    let Some(branch) = job["summary"]["branch"].as_str() else { return Err(format!("no branch: {job}")) };
    let there = stage.github.git(LIBRARY, &["branch", "--list", "--format=%(refname:short)", branch]);
    let pulls = stage.github.pulls();
    if there != branch || pulls.len() != 1 || pulls[0].head != branch {
        return Err(format!("`{branch}` is reported, and GitHub has {there:?} and {pulls:?}"));
    }
    let twice = llm.counter("ok").saturating_sub(CALLS);
    let most = AT_ONCE + before - synced;
    if twice > most {
        return Err(format!(
            "lost: {twice} calls were paid twice, {most} at most ({before} paid, {synced} synced)"
        ));
    }
    let next = service.submit(&json!({"skill_name": SKILL, "replicates": 1}));
    if next.status != 202 {
        return Err(format!("stuck: the next request was answered {}: {}", next.status, next.json()));
    }
    let next = next.json()["job_id"].as_str().unwrap().to_owned();
    service.ended(&next, "completed");
    Ok(twice)
}

#[test]
fn after_a_power_cut_every_accepted_job_completes_and_the_next_request_is_served() {
    let name = "after_a_power_cut_every_accepted_job_completes_and_the_next_request_is_served";
    let Some((disk, seeds)) = power_cuts(name, 2) else { return };
    let (undisturbed, llm) = stage(&disk);
    let service = Service::start(&undisturbed, &OPTIONS);
    let started = Instant::now();
    service.ended(&service.accepted(REPLICATES), "completed");
    let longest = started.elapsed().mul_f64(1.1);
    assert_eq!(llm.counter("ok"), CALLS);
    drop((service, undisturbed, llm));
    let count = seeds.clone().count();
    let (mut failed, mut twice) = (Vec::new(), 0);
    for seed in seeds {
        match cut_and_resume(&disk, seed, longest) {
            Ok(again) => twice += again,
            Err(why) => failed.push(format!("seed {seed}: {why}")),
        }
    }
    show(&format!("{count} power cuts: {twice} calls paid twice"));
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}
