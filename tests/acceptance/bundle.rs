//! The real AgentV, unmodified, runs every suite of `fixtures/bundle` in place and as a bundle elsewhere, after the
//! source is gone, and gets the same scores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::agentv::agentv;
use crate::support::Workspace;

/// What the suites refer to.
const VARIABLES: [(&str, &str); 5] =
    [("GREETING", "good day"), ("WHO", "all"), ("CASES", "sets"), ("WORKERS", "2"), ("AGENT_TARGET", "echo")];

/// AgentV runs custom assertions with `bun`; these are JavaScript that node runs as well.
const BUN: &str = "#!/bin/sh\nshift\nexec node \"$@\"\n";

/// AgentV refuses to run it in place: a directory is not a workspace file. As a bundle it runs.
const ONLY_AS_A_BUNDLE: &str = "workspace-directory";

/// Scripts that use the repository itself: other scores elsewhere, and the line that is reported.
const REPORTED: [(&str, &str, u64); 3] = [
    ("python-calls-git", "evals/check.py", 9),
    ("script-calls-git", "evals/check.sh", 2),
    ("script-copies-repository", "evals/check.sh", 3),
];

/// Where packages are installed before a run, in the source and in the bundle.
const INSTALLED: [(&str, &str, &str); 3] = [
    ("node-file-package", "evals", "scripts/evals"),
    // npm does not install the dependencies of a linked package.
    ("node-file-package", "packages/words", "scripts/packages/words"),
    ("node-workspace-package", ".", "scripts"),
];

/// The modules of an installed project, in the source and in the bundle.
const MODULES: (&str, &str, &str) = ("python-src-layout", "project/src", "scripts/project/src");

/// The score and the state of each test, by its name and its target.
type Scores = BTreeMap<(String, String), (Option<f64>, String)>;

struct Desk {
    workspace: Workspace,
}

impl Desk {
    fn new() -> Self {
        let workspace =
            VARIABLES.into_iter().fold(Workspace::new(), |desk, (name, value)| desk.env(name, value));
        workspace.write_program("bin/bun", BUN);
        Self { workspace }
    }

    fn run(&self, program: &Path, args: &[&str], dir: &Path) -> Output {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.workspace.path("bin").display(), std::env::var("PATH").unwrap());
        self.workspace.like(command.args(args)).current_dir(dir).env("PATH", path).output().unwrap()
    }

    /// Installs what a suite needs, as its bundle says.
    fn installed(mut self, fixture: &str, dir: &Path, moved: bool) -> Self {
        let choose = |here: &'static str, there: &'static str| dir.join(if moved { there } else { here });
        for (_, here, there) in INSTALLED.iter().filter(|(name, ..)| *name == fixture) {
            let args = ["install", "--no-package-lock", "--offline", "--no-audit", "--no-fund"];
            let output = self.run(Path::new("npm"), &args, &choose(here, there));
            assert!(output.status.success(), "npm: {}", shown(&output));
        }
        if fixture == MODULES.0 {
            // What `pip install -e` does.
            self.workspace = self.workspace.env("PYTHONPATH", choose(MODULES.1, MODULES.2).to_str().unwrap());
        }
        self
    }

    fn git(&self, args: &[&str], dir: &Path) {
        let who = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
        let output = self.run(Path::new("git"), &[&who, args].concat(), dir);
        assert!(output.status.success(), "git {args:?}: {}", shown(&output));
    }

    /// Runs a suite with AgentV; nothing if AgentV refuses it.
    fn scores(&self, suite: &Path, dir: &Path, out: &str) -> (Option<Scores>, String) {
        let out = self.workspace.path(out);
        let output =
            self.run(&agentv(), &["eval", suite.to_str().unwrap(), "--output", out.to_str().unwrap()], dir);
        let Ok(text) = std::fs::read_to_string(out.join("index.jsonl")) else {
            return (None, shown(&output));
        };
        let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.sort_by_key(|row| format!("{} {}", row["test_id"], row["target"]));
        let mut scores = Scores::new();
        for row in rows {
            let id = row["test_id"].as_str().unwrap().to_owned();
            let target = row["target"].as_str().unwrap().to_owned();
            let status = row["execution_status"].as_str().unwrap_or_default().to_owned();
            scores.insert((id, target), (row["score"].as_f64(), status));
        }
        (Some(scores), shown(&output))
    }
}

fn shown(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Runs one suite of `fixtures/bundle` both ways; returns the difference, if any.
fn compare(fixture: &str) -> Result<usize, String> {
    let desk = Desk::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle").join(fixture);
    let repo = desk.workspace.path("repo");
    assert!(Command::new("cp").arg("-a").arg(&from).arg(&repo).status().unwrap().success());
    compare_on(desk, fixture)
}

/// Runs the suite of the directory `repo` both ways; returns the difference, if any.
fn compare_on(desk: Desk, fixture: &str) -> Result<usize, String> {
    let repo = desk.workspace.path("repo");
    desk.git(&["init", "-q"], &repo);
    desk.git(&["add", "-A"], &repo);
    desk.git(&["commit", "-q", "-m", "all"], &repo);
    let is_suite = |path: &PathBuf| path.ends_with("suite.eval.yaml") || path.ends_with("suite.jsonl");
    let mut files = walkdir::WalkDir::new(&repo).into_iter().map(|entry| entry.unwrap().into_path());
    let suite = files.find(is_suite).unwrap();

    let desk = desk.installed(fixture, &repo, false);
    let (here, told) = desk.scores(&suite, &repo, "here");
    // Without the leftovers of the run.
    desk.git(&["clean", "-fdxq"], &repo);
    let check = desk.run(
        Path::new(env!("CARGO_BIN_EXE_run-evals")),
        &["bundle", suite.to_str().unwrap(), "--check", "-q"],
        &repo,
    );
    let bundle = desk.workspace.path("out/bundle");
    let args = ["bundle", suite.to_str().unwrap(), "-q", "-o", bundle.to_str().unwrap(), "--archive"];
    let output = desk.run(Path::new(env!("CARGO_BIN_EXE_run-evals")), &args, &repo);
    if !output.status.success() {
        return Err(format!("no bundle: {}", shown(&output)));
    }
    let bundled = shown(&output);

    // Another directory, and nothing left of the first one.
    std::fs::remove_dir_all(&repo).unwrap();
    let there = desk.workspace.path("elsewhere/b");
    std::fs::create_dir(desk.workspace.path("elsewhere")).unwrap();
    std::fs::rename(&bundle, &there).unwrap();
    desk.git(&["init", "-q"], &there);
    let desk = desk.installed(fixture, &there, true);
    let output = desk.run(&agentv(), &["validate", "eval.yaml", "targets.yaml"], &there);
    if !output.status.success()
        || !shown(&output).contains("Valid: 2")
        || shown(&output).contains("not recognized")
    {
        return Err(format!("AgentV finds it invalid: {}", shown(&output)));
    }
    let (scores, told_there) = desk.scores(&there.join("eval.yaml"), &there, "there");
    let Some(scores) = scores else { return Err(format!("no scores as a bundle: {told_there}")) };
    let good =
        !scores.is_empty() && scores.values().all(|(score, status)| *score == Some(1.0) && status == "ok");
    let same = if fixture == ONLY_AS_A_BUNDLE { here.is_none() } else { here.as_ref() == Some(&scores) };
    if let Some((_, file, line)) = REPORTED.iter().find(|(name, ..)| *name == fixture) {
        let place = format!("({file}:{line})");
        let manifest: Value =
            serde_json::from_slice(&std::fs::read(there.join("manifest.json")).unwrap()).unwrap();
        let mut left = manifest["left_behind"].as_array().unwrap().iter();
        let reported = left.any(|one| one["file"] == *file && one["line"] == *line)
            && bundled.contains(&place)
            && check.status.code() == Some(3)
            && shown(&check).contains(&place);
        let good = here.as_ref().is_some_and(|here| here.values().all(|(score, _)| *score == Some(1.0)));
        if good && reported {
            return Ok(scores.len());
        }
        return Err(format!("not reported: {here:?}\n{bundled}\n{}", shown(&check)));
    }
    // What runs leave does not make it another bundle.
    let output = desk.run(Path::new(env!("CARGO_BIN_EXE_run-evals")), &["bundle", "verify", "."], &there);
    if !output.status.success() {
        return Err(format!("no longer a bundle: {}", shown(&output)));
    }
    if !good || !same {
        return Err(format!("{here:?}\n{told}\nas a bundle: {scores:?}\n{told_there}"));
    }
    Ok(scores.len())
}

#[test]
fn every_bundle_scores_like_its_source() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 40, "{}", names.len());
    let next = AtomicUsize::new(0);
    let outcomes: Vec<(String, Result<usize, String>)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((name.clone(), compare(name)));
            }
            done
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let wrong: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.as_ref().err()?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let tests: usize = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()).sum();
    eprintln!("{} suites, {tests} scores, the same here and there", outcomes.len());
}

/// An absolute path differs on every machine, so this suite is written here.
#[test]
fn an_absolute_script_of_a_target_runs_in_the_workspace_of_a_bundle() {
    let desk = Desk::new();
    let repo = desk.workspace.path("repo");
    let agent = "import { readFileSync, writeFileSync } from 'node:fs';\nconst sign = readFileSync(new URL('./sign.txt', import.meta.url), 'utf8');\nwriteFileSync(process.argv[2], `${readFileSync('notes.txt', 'utf8')} ${sign}`);\n";
    desk.workspace.write("repo/tools/agent.mjs", agent);
    desk.workspace.write("repo/tools/sign.txt", "signed");
    desk.workspace.write("repo/templates/base/notes.txt", "template words");
    let script = repo.join("tools/agent.mjs");
    desk.workspace.write(
        "repo/.agentv/targets.yaml",
        format!(
            "targets:\n  - name: default\n    provider: cli\n    command: node {} {{OUTPUT_FILE}}\n",
            script.display()
        ),
    );
    desk.workspace.write(
        "repo/evals/suite.eval.yaml",
        "workspace: {template: ../templates/base, isolation: per_test}\ntests:\n  - id: one\n    criteria: c\n    input: read\n    assertions: [{type: contains, value: template words}, {type: contains, value: signed}]\n",
    );
    assert_eq!(compare_on(desk, "absolute-script"), Ok(1));
}

/// A suite with a workspace, a model that grades and a custom assertion, whose script reads this file.
fn verify_run(reads: &str) -> (Desk, Output) {
    let desk = Desk::new();
    for (path, text) in [
        (
            ".agentv/targets.yaml",
            "targets:\n  - {name: default, provider: mock, grader_target: judge}\n  - {name: judge, provider: mock}\n",
        ),
        (".agentv/data/words.txt", "marker"),
        ("prompts/judge.md", "Is there a marker? {{ output }}\n"),
        ("templates/base/notes.txt", "notes\n"),
        (
            "evals/suite.eval.yaml",
            "workspace: {template: ../templates/base, isolation: per_test}\ntests:\n  - id: one\n    criteria: c\n    input: hello marker\n    expected_output: hello marker\n    assertions:\n      - {type: contains, value: marker}\n      - {type: llm-grader, name: judge, prompt: file://../prompts/judge.md}\n      - type: has-word\n",
        ),
    ] {
        desk.workspace.write(&format!("repo/{path}"), text);
    }
    let assertion = format!(
        "import {{ readFileSync }} from 'node:fs';\nconst word = readFileSync(new URL({reads}, import.meta.url), 'utf8');\nconst passed = JSON.parse(readFileSync(0, 'utf8')).output.includes(word);\nconsole.log(JSON.stringify({{ score: passed ? 1 : 0, assertions: [{{ text: 'word', passed }}] }}));\n"
    );
    desk.workspace.write("repo/.agentv/assertions/has-word.mjs", assertion);
    let repo = desk.workspace.path("repo");
    desk.git(&["init", "-q"], &repo);
    desk.git(&["add", "-A"], &repo);
    desk.git(&["commit", "-q", "-m", "all"], &repo);
    std::os::unix::fs::symlink(agentv(), desk.workspace.path("bin/agentv")).unwrap();
    let out = desk.workspace.path("out");
    let args = ["bundle", "evals/suite.eval.yaml", "-q", "-o", out.to_str().unwrap(), "--verify-run"];
    let output = desk.run(Path::new(env!("CARGO_BIN_EXE_run-evals")), &args, &repo);
    (desk, output)
}

#[test]
fn verify_run_compares_the_scores_of_agentv() {
    let (desk, output) = verify_run("'../data/words.txt'");
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("verify-run with agentv 4.42.4"), "{text}");
    assert!(text.contains("scores   1 of 1 equal, mean 1.000 in place"), "{text}");
    for side in ["in-place", "bundle"] {
        let rows = desk.workspace.rows(&format!("out.verify-run/{side}/index.jsonl"));
        let graders: Vec<&str> = rows[0]["scores"]
            .as_array()
            .unwrap()
            .iter()
            .map(|score| score["name"].as_str().unwrap())
            .collect();
        assert_eq!(graders.len(), 3, "{graders:?}");
        assert_eq!(rows[0]["score"], 1.0, "{side}");
    }

    // A path that no reader of the script can know: the file stays behind.
    let (desk, output) = verify_run("Buffer.from('Li4vZGF0YS93b3Jkcy50eHQ=', 'base64').toString()");
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("scores   0 of 1 equal, mean 1.000 in place"), "{text}");
    let (_, differences) = text.split_once("\ndifferences:\n").unwrap();
    assert!(
        differences.contains("  one on default, grader 3 has-word: in place 1 (pass), bundle 0 (fail)"),
        "{text}"
    );
    assert!(differences.contains("  one on default: in place 1 (ok), bundle "), "{text}");
    for side in ["in-place", "bundle"] {
        assert_eq!(desk.workspace.rows(&format!("out.verify-run/{side}/index.jsonl")).len(), 1);
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let desk = Desk::new();
    let repo = desk.workspace.path("repo");
    desk.workspace
        .write("repo/suite.eval.yaml", "workspace: {template: t}\ntests: [{id: a, criteria: c, input: x}]\n");
    desk.workspace.write("repo/t/large.bin", vec![7; 4 << 20]);
    desk.git(&["init", "-q"], &repo);
    let small = desk.workspace.path("small");
    std::fs::create_dir(&small).unwrap();
    // A disk of one megabyte, visible only to this command.
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs '{0}' && '{1}' bundle suite.eval.yaml -q -o '{0}/bundle'; code=$?; ls -A '{0}'; exit $code",
        small.display(),
        env!("CARGO_BIN_EXE_run-evals")
    );
    let output = desk.run(Path::new("unshare"), &["--mount", "--map-root-user", "sh", "-c", &script], &repo);
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert!(shown(&output).contains("No space left on device"), "{}", shown(&output));
}

#[test]
fn agentvs_parser_reads_what_we_write() {
    const PIECES: [&str; 46] = [
        " ",
        "\t",
        "\n",
        "\r",
        "#",
        ":",
        "-",
        "'",
        "\"",
        "|",
        ">",
        "%",
        "&",
        "*",
        "!",
        "?",
        "{",
        "}",
        "[",
        "]",
        ",",
        "a",
        "0",
        ".",
        "~",
        "=",
        "<",
        "@",
        "`",
        "\\",
        "é",
        "😀",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{a0}",
        "\u{0}",
        "\u{1b}",
        "yes",
        "null",
        "0x1f",
        "1e3",
        "2026-01-01",
        "---",
        "<<",
        "\n\n",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = |most: usize| -> String {
        (0..random.usize(..most)).map(|_| PIECES[random.usize(..PIECES.len())]).collect()
    };
    let rows: Vec<Value> = (0..2000)
        .map(|i| {
            // A merge key is not a key in YAML.
            let map: serde_json::Map<String, Value> = (0..3).map(|k| (format!("k{k}{}", text(6)), text(14).into())).collect();
            serde_json::json!({"id": format!("c{i}"), "criteria": text(14), "input": "x", "metadata": [map, text(14)]})
        })
        .collect();
    let desk = Desk::new();
    desk.workspace.write("cases.jsonl", rows.iter().map(|row| format!("{row}\n")).collect::<String>());
    desk.workspace.write("suite.yaml", "tests: cases.jsonl\n");
    desk.workspace.write("targets.yaml", "targets: [{name: default, provider: mock}]\n");
    let root = desk.workspace.root();
    let output = desk.run(
        Path::new(env!("CARGO_BIN_EXE_run-evals")),
        &["bundle", "suite.yaml", "-q", "-o", "out"],
        root,
    );
    assert!(output.status.success(), "{}", shown(&output));
    // The parser that AgentV itself uses.
    let home = agentv().canonicalize().unwrap();
    let script = format!(
        "const yaml = require(require.resolve('yaml', {{ paths: ['{}'] }}));\
         process.stdout.write(JSON.stringify(yaml.parse(require('fs').readFileSync('out/eval.yaml', 'utf8'), {{ merge: true }}).tests))",
        home.parent().unwrap().display()
    );
    let output = desk.run(Path::new("node"), &["-e", &script], root);
    let read: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)));
    for (read, written) in read.iter().zip(&rows) {
        assert_eq!(read, written);
    }
    assert_eq!(read.len(), rows.len());
}
