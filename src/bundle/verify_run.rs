//! `bundle --verify-run`: runs the suite in place and a copy of its bundle elsewhere, both with the same mock. Equal scores show that
//! the bundle is complete.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{copy, runs_of, suite_of};
use crate::config::{Document, normalized};
use crate::console::actions;
use crate::engine::Observer;
use crate::model::{Exit, Failure, printable};
use crate::util::secrets::{is_secret_name, is_secret_value};
use crate::util::{WorkDir, programs, regular_file};

/// The grader's reply in AgentV's own dry run.
const GRADE: &str = r#"{"score":1,"assertions":[],"checks":[],"overall_reasoning":"mock"}"#;
/// The target of graders that name none.
const GRADER: &str = "verify-run-grader";
/// Marks a directory that `--verify-run` may replace.
const MARK: &str = "verify-run.json";
/// Answers a test from the file whose name is the test's id in hexadecimal.
const ANSWER: &str = r#"name=$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')
file="$(dirname "$0")/answers/$name"
[ -f "$file" ] || file="$(dirname "$0")/answers/default"
cat "$file" > "$2"
"#;
/// The longest id whose digits fit into a file name.
const LONGEST_ID: usize = 120;
/// How many lines of a failed run are shown.
const SHOWN: usize = 15;

/// The score of a test or a grader; its state if there is none.
type Score = (Option<f64>, String);
/// The scores of a run: of each test on each target, and each of its graders.
type Scores = BTreeMap<(String, String, Option<String>), Score>;

/// The scores of the two runs, compared.
#[derive(Debug)]
pub struct Comparison {
    engine: String,
    dir: PathBuf,
    tests: usize,
    mean: f64,
    differences: Vec<Difference>,
}

#[derive(Debug)]
struct Difference {
    test: String,
    target: String,
    grader: Option<String>,
    in_place: Option<Score>,
    bundle: Option<Score>,
}

/// The program that runs both.
enum Engine {
    AgentV(PathBuf),
    Own(PathBuf),
}

/// Runs both and compares the scores. Their results stay next to the bundle.
pub fn verify_run(
    suite: &Path,
    out: &Path,
    agentv: Option<&str>,
    observer: &dyn Observer,
) -> anyhow::Result<Comparison> {
    let engine = Engine::find(suite)?;
    let dir = normalized(&std::path::absolute(runs_of(out))?);
    prepare(&dir)?;
    let temporary = WorkDir::new()?;
    let copied = temporary.path().join("bundle");
    copy(out, &copied, false)?;
    let targets = engine.write_mock(&dir.join("mock"), suite, &copied)?;
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let suite = std::path::absolute(suite)?;
    let sides = [("in-place", suite, cwd), ("bundle", suite_of(&copied), copied.clone())];
    let mut found = Vec::new();
    for (side, suite, cwd) in sides {
        observer.note(&format!(
            "running the suite {}",
            if side == "bundle" { "from the bundle" } else { "in place" }
        ));
        let exchange = temporary.path().join(format!("{side}.git"));
        let results = dir.join(side);
        let log = dir.join(format!("{side}.log"));
        engine.run(&suite, &targets, &results, &exchange, &cwd, &log)?;
        found.push((engine.scores(&results)?, log));
    }
    let (bundled, in_place) = (found.pop(), found.pop());
    let (Some((bundled, _)), Some((in_place, log))) = (bundled, in_place) else {
        anyhow::bail!("two runs must have two results");
    };
    let Some(in_place) = in_place else { return Err(engine.cannot_run(&log).into()) };
    let bundled = bundled.unwrap_or_default();
    let tests: Vec<f64> = in_place
        .iter()
        .filter(|((_, _, grader), _)| grader.is_none())
        .map(|(_, (score, _))| score.unwrap_or_default())
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a number of tests")]
    let mean = tests.iter().sum::<f64>() / tests.len().max(1) as f64;
    let engine = match engine {
        Engine::AgentV(_) => format!("agentv {}", agentv.unwrap_or("of an unknown version")),
        Engine::Own(_) => format!("run-evals {}", env!("CARGO_PKG_VERSION")),
    };
    let differences = differences(&in_place, &bundled);
    Ok(Comparison { engine, dir, tests: tests.len(), mean, differences })
}

impl Comparison {
    /// The exit code: different scores count as below the threshold.
    pub fn exit(&self) -> Exit {
        if self.differences.is_empty() { Exit::Ok } else { Exit::BelowThreshold }
    }

    /// The JSON output.
    pub fn to_json(&self) -> Value {
        let score = |score: &Option<Score>| {
            score.as_ref().map(|(score, status)| json!({ "score": score, "status": status }))
        };
        let differences: Vec<Value> = self
            .differences
            .iter()
            .map(|one| {
                json!({
                    "test_id": one.test, "target": one.target, "grader": one.grader,
                    "in_place": score(&one.in_place), "bundle": score(&one.bundle),
                })
            })
            .collect();
        json!({
            "engine": self.engine, "in_place": self.dir.join("in-place"), "bundle": self.dir.join("bundle"),
            "tests": self.tests, "mean_score": self.mean, "equal": differences.is_empty(),
            "differences": differences,
        })
    }

    /// The text output.
    pub fn to_text(&self) -> String {
        let mut text = format!("\nverify-run with {}\n", self.engine);
        for (label, side) in [("in place", "in-place"), ("bundle  ", "bundle")] {
            let _ = writeln!(text, "{label} {}", self.dir.join(side).display());
        }
        let other: std::collections::BTreeSet<(&str, &str)> =
            self.differences.iter().map(|one| (one.test.as_str(), one.target.as_str())).collect();
        let equal = self.tests.saturating_sub(other.len());
        let _ = writeln!(text, "scores   {equal} of {} equal, mean {:.3} in place", self.tests, self.mean);
        if self.mean == 0.0 && self.differences.is_empty() {
            text.push_str("         no grader accepts the mock's answers, so equal scores prove little\n");
        }
        if !self.differences.is_empty() {
            text.push_str("\ndifferences:\n");
        }
        for one in &self.differences {
            let grader = one.grader.as_ref().map(|name| format!(", grader {name}")).unwrap_or_default();
            let name = printable(&format!("{} on {}{grader}", one.test, one.target));
            let _ = writeln!(
                text,
                "  {name}: in place {}, bundle {}",
                shown(one.in_place.as_ref()),
                shown(one.bundle.as_ref())
            );
        }
        text
    }
}

fn shown(score: Option<&Score>) -> String {
    match score {
        None => "no result".to_owned(),
        Some((None, status)) => printable(status),
        Some((Some(score), status)) => format!("{score} ({})", printable(status)),
    }
}

fn differences(in_place: &Scores, bundled: &Scores) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<_> = in_place.keys().chain(bundled.keys()).collect();
    let is_other = |key: &&&(String, String, Option<String>)| in_place.get(**key) != bundled.get(**key);
    keys.iter()
        .filter(is_other)
        .map(|key| Difference {
            test: key.0.clone(),
            target: key.1.clone(),
            grader: key.2.clone(),
            in_place: in_place.get(*key).cloned(),
            bundle: bundled.get(*key).cloned(),
        })
        .collect()
}

/// Prepares the results directory. Removes only results of an earlier run.
fn prepare(dir: &Path) -> anyhow::Result<()> {
    let is_ours = dir.join(MARK).is_file() && !dir.is_symlink();
    if dir.symlink_metadata().is_ok() && !is_ours {
        let message = format!("`{}` exists, and `--verify-run` did not write it", dir.display());
        return Err(Failure::new(Exit::Usage, message)
            .hint("move it, or choose another directory with `-o`")
            .into());
    }
    let cannot = || format!("cannot write into `{}`", dir.display());
    if is_ours {
        fs::remove_dir_all(dir).with_context(cannot)?;
    }
    fs::create_dir_all(dir.join("mock/answers")).with_context(cannot)?;
    fs::write(dir.join(MARK), "{}\n").with_context(cannot)
}

impl Engine {
    /// AgentV, if it is installed for the suite or globally; else our own engine. Our container can reach the Docker socket, so it uses
    /// only our engine, which refuses commands.
    fn find(suite: &Path) -> anyhow::Result<Self> {
        let own = || anyhow::Ok(Self::Own(std::env::current_exe().context("cannot find this program")?));
        if actions::is_our_container() {
            return own();
        }
        let suite = std::path::absolute(suite)?;
        // Directories above the repository may belong to others.
        let root = suite.ancestors().skip(1).find(|dir| dir.join(".git").exists());
        let dirs = suite.ancestors().skip(1).take_while(|dir| root.is_some_and(|root| dir.starts_with(root)));
        let installed =
            dirs.map(|dir| dir.join("node_modules/.bin/agentv")).find(|program| program.is_file());
        match installed.or_else(|| programs::find("agentv", &programs::path())) {
            Some(program) => Ok(Self::AgentV(program)),
            None => own(),
        }
    }

    /// Writes a targets file with a mock for every target of the bundle, and for every other target that the suite names.
    fn write_mock(&self, dir: &Path, suite: &Path, copy: &Path) -> anyhow::Result<PathBuf> {
        let read = |path: &Path| -> anyhow::Result<Value> {
            if !path.exists() {
                return Ok(Value::Null);
            }
            let text = regular_file::read_to_string(path, regular_file::CONTENT)?;
            Ok(Document::parse(path, text)?.root.to_json())
        };
        let (eval, targets) = (read(&copy.join("eval.yaml"))?, read(&copy.join("targets.yaml"))?);
        // Neither a `.jsonl` suite nor a bundle can be read as YAML; `eval.yaml` has all that they name.
        let source = read(suite).unwrap_or_default();
        let mut graders = Vec::new();
        for target in targets["targets"].as_array().into_iter().flatten() {
            graders.extend(["grader_target", "judge_target"].iter().filter_map(|key| target[*key].as_str()));
        }
        grader_targets(&eval, false, &mut graders);
        let listed = targets["targets"].as_array().into_iter().flatten();
        let mut names: Vec<&str> = listed.filter_map(|target| target["name"].as_str()).collect();
        names.extend([&eval, &source].into_iter().flat_map(named_targets));
        names.extend(graders.iter().copied().chain(["default", GRADER]));
        names.sort_unstable();
        names.dedup();
        let mock = |name: &&str| {
            let is_grader = graders.contains(name) || *name == GRADER;
            match self {
                _ if is_grader => json!({ "name": name, "provider": "mock", "response": GRADE }),
                Self::Own(_) => json!({ "name": name, "provider": "mock" }),
                Self::AgentV(_) => {
                    let script = quoted(&dir.join("answer.sh").display().to_string());
                    json!({
                        "name": name, "provider": "cli", "grader_target": GRADER,
                        "command": format!("sh {script} {{EVAL_ID}} {{OUTPUT_FILE}}"),
                    })
                }
            }
        };
        let file = json!({ "targets": names.iter().map(mock).collect::<Vec<_>>() });
        let path = dir.join("targets.yaml");
        fs::write(&path, serde_yaml::to_string(&file)?)?;
        fs::write(dir.join("answer.sh"), ANSWER)?;
        fs::write(dir.join("answers/default"), "mock")?;
        for test in eval["tests"].as_array().into_iter().flatten() {
            let Some(id) = test["id"].as_str().filter(|id| id.len() <= LONGEST_ID) else { continue };
            fs::write(dir.join("answers").join(hex::encode(id)), answer(test))?;
        }
        Ok(path)
    }

    fn run(
        &self,
        suite: &Path,
        targets: &Path,
        results: &Path,
        exchange: &Path,
        cwd: &Path,
        log: &Path,
    ) -> anyhow::Result<()> {
        let (Self::AgentV(program) | Self::Own(program)) = self;
        let mut command = Command::new(program);
        command.arg("eval").arg(suite).arg("--targets").arg(targets).arg("--output").arg(results);
        if let Self::Own(_) = self {
            command.args(["-q", "--fail-on", "never", "--grader-target", GRADER]);
            command.arg("--exchange").arg(exchange);
        }
        let file = fs::File::create(log).with_context(|| format!("cannot write `{}`", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        // The mock needs no key, and AgentV would pass the keys to the suite's commands.
        for (name, value) in std::env::vars_os() {
            if is_secret_name(&name.to_string_lossy()) || is_secret_value(&value.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        let started = command.current_dir(cwd).env("PATH", programs::path()).status();
        // Scores below the threshold also give an exit code; the results show whether it ran.
        started.map(drop).with_context(|| format!("cannot start `{}`", program.display()))
    }

    /// The scores of a run; `None` if it has none.
    fn scores(&self, results: &Path) -> anyhow::Result<Option<Scores>> {
        let (file, status) = match self {
            Self::AgentV(_) => ("index.jsonl", "execution_status"),
            Self::Own(_) => ("scores.jsonl", "status"),
        };
        let Ok(text) = fs::read_to_string(results.join(file)) else { return Ok(None) };
        let mut scores = Scores::new();
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).with_context(|| format!("`{file}` is not JSONL"))?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (test, target) = (text(&row["test_id"]), text(&row["target"]));
            let mut n = 1;
            let mut name = test.clone();
            while scores.contains_key(&(name.clone(), target.clone(), None)) {
                n += 1;
                name = format!("{test}#{n}");
            }
            for (i, grader) in row["scores"].as_array().into_iter().flatten().enumerate() {
                let label = Some(format!("{} {}", i + 1, text(&grader["name"])));
                let score = (grader["score"].as_f64(), text(&grader["verdict"]));
                scores.insert((name.clone(), target.clone(), label), score);
            }
            scores.insert((name, target, None), (row["score"].as_f64(), text(&row[status])));
        }
        Ok((!scores.is_empty()).then_some(scores))
    }

    fn cannot_run(&self, log: &Path) -> Failure {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last =
            lines[lines.len().saturating_sub(SHOWN)..].iter().map(|line| format!("  {}", printable(line)));
        let last = last.collect::<Vec<_>>().join("\n");
        let message = match self {
            Self::AgentV(_) => "the bundle was written, but the suite cannot run in place",
            Self::Own(_) => "the bundle was written, but the suite cannot run without AgentV",
        };
        let hint = match self {
            Self::AgentV(_) => format!("`{}` has AgentV's full output", log.display()),
            Self::Own(_) => "install AgentV: `npm install -g agentv@4`".to_owned(),
        };
        Failure::config(format!("{message}:\n{last}")).hint(hint)
    }
}

/// The targets that a suite and its tests name.
fn named_targets(suite: &Value) -> Vec<&str> {
    let tests = suite["tests"].as_array().into_iter().flatten();
    let mut names = Vec::new();
    for part in std::iter::once(suite).chain(tests) {
        let execution = &part["execution"];
        names.extend([&part["target"], &execution["target"]].into_iter().filter_map(Value::as_str));
        for target in execution["targets"].as_array().into_iter().flatten() {
            names.extend(
                [target, &target["name"], &target["use_target"]].into_iter().filter_map(Value::as_str),
            );
        }
    }
    names.retain(|name| !name.contains("${{"));
    names
}

/// The targets that assertions name.
fn grader_targets<'j>(json: &'j Value, in_assertion: bool, found: &mut Vec<&'j str>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| grader_targets(item, in_assertion, found)),
        Value::Object(map) => {
            for (key, value) in map {
                let is_list = key.starts_with("assert") || key == "evaluators";
                if in_assertion && key == "target" {
                    found.extend(value.as_str());
                }
                grader_targets(value, in_assertion || is_list, found);
            }
        }
        _ => {}
    }
}

/// The mock's answer to a test: the expected output, else the test's input.
fn answer(test: &Value) -> String {
    let texts = |value: &Value| -> String {
        let of = |item: &Value| item.as_str().or_else(|| item["content"].as_str()).map(ToOwned::to_owned);
        match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().filter_map(of).collect::<Vec<_>>().join("\n"),
            other => other.to_string(),
        }
    };
    let expected = texts(&test["expected_output"]);
    if expected.is_empty() { texts(&test["input"]) } else { expected }
}

/// A word quoted for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
