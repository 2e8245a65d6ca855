//! `leaderboard merge`, `leaderboard export` and `skills lint` through the binary.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::Workspace;

const SKILLS: [&str; 6] = ["alder", "birch", "cedar", "elm", "fir", "hazel"];

fn entry(skill: &str, model: &str, correct: u32) -> Value {
    let digest = "6c621d1a05138a7888d37d9269a9da8e2e11e4aced2f6cfd24b05ab1b9e61bb0";
    json!({
        "skill": skill, "skill_version": "1.0.0", "prompt_commit": "a".repeat(40), "prompt_sha256": digest,
        "prompt_body_sha256": digest, "dataset_commit": null, "cases_sha256": digest, "model": model, "alias_target": null,
        "params": {"temperature": null, "max_tokens": null, "seed": null, "structured_output": "none"},
        "replicates": 1, "scorer_version": 2, "rules_sha256": digest,
        "cases": {"total": 1, "run": 1, "skipped": []},
        "calls": {"attempted": 1, "ok": 1, "api_error": 0, "parse_error": 0, "truncated": 0},
        "schema_valid": {"n": 0, "of": 0, "rate": null},
        "accuracy": {"score": f64::from(correct) / 10.0, "interval": null, "n_correct": correct, "n_incorrect": 10 - correct,
            "n_missing": 0, "n_hallucinated": 0, "n_correct_absent": 0},
        "prose": {"score": null, "overlap": null, "n_correct": 0, "n_incorrect": 0, "n_missing": 0},
        "reproducibility": {"score": null, "interval": null, "fields_probed": 0, "fields_full_agreement": 0,
            "exact_output_rate": null},
        "tokens": {"prompt": 1, "completion": 1},
        "per_case": [{"case": "one", "accuracy": f64::from(correct) / 10.0, "reproducibility": null, "ok": 1, "errors": 0}],
    })
}

fn board(entries: &[Value]) -> String {
    json!({"schema_version": 2, "entries": entries, "absent": []}).to_string()
}

/// Writes a leaderboard in canonical bytes.
fn put(workspace: &Workspace, path: &str, entries: &[Value]) {
    workspace.write("loose.json", board(entries));
    workspace.run(&["leaderboard", "merge", "-q", "--output", path, "loose.json"]).expect(0);
}

fn git(dir: &Path, args: &[&str]) -> bool {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
    let output = Command::new("git").current_dir(dir).args(identity).args(args).output().unwrap();
    output.status.success()
}

#[test]
fn results_of_six_skills_merge_in_any_order() {
    let workspace = Workspace::new();
    let dir = workspace.root().to_path_buf();
    assert!(git(&dir, &["init", "--quiet", "--initial-branch=main", "."]));
    workspace.write("README.md", "skills\n");
    assert!(git(&dir, &["add", "README.md"]) && git(&dir, &["commit", "--quiet", "-m", "Begin"]));
    for (skill, correct) in SKILLS.into_iter().zip(3..) {
        assert!(git(&dir, &["checkout", "--quiet", "-b", skill, "main"]));
        put(
            &workspace,
            &format!("leaderboard/{skill}.json"),
            &[entry(skill, "m", correct), entry(skill, "n", 4)],
        );
        assert!(git(&dir, &["add", "leaderboard"]) && git(&dir, &["commit", "--quiet", "-m", skill]));
    }
    let all: Vec<Value> = SKILLS
        .into_iter()
        .zip(3..)
        .flat_map(|(skill, n)| [entry(skill, "m", n), entry(skill, "n", 4)])
        .collect();
    put(&workspace, "sequential.json", &all);
    let sequential = workspace.read("sequential.json");
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..50 {
        let mut order = SKILLS;
        random.shuffle(&mut order);
        assert!(git(&dir, &["checkout", "--quiet", "-B", "merged", "main"]));
        for skill in order {
            assert!(git(&dir, &["merge", "--quiet", "--no-ff", "-m", "Merge", skill]), "{round}: {order:?}");
        }
        let files: Vec<String> = order.iter().map(|skill| format!("leaderboard/{skill}.json")).collect();
        let mut args = vec!["leaderboard", "merge", "-q"];
        if round % 2 == 0 {
            args.extend(files.iter().map(String::as_str));
        } else {
            args.push("leaderboard");
        }
        assert_eq!(workspace.run(&args).expect(0).stdout, sequential, "{order:?}");
    }
}

#[test]
fn two_pull_requests_of_one_skill_conflict_and_merge_repairs_it() {
    let workspace = Workspace::new();
    let dir = workspace.root().to_path_buf();
    assert!(git(&dir, &["init", "--quiet", "--initial-branch=main", "."]));
    let file = "leaderboard/alder.json";
    let commit = |entries: &[Value]| {
        put(&workspace, file, entries);
        assert!(git(&dir, &["add", "leaderboard"]) && git(&dir, &["commit", "--quiet", "-m", "Results"]));
    };
    commit(&[entry("alder", "b", 5)]);
    for (branch, model) in [("one", "a"), ("two", "c")] {
        assert!(git(&dir, &["checkout", "--quiet", "-b", branch, "main"]));
        commit(&[entry("alder", "b", 5), entry("alder", model, 7)]);
    }
    put(&workspace, "all.json", &[entry("alder", "a", 7), entry("alder", "b", 5), entry("alder", "c", 7)]);
    let all = workspace.read("all.json");
    // Both have changed the last line, at least: git cannot know that they are a list.
    workspace.run(&["leaderboard", "merge", "-q", "--output", "joined.json", file, "all.json"]).expect(0);
    assert_eq!(workspace.read("joined.json"), all);
    let ours = workspace.read(file);
    workspace.write(
        "conflicted.json",
        format!("<<<<<<< HEAD\n{ours}||||||| base\n{{}}\n=======\n{all}>>>>>>> one\n"),
    );
    workspace
        .run(&["leaderboard", "merge", "-q", "--output", "conflicted.json", "conflicted.json"])
        .expect(0);
    assert_eq!(workspace.read("conflicted.json"), all);
    // As a merge driver, git does it alone.
    let program = env!("CARGO_BIN_EXE_run-evals");
    let driver = format!("merge.run-evals.driver={program} leaderboard merge -q --output %A %A %B");
    workspace.write(".gitattributes", "leaderboard/*.json merge=run-evals\n");
    assert!(git(&dir, &["-c", &driver, "merge", "--quiet", "-m", "Merge", "one"]));
    assert_eq!(workspace.read(file), all);
}

#[test]
fn entries_that_do_not_add_up_are_refused() {
    let workspace = Workspace::new();
    let mut wrong = entry("alder", "a", 5);
    wrong["accuracy"]["n_correct"] = json!(6);
    workspace.write("wrong.json", board(&[wrong]));
    let output = workspace.run(&["leaderboard", "merge", "wrong.json"]).expect(3);
    assert!(output.stderr.contains("that `run-evals` did not write"), "{}", output.stderr);
}

#[test]
fn commands_in_hints_can_be_pasted_into_a_shell() {
    let workspace = Workspace::new();
    let name = "a b$(touch x).json";
    workspace.write(name, "nope");
    let told = workspace.run(&["leaderboard", "merge", name]).expect(3).stderr;
    insta::assert_snapshot!(told.trim(), @r"
    error: cannot read `a b$(touch x).json`: expected ident at line 1 column 2

    hint: merge the two versions instead: `git show ':2:a b$(touch x).json' > ours.json`, `git show ':3:a b$(touch x).json' > theirs.json`, then `run-evals leaderboard merge --output 'a b$(touch x).json' ours.json theirs.json`
    ");
}

/// One pull request must not keep a merge driver or the service busy for minutes.
#[test]
fn thousands_of_entries_in_any_order_are_merged_in_linear_time() {
    let workspace = Workspace::new();
    let took = |count: usize| {
        let mut entries: Vec<Value> =
            (0..count).map(|number| entry("alder", &format!("m{number}"), 5)).collect();
        entries.reverse();
        workspace.write("many.json", board(&entries));
        let start = std::time::Instant::now();
        workspace.run(&["leaderboard", "merge", "-q", "-o", "out.json", "many.json", "many.json"]).expect(0);
        start.elapsed()
    };
    // Six times the entries: a quadratic merge takes 36 times as long.
    let (few, many) = (took(2_000), took(12_000));
    assert!(many < few * 20, "{few:?} for 2,000 entries, {many:?} for 12,000");
}

#[test]
fn no_cell_is_a_formula() {
    let workspace = Workspace::new();
    let models = [
        "=1",
        "+1",
        "-1",
        "@A1",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u{a0}=1",
        "\u{feff}=1",
        "\u{0}=1",
        "＝1",
        "＋1",
        "－1",
        "＠A1",
    ];
    let entries: Vec<Value> = models.iter().map(|model| entry("alder", model, 5)).collect();
    put(&workspace, "l.json", &entries);
    let csv = workspace.run(&["leaderboard", "export", "--format", "csv", "l.json"]).expect(0).stdout;
    for model in models {
        // Each line ends with CR LF; a cell may have either.
        let cell = format!("'{model}");
        let quoted = format!(",\"{cell}\",");
        assert!(csv.contains(&format!(",{cell},")) || csv.contains(&quoted), "{model:?}: {csv:?}");
    }
}

#[test]
fn entries_are_exported() {
    let workspace = Workspace::new();
    put(&workspace, "l.json", &[entry("alder", "=a,b", 5), entry("birch", "=a,b", 6)]);
    let csv = workspace.run(&["leaderboard", "export", "--format", "csv", "l.json"]).expect(0).stdout;
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.lines().all(|line| line.starts_with("skill,") || line.contains(",\"'=a,b\",")), "{csv}");
}

/// The keys and rules of <https://huggingface.co/docs/hub/eval-results>: a list of results, each with a dataset, a task and a value.
#[test]
fn results_are_exported_for_a_model_repository_on_the_hugging_face_hub() {
    let workspace = Workspace::new();
    let mut earlier = entry("birch", "m/quill", 3);
    earlier["skill_version"] = json!("0.9.0");
    earlier["prompt_commit"] = json!("e".repeat(40));
    let nothing = {
        let mut entry = entry("cedar", "m/quill", 0);
        entry["accuracy"]["score"] = Value::Null;
        entry["accuracy"]["interval"] = Value::Null;
        entry["accuracy"]["n_incorrect"] = json!(0);
        entry
    };
    put(
        &workspace,
        "l.json",
        &[entry("alder", "m/quill", 5), entry("birch", "m/quill", 6), earlier, nothing],
    );
    put(&workspace, "m.json", &[entry("alder", "m/reed", 7)]);
    let hf = ["leaderboard", "export", "--format", "hf"];
    let export = |more: &[&str]| workspace.run(&[&hf[..], more].concat());
    let all = ["--benchmark", "acme/skills", "--source", "https://acme.example/skills", "l.json"];
    let text = export(&all).expect(0).stdout;
    let results: Value = serde_yaml::from_str(&text).unwrap();
    let results = results.as_array().unwrap();
    // The newest entry of each skill; nothing without a value.
    let values: Vec<(&str, f64)> = results
        .iter()
        .map(|result| (result["dataset"]["task_id"].as_str().unwrap(), result["value"].as_f64().unwrap()))
        .collect();
    assert_eq!(values, [("alder", 0.5), ("birch", 0.6)], "{text}");
    for result in results {
        let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["dataset", "value", "source", "notes"], "{text}");
        assert_eq!(result["dataset"]["id"], "acme/skills");
        assert_eq!(result["source"], json!({"url": "https://acme.example/skills"}));
        assert!(result["notes"].as_str().unwrap().contains("entry sha256:"), "{text}");
    }
    let of = ["--benchmark", "acme/skills", "l.json", "m.json", "--model"];
    let text = export(&[&of[..], &["m/reed"]].concat()).expect(0).stdout;
    let result: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!((&result[0]["value"], result[0].get("source")), (&json!(0.7), None), "{text}");
    let told = export(&of[..4]).expect(2).stderr;
    assert!(told.contains("`--model` takes one of: `m/quill`, `m/reed`"), "{told}");
    let told = export(&[&of[..], &["m/quil"]].concat()).expect(2).stderr;
    assert!(told.contains("no entry of the model `m/quil`"), "{told}");
    assert!(export(&["l.json"]).expect(2).stderr.contains("--benchmark"));
}

#[test]
fn lint_names_doubtful_fields_and_writes_rules() {
    let workspace = Workspace::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills/unruled");
    let copied = Command::new("cp").arg("-r").arg(&from).arg(workspace.path("library")).status().unwrap();
    assert!(copied.success());
    let lint = |more: &[&str]| workspace.run(&[&["skills", "lint", "--library", "library"], more].concat());
    let found = lint(&["-q"]).expect(0).stdout;
    assert!(
        found.contains("site-visit: sound; expected answer 100.0 %, permuted 100.0 %, reworded 100.0 %"),
        "{found}"
    );
    for doubt in ["  summary: prose", "  findings: list of objects", "  visitors: list of objects"] {
        assert!(found.contains(doubt), "{found}");
    }
    lint(&["--strict", "-q"]).expect(1);
    lint(&["--write", "-q"]).expect(0);
    let rules = workspace.read("library/components/site-visit/evals/scoring.yaml");
    assert!(rules.contains("\"visitors\": [\"name\"]") && rules.contains("\"summary\": 0.4"), "{rules}");
    // The rules settle every doubt, and right answers stay right.
    lint(&["--strict", "-q"]).expect(0);
}

/// Keys come from untrusted answers.
#[test]
fn lint_writes_only_rules_that_can_be_read_and_follows_no_link() {
    let library = || {
        let workspace = Workspace::new();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills/unruled");
        let copied = Command::new("cp").arg("-r").arg(&from).arg(workspace.path("library")).status().unwrap();
        assert!(copied.success());
        workspace
    };
    let lint = |workspace: &Workspace, more: &[&str]| {
        workspace.run(&[&["skills", "lint", "--library", "library", "site-visit", "-q"], more].concat())
    };
    let evals = "library/components/site-visit/evals";
    let workspace = library();
    let expected = format!("{evals}/cases/heron-marsh/expected.json");
    let text = workspace.read(&expected);
    workspace.write(&expected, text.replace("\"visitors\"", "\"a\\u001b[31m\\n::error::b: {c: *d}\""));
    lint(&workspace, &["--write"]).expect(0);
    let rules = workspace.read(&format!("{evals}/scoring.yaml"));
    assert!(rules.contains("summary") && !rules.contains("error"), "{rules}");
    let told = lint(&workspace, &[]).expect(0).stdout;
    assert!(told.contains("a\\u{1b}[31m\\n::error::b"), "{told}");

    let outside = crate::support::temporary();
    for part in ["scoring.yaml", ""] {
        let workspace = library();
        let link = workspace.path(evals).join(part);
        if part.is_empty() {
            std::fs::rename(&link, outside.path().join("evals")).unwrap();
        }
        let link = if part.is_empty() { workspace.path(evals) } else { link };
        let to = if part.is_empty() { "evals" } else { "written" };
        std::os::unix::fs::symlink(outside.path().join(to), link).unwrap();
        lint(&workspace, &["--write"]).expect(3);
        assert!(!outside.path().join("written").exists());
        assert!(!outside.path().join("evals/scoring.yaml").exists());
    }
}
