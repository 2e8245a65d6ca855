//! A service with content: benchmarks from real repositories, a leaderboard with its history, jobs and runs.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use run_evals::testing::Leaderboard;
use serde_json::{Value, json};

use super::visitor::Visitor;
use crate::support::{Server, Workspace};

/// A valid token.
pub(crate) const TOKEN: &str = "c0ffee00c0ffee00c0ffee00c0ffee00";

/// A directory with everything in it.
pub(crate) struct Scene {
    pub(crate) workspace: Workspace,
}

/// A running service.
pub(crate) struct Studio(Server);

impl Scene {
    pub(crate) fn new() -> Self {
        let scene = Self { workspace: Workspace::new() };
        scene.write_tokens(TOKEN);
        scene.workspace.write("benchmarks.yaml", "benchmarks: []\n");
        scene
    }

    pub(crate) fn write_tokens(&self, text: &str) {
        self.workspace.write_private("tokens", text);
    }

    /// A repository with a first commit.
    pub(crate) fn upstream(&self, name: &str) -> String {
        let dir = self.workspace.path(&format!("up/{name}"));
        std::fs::create_dir_all(&dir).unwrap();
        git(&dir, &["init", "--quiet", "--initial-branch=main", "."]);
        self.commit(name, "first")
    }

    /// Adds a commit and returns its SHA.
    pub(crate) fn commit(&self, name: &str, text: &str) -> String {
        self.workspace.write(&format!("up/{name}/EVAL.yaml"), text);
        let dir = self.workspace.path(&format!("up/{name}"));
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "--quiet", "--message", text]);
        git(&dir, &["rev-parse", "HEAD"])
    }

    /// The registry: an id and a name each, and whether it comes from `up/<id>`.
    pub(crate) fn registry(&self, benchmarks: &[(&str, &str, bool)]) {
        let entries: Vec<Value> = benchmarks
            .iter()
            .map(|(id, name, from_git)| {
                let mut entry =
                    json!({"id": id, "name": name, "path": self.workspace.path(&format!("benchmarks/{id}"))});
                if *from_git {
                    entry["source"] = json!({"url": self.workspace.path(&format!("up/{id}")), "ref": "main"});
                }
                entry
            })
            .collect();
        self.workspace.write("benchmarks.yaml", json!({"benchmarks": entries}).to_string());
    }

    /// A library with this many commits, and the leaderboard of these skills and models at each of them.
    pub(crate) fn leaderboard(&self, skills: &[String], models: &[String], commits: usize) -> Value {
        let library = self.workspace.path("library");
        std::fs::create_dir_all(&library).unwrap();
        git(&library, &["init", "--quiet", "--initial-branch=main", "."]);
        let commits: Vec<String> = (0..commits)
            .map(|number| {
                let date = format!("2026-{:02}-{:02}T08:00:00Z", 1 + number / 28, 1 + number % 28);
                self.workspace.write("library/prompt.md", number.to_string());
                git(&library, &["add", "."]);
                let message = number.to_string();
                run(
                    Command::new("git")
                        .args(["commit", "--quiet", "--message", &message])
                        .env("GIT_COMMITTER_DATE", &date),
                    &library,
                );
                git(&library, &["rev-parse", "HEAD"])
            })
            .collect();
        let mut entries = Vec::new();
        for (place, skill) in skills.iter().enumerate() {
            for (number, model) in models.iter().enumerate() {
                for (step, commit) in commits.iter().enumerate() {
                    let right = 200 + (place * 17 + number * 29 + step * 3) % 160;
                    entries.push(entry(
                        skill,
                        &format!("1.{step}.0"),
                        commit,
                        model,
                        u32::try_from(right).unwrap(),
                    ));
                }
            }
        }
        let unsorted = json!({"schema_version": 1, "entries": entries, "absent": []});
        let mut board = Leaderboard::empty();
        for entry in unsorted["entries"].as_array().unwrap() {
            board.insert(serde_json::from_value(entry.clone()).unwrap());
        }
        self.workspace.write("library/leaderboard.json", board.to_bytes());
        unsorted
    }

    /// The journal of service jobs, as a service leaves it.
    pub(crate) fn jobs(&self, jobs: &[Value]) {
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        self.workspace.write("state/jobs.jsonl", lines);
    }

    pub(crate) fn start(&self, more: &[&str]) -> Studio {
        self.start_at("127.0.0.1:0", more)
    }

    pub(crate) fn start_at(&self, address: &str, more: &[&str]) -> Studio {
        let args = [
            "serve",
            "--studio",
            "--listen",
            address,
            "--auth-token-file",
            "tokens",
            "--state",
            "state",
            "--registry",
            "benchmarks.yaml",
            "--allow-local",
            "--leaderboard",
            "library/leaderboard.json",
            "--runs",
            "runs",
        ];
        std::fs::create_dir_all(self.workspace.path("runs")).unwrap();
        Studio::spawn(&self.workspace, &[&args[..], more].concat())
    }
}

impl Studio {
    pub(crate) fn spawn(workspace: &Workspace, args: &[&str]) -> Self {
        Self(Server::start(&mut workspace.command(args)))
    }

    /// A visitor without a session.
    pub(crate) fn stranger(&self) -> Visitor {
        Visitor::new(&self.address)
    }

    /// A visitor with a session.
    pub(crate) fn visitor(&self) -> Visitor {
        let mut visitor = self.stranger();
        visitor.sign_in(TOKEN).expect(303);
        visitor
    }
}

impl Deref for Studio {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

/// A job of the journal in this state.
pub(crate) fn job(number: usize, skill: &str, state: &Value) -> Value {
    let mut job = json!({
        "job_id": format!("job-20261117t1200{number:02}z-{number:08x}"),
        "order": {"skill": skill, "replicates": 10, "git_sha": null},
        "started_at": "2026-11-17T12:00:00Z", "finished_at": "2026-11-17T12:03:05Z",
    });
    job.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    job
}

/// A consistent entry: this many of 360 fields are right.
pub(crate) fn entry(skill: &str, version: &str, commit: &str, model: &str, right: u32) -> Value {
    let share =
        |part: u32, whole: u32| (f64::from(part) / f64::from(whole) * 10_000.0).round_ties_even() / 10_000.0;
    let around =
        |share: f64| [((share - 0.04) * 1e4).round() / 1e4, ((share + 0.03).min(1.0) * 1e4).round() / 1e4];
    let (accuracy, alike) = (share(right, 360), share(342, 360));
    let digest = |letter: &str| letter.repeat(64);
    let cases: Vec<Value> = (0..12)
        .map(|case| json!({"case": format!("case-{case:02}"), "accuracy": accuracy, "reproducibility": alike, "ok": 10, "errors": 0}))
        .collect();
    json!({
        "skill": skill, "skill_version": version, "prompt_commit": commit, "prompt_sha256": digest("a"),
        "prompt_body_sha256": digest("b"), "dataset_commit": null, "cases_sha256": digest("c"), "model": model,
        "alias_target": null,
        "params": {"temperature": 0.0, "max_tokens": null, "seed": null, "structured_output": "json_schema"},
        "replicates": 10, "scorer_version": 1, "cases": {"total": 12, "run": 12, "skipped": []},
        "calls": {"attempted": 120, "ok": 120, "api_error": 0, "parse_error": 0, "truncated": 0},
        "schema_valid": {"n": 120, "of": 120, "rate": 1.0},
        "accuracy": {
            "score": accuracy, "interval": around(accuracy), "n_correct": right, "n_incorrect": 360 - right, "n_missing": 0,
            "n_hallucinated": 0, "n_correct_absent": 0,
        },
        "reproducibility": {
            "score": alike, "interval": around(alike), "fields_probed": 360, "fields_full_agreement": 342,
            "exact_output_rate": 0.5,
        },
        "tokens": {"prompt": 12000, "completion": 3400}, "per_case": cases,
    })
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    run(Command::new("git").args(args), dir)
}

fn run(command: &mut Command, dir: &Path) -> String {
    let who = [("NAME", "Ann"), ("EMAIL", "ann@example.org")];
    for (what, value) in who {
        command.env(format!("GIT_AUTHOR_{what}"), value).env(format!("GIT_COMMITTER_{what}"), value);
    }
    let output = command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
