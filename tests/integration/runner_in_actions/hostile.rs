//! Batches and senders that violate the owner's policy: rejected with a clear message, and no call is made.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use insta::assert_snapshot;
use run_evals::testing::Handover;
use run_evals::testing::LocalExchange;
use run_evals::testing::Remote;
use run_evals::testing::{Digest, Secret};
use serde_json::{Value, json};
use tar::EntryType;

use crate::support::Forgery;
use crate::support::github::TOKEN;

use super::stage::{KEY, REPO, Stage, batch, errors, exit_codes, inline, only_job, warnings};

fn request(more: &Value) -> Value {
    let mut request = json!({"id": "a", "messages": [{"role": "user", "content": "hello"}]});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

fn refused_request(more: &Value) -> String {
    Stage::new().refused(&inline(&Forgery::of(&[request(more)]).pack(), 1))
}

#[test]
fn a_request_cannot_choose_host_key_or_model() {
    assert_snapshot!(refused_request(&json!({"base_url": "https://evil.example/v1"})), @r"
    invalid batch: `requests.jsonl` line 1, column 67: unknown field `base_url`, expected one of `id`, `messages`, `params`, `tools`, `files`, `metadata`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(&json!({"params": {"api_key": "${{ OTHER_SECRET }}"}})), @r"
    invalid batch: `requests.jsonl` line 1, column 76: unknown field `api_key`, expected one of `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `reasoning_effort`, `response_format`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(&json!({"params": {"model": "expensive"}})), @r"
    invalid batch: `requests.jsonl` line 1: the request selects the model `expensive`

    hint: target `llm` allows its own model, and those that its `allow_models` lists
    ");
}

#[test]
fn an_entry_that_leaves_the_archive() {
    let archive = Forgery::of(&[request(&json!({}))]).entry("../../x", EntryType::Regular, b"pwned").pack();
    assert_snapshot!(Stage::new().refused(&inline(&archive, 1)), @r"
    the batch `b1` has the illegal entry `../../x`: a path out of the archive

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn too_many_requests() {
    let stage = Stage::new();
    let lies = Forgery::of(&[request(&json!({}))]).set("requests", 10_000_000).pack();
    assert_snapshot!(stage.refused(&inline(&lies, 1)), @r"
    the batch `b1` has an invalid `manifest.json`: `requests` is 10000000, expected at most 5000000

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    stage.policy("max_requests: 5\n");
    assert_snapshot!(stage.refused(&inline(&batch(6, 1), 1)), @r"
    the batch has 6 requests, and 5 are allowed

    hint: split it, or raise `max_requests` in `.run-evals.yml` of the runner repository
    ");
}

#[test]
fn the_owner_decides_on_targets_models_senders_and_money() {
    let stage = Stage::new();
    stage.policy("allowed_targets: [cheap]\n");
    assert_snapshot!(stage.refused(&inline(&batch(1, 1), 1)), @r"
    the target `llm` may not be used by batches

    hint: `allowed_targets` in `.run-evals.yml` of the runner repository allows `cheap`
    ");
    stage.policy("allowed_models: [gpt-*]\n");
    assert_snapshot!(stage.refused(&inline(&batch(1, 1), 1)), @r"
    the model `mock-model` may not be used by batches

    hint: `allowed_models` in `.run-evals.yml` of the runner repository allows `gpt-*`
    ");
    stage.policy("allowed_senders: [octocat]\n");
    assert_snapshot!(stage.refused(&inline(&batch(1, 1), 1)), @r"
    `dispatcher` may not start runs here

    hint: `allowed_senders` in `.run-evals.yml` of the runner repository allows `octocat`
    ");
    stage.policy("max_budget_usd: 1\n");
    assert_snapshot!(stage.refused(&inline(&batch(1, 1), 1)), @r"
    `max_budget_usd` of the policy needs a `price` in target `llm`

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target in the runner repository
    ");
    stage.policy("max_request: 1\n");
    assert_snapshot!(stage.refused(&inline(&batch(1, 1), 1)), @r"
    unknown key `max_request`
      --> acme/runner: .run-evals.yml:1:1
       |
     1 | max_request: 1
       | ^^^^^^^^^^^

    hint: did you mean `max_requests`?
    ");
    // The policy of another branch is ignored.
    stage.github.put_file_on(REPO, "mine", ".run-evals.yml", "{}\n");
    stage.policy("allowed_senders: [Dispatcher]\nallowed_models: [mock-*]\nallowed_targets: [llm]\n");
    assert_eq!(only_job(&stage.run(&inline(&batch(1, 1), 1))).exit_code, Some(0));
}

#[test]
fn a_policy_that_is_a_link_or_misspelled_is_not_ignored() {
    let stage = Stage::new();
    let run = stage.run(&inline(&batch(1, 1), 1));
    let told = "no `.run-evals.yml`: only the targets limits this run";
    let job = only_job(&run);
    assert!(job.log.contains(told) && job.summary.contains(told), "{}\n{}", job.log, job.summary);

    stage.github.put_file(REPO, ".run-evals.yaml", "allowed_senders: [octocat]\n");
    let message = stage.refused(&inline(&batch(1, 1), 1));
    assert!(message.starts_with("`dispatcher` may not start runs here"), "{message}");

    let git = |args: &[&str]| stage.github.git(REPO, args);
    git(&["read-tree", "main"]);
    let to = git(&["rev-parse", "main:.run-evals.yaml"]);
    git(&["update-index", "--add", "--cacheinfo", &format!("120000,{to},.run-evals.yml")]);
    let tree = git(&["write-tree"]);
    let me = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    let commit = git(&[&me[..], &["commit-tree", "-p", "main", "-m", "Link", &tree]].concat());
    git(&["update-ref", "refs/heads/main", &commit]);
    let message = stage.refused(&inline(&batch(1, 1), 1));
    assert!(message.starts_with("`.run-evals.yml` on the default branch of"), "{message}");
    assert!(message.contains("is a symbolic link"), "{message}");
}

#[test]
fn a_batch_that_does_not_match_its_digest() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(1, 1), 1);
    inputs.batch_sha256 = Digest::of(b"another");
    let message = stage.refused(&inputs);
    assert!(message.starts_with("the batch is not the one that was dispatched"), "{message}");
    stage.github.put_file_on(REPO, "eval-batch/b1", "batch.tar.gz", batch(1, 1));
    inputs.handover = Handover::Branch { repo: REPO.to_owned(), branch: "eval-batch/b1".to_owned() };
    let message = stage.refused(&inputs);
    assert!(message.starts_with("the batch `b1` has the digest"), "{message}");
}

#[test]
fn a_bomb_and_a_foreign_repository() {
    let stage = Stage::new();
    // Too long for a dispatch, so it is handed over on a branch.
    let zeros = vec![0; 100 << 20];
    let bomb =
        Forgery::of(&[request(&json!({}))]).file(&format!("files/{}", Digest::of(&zeros)), &zeros).pack();
    stage.github.put_file_on(REPO, "eval-batch/b1", "batch.tar.gz", &bomb);
    let mut inputs = inline(b"", 1);
    inputs.batch_sha256 = Digest::of(&bomb);
    let branch = || "eval-batch/b1".to_owned();
    inputs.handover = Handover::Branch { repo: REPO.to_owned(), branch: branch() };
    let message = stage.refused(&inputs);
    assert!(message.starts_with("the batch `b1` unpacks to more than 67108864 bytes"), "{message}");

    inputs.handover = Handover::Branch { repo: REPO.to_owned(), branch: "main".to_owned() };
    assert_snapshot!(stage.refused(&inputs), @r"
    the batch `b1` is handed over on the branch `main`, but only `eval-batch/b1` is read

    hint: dispatch it with `run-evals`
    ");

    inputs.handover = Handover::Branch { repo: "evil/batches".to_owned(), branch: branch() };
    let run = stage.run(&inputs);
    let job = only_job(&run);
    assert_eq!((job.exit_code, stage.llm.counter("requests")), (Some(1), 0), "{}", job.log);
    assert!(job.log.contains("no repository at"), "{}", job.log);
}

#[test]
fn names_that_escape_their_directory() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(1, 1), 1);
    inputs.shards = vec![7];
    let message = stage.refused(&inputs);
    assert!(message.starts_with("no shard 7 in batch `b1`"), "{message}");

    for (name, value) in [
        ("batch_id", "../../main"),
        ("results", "branch:eval-batch"),
        ("results", "branch:../main"),
        ("prompts_artifact", "branch:acme/runner/--upload-pack=x"),
        ("runner_options", r#"{"base_url":"https://evil.example"}"#),
        ("runner_options", r#"{"deadline_s":18446744073709551615}"#),
    ] {
        let mut inputs = inline(&batch(1, 1), 1).to_inputs();
        inputs.insert(name.to_owned(), value.to_owned());
        let run = stage.finished(stage.start_raw(&inputs), 1);
        let job = only_job(&run);
        assert_eq!((job.exit_code, stage.llm.counter("requests")), (Some(3), 0), "{}", job.log);
        assert!(errors(job)[0].starts_with(&format!("invalid dispatch input `{name}`")), "{}", job.log);
    }
    assert_eq!(stage.github.pushes().len(), 0);
}

#[test]
fn a_branch_with_foreign_content() {
    let stage = Stage::new();
    let before = "eval-results/b1";
    stage.github.put_file_on(REPO, before, "thesis.tex", "years of work");
    let tip = stage.github.git(REPO, &["rev-parse", before]);
    let mut inputs = inline(&batch(1, 1), 1);
    let message = stage.refused(&inputs);
    assert!(message.starts_with("the branch `eval-results/b1` of `http"), "{message}");
    assert!(message.contains("is not one with results of batch `b1`"), "{message}");

    // A branch that names its owner, but not us.
    inputs.results = run_evals::testing::RemoteResults::Branch("late".to_owned());
    stage.github.put_file_on(
        REPO,
        "late/b1",
        "results/batch.json",
        r#"{"batch_id":"b2","batch_sha256":"00"}"#,
    );
    let message = stage.refused(&inputs);
    assert!(message.starts_with("cannot read `results/batch.json` on the branch `late/b1`"), "{message}");
    assert_eq!(stage.github.git(REPO, &["rev-parse", before]), tip);
    assert_eq!(stage.github.pushes().len(), 0);
}

#[test]
fn forged_rows_are_ignored() {
    let stage = Stage::new();
    let archive = batch(4, 2);
    let inputs = inline(&archive, 2);
    let owner = json!({"format": 1, "batch_id": "b1", "batch_sha256": inputs.batch_sha256}).to_string();
    stage.github.put_file_on(REPO, "eval-results/b1", "results/batch.json", owner);
    let forged: String = (0..4)
        .map(|index| {
            let rest = json!({
                "id": format!("r{index}"), "output": [{"role": "assistant", "content": "forged"}], "cost_usd": -9.0,
                "duration_ms": 1, "target": "llm", "attempts": 1, "request_sha256": Digest::of(b"guessed"),
            });
            let row = rest.to_string().replacen('{', &format!("{{\"index\":{index},"), 1);
            // A checksum is not a signature: anyone can compute one.
            run_evals::testing::RowSeal::of(inputs.batch_sha256).seal(&row) + "\n"
        })
        .collect();
    stage.github.put_file_on(REPO, "eval-results/b1", "results/shard-000/0001.jsonl", forged);
    let run = stage.run(&inputs);
    assert_eq!(exit_codes(&run), [Some(0), Some(0)]);
    assert_eq!(stage.llm.counter("requests"), 4);
    let told = "4 rows among the results do not belong to batch `b1`, or cannot be read: left out";
    assert!(run.jobs[0].log.contains(told), "{}", run.jobs[0].log);
    // The manifest does not count them, either.
    assert_eq!(stage.json("results/manifest.json")["totals"]["answered"], 4);
    assert!(stage.json("results/manifest.json")["totals"].get("cost_usd").is_none());
}

#[test]
fn an_artifact_that_is_not_a_batch() {
    let stage = Stage::new();
    let mut inputs = inline(&batch(1, 1), 1);
    inputs.results = run_evals::testing::RemoteResults::Artifact;
    let run = stage.run(&inputs);
    let name = run.artifacts[0].clone();
    inputs.handover = Handover::Artifact { repo: REPO.to_owned(), run_id: run.id, name };
    let message = stage.refused(&inputs);
    assert!(message.contains("does not hold exactly the file `batch.tar.gz`"), "{message}");
    let name = "batch-b1".to_owned();
    inputs.handover = Handover::Artifact { repo: REPO.to_owned(), run_id: run.id, name };
    let run = stage.run(&inputs);
    assert_eq!(only_job(&run).exit_code, Some(1), "{}", only_job(&run).log);
    assert!(errors(only_job(&run))[0].contains("has no artifact `batch-b1`"), "{}", only_job(&run).log);
}

#[test]
fn models_and_providers_cannot_inject_workflow_commands() {
    let hostile = "x\n::add-mask::answered\n::error::pwned\n##[error]pwned\n::stop-commands::y";
    let stage = Stage::new();
    // The model echoes its prompt.
    let archive =
        Forgery::of(&[json!({"id": "::error::pwned", "messages": [{"role": "user", "content": hostile}]})]);
    let run = stage.run(&inline(&archive.pack(), 1));
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert!(job.annotations.is_empty(), "{:?}", job.annotations);
    assert_eq!(stage.rows()[0]["output"][0]["content"], hostile);

    // The provider quotes it in an error, together with the key.
    let vendor = hostile_provider(&format!("{hostile} {KEY}"));
    stage.targets(&vendor, "");
    let mut inputs = inline(&Forgery::of(&[request(&json!({}))]).set("batch_id", "b2").pack(), 1);
    inputs.batch_id = "b2".parse().unwrap();
    let run = stage.run(&inputs);
    let job = only_job(&run);
    assert_eq!(job.exit_code, Some(0), "{}", job.log);
    assert_eq!(warnings(job), ["1 calls of shard 0 failed; see the step summary"]);
    assert!(errors(job).is_empty(), "{:?}", job.annotations);
    assert!(!job.log.contains("pwned"), "{}", job.log);
    assert!(job.summary.contains("bad_request (HTTP 400)"), "{}", job.summary);
    assert!(!job.summary.contains("::error::"), "{}", job.summary);
}

/// A server that responds to everything with 400 and this message.
fn hostile_provider(message: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn the_history_of_a_hand_over_branch_is_not_fetched() {
    let stage = Stage::new();
    let archive = batch(1, 1);
    stage.github.put_file_on(REPO, "eval-batch/b1", "batch.tar.gz", b"gigabytes");
    stage.github.put_file_on(REPO, "eval-batch/b1", "batch.tar.gz", &archive);
    let dir = crate::support::temporary();
    let exchange = LocalExchange::open_or_create(&dir.path().join("exchange.git")).unwrap();
    let url = format!("{}/{REPO}.git", stage.github.urls().server_url);
    let remote = Remote::new(&url, Some(Secret::new(TOKEN)));
    let id = "b1".parse().unwrap();
    assert!(exchange.fetch_batch(&remote, "eval-batch/b1", &id, false, Duration::ZERO).unwrap());
    let mut count = std::process::Command::new("git");
    count.arg("--git-dir").arg(exchange.path()).args(["rev-list", "--count", "eval-batch/b1"]);
    assert_eq!(String::from_utf8(count.output().unwrap().stdout).unwrap().trim(), "1");
    let whole = dir.path().join("batch.tar.gz");
    exchange.get_batch(&id, &whole).unwrap();
    assert_eq!(std::fs::read(whole).unwrap(), archive);
}
