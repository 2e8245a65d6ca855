//! Sound scores, through the command: correct answers in other words and another order, single mistakes, and an independent count.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::stage::{LIBRARY, Stage};
use crate::support::MockLlm;

const MODEL: &str = "meadow/quill-large";
/// The least that a correct answer scores.
const LEAST: f64 = 0.95;

/// One case with the answer that the model gives to it.
struct Trial {
    name: String,
    input: String,
    expected: String,
    answer: String,
}

/// What the entry says: the counts of all cases, and the accuracy of each.
struct Scored {
    counts: [u64; 5],
    shares: Vec<Option<f64>>,
}

/// A word for each number, without a digit: numbers of the input are facts to the scorer.
fn marker(number: usize) -> String {
    let letter = |place: u32| char::from(b'a' + u8::try_from(number / 26_usize.pow(place) % 26).unwrap());
    format!("zq{}{}{}qz", letter(2), letter(1), letter(0))
}

/// Evaluates these trials as the cases of one skill, which is otherwise like `component`.
fn evaluated(component: &Path, extension: &str, trials: &[Trial]) -> Scored {
    let stage = Stage::new();
    let mut answers = String::new();
    for (number, trial) in trials.iter().enumerate() {
        let line = json!({"model": MODEL, "contains": marker(number), "content": trial.answer});
        let _ = writeln!(answers, "{line}");
    }
    stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/models.yaml"), format!("models:\n  - id: {MODEL}\n")).unwrap();
        let skill = dir.join("components/trial");
        std::fs::create_dir_all(skill.join("evals/cases")).unwrap();
        for file in ["prompt.md", "schema.json", "evals/scoring.yaml"] {
            if component.join(file).exists() {
                std::fs::copy(component.join(file), skill.join(file)).unwrap();
            }
        }
        for (number, trial) in trials.iter().enumerate() {
            let case = skill.join(format!("evals/cases/{number:04}"));
            std::fs::create_dir(&case).unwrap();
            std::fs::write(case.join("input.md"), format!("{}\n{}\n", trial.input, marker(number))).unwrap();
            std::fs::write(case.join(format!("expected.{extension}")), &trial.expected).unwrap();
        }
    });
    std::fs::remove_dir_all(stage.workspace.path("library")).unwrap();
    stage.clone_of(LIBRARY, "library", &[]);
    stage.workspace.write("answers.jsonl", answers);
    let file = stage.workspace.path("answers.jsonl");
    let model = format!("--model={MODEL}");
    let llm = MockLlm::start(&[&model, "--mindrouter", "--answers", file.to_str().unwrap()]);
    stage.targets(&llm, "");
    let mut args = stage.args(&["--replicates", "1", "-q", "--output", "out"]);
    "trial".clone_into(&mut args[1]);
    stage.workspace.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
    assert_eq!(llm.counter("ok"), trials.len() as u64);
    let board: Value = serde_json::from_str(&stage.workspace.read("out/leaderboard.json")).unwrap();
    let [entry] = &board["entries"].as_array().unwrap()[..] else { panic!("one entry: {board}") };
    let cases = entry["per_case"].as_array().unwrap();
    assert_eq!(cases.len(), trials.len());
    let names = ["n_correct", "n_incorrect", "n_missing", "n_hallucinated", "n_correct_absent"];
    Scored {
        counts: names.map(|name| entry["accuracy"][name].as_u64().unwrap()),
        shares: cases.iter().map(|case| case["accuracy"].as_f64()).collect(),
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cases of a component that have their input beside them.
fn cases(component: &Path, extension: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for case in std::fs::read_dir(component.join("evals/cases")).unwrap() {
        let case = case.unwrap().path();
        let expected = case.join(format!("expected.{extension}"));
        let input = ["input.md", "input.json"].iter().map(|name| case.join(name)).find(|path| path.exists());
        if let Some(input) = input.filter(|_| expected.exists()) {
            let name = case.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, read(&input), read(&expected)));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{}", component.display());
    found
}

/// The same value: every list and object in the opposite order.
fn permuted(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().rev().map(|(key, value)| (key.clone(), permuted(value))).collect(),
        Value::Array(items) => items.iter().rev().map(permuted).collect(),
        plain => plain.clone(),
    }
}

/// The same value as another model writes it: days with the name of the month, other case, other white space, and other reasons.
fn reworded(value: &Value, key: &str) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), reworded(value, key))).collect(),
        Value::Array(items) => items.iter().map(|item| reworded(item, key)).collect(),
        Value::String(text) if key == "grant_number" => json!(text),
        Value::String(_) if key == "rationale" => json!("Because the second page has it."),
        Value::String(text) => {
            let day = text.parse::<jiff::civil::Date>().map(|day| day.strftime("%B %-d, %Y").to_string());
            json!(day.unwrap_or_else(|_| format!("  {} ", text.to_uppercase().replace(' ', "  "))))
        }
        Value::Number(number) if key == "amount" && number.is_u64() => json!(format!("{number}.00")),
        plain => plain.clone(),
    }
}

fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| *key != "rationale") {
                leaves(value, format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| leaves(value, format!("{at}/{place}"), found));
        }
        _ => found.push(at),
    }
}

/// What a model gets wrong of one field: another value, or none.
fn mistakes(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!("something")],
        Value::Bool(flag) => vec![json!(!flag), Value::Null],
        Value::Number(number) => vec![json!(number.as_f64().unwrap() + 1.0), Value::Null],
        Value::String(text) => {
            let digit = text.find(|c: char| c.is_ascii_digit());
            let digit = digit.map(|at| json!(format!("{}9{}", &text[..at], &text[at..])));
            [Some(Value::Null), Some(json!("Quarry Hill")), digit].into_iter().flatten().collect()
        }
        Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// A correct answer, whose score is at least 95 %, or a wrong one, whose score is less than that of the expected answer.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Itself,
    Correct,
    Wrong,
}

/// Evaluates all variants of all cases of a component; returns the number of mistakes, and the least score of a correct answer.
fn check(
    component: &Path,
    extension: &str,
    variants: impl Fn(&str, &str) -> Vec<(Kind, String)>,
) -> (usize, f64) {
    let (mut trials, mut kinds) = (Vec::new(), Vec::new());
    for (name, input, expected) in cases(component, extension) {
        let all = [(Kind::Itself, expected.clone())].into_iter().chain(variants(&name, &expected));
        for (kind, answer) in all {
            kinds.push(kind);
            let (name, input, expected) = (name.clone(), input.clone(), expected.clone());
            trials.push(Trial { name, input, expected, answer });
        }
    }
    let scored = evaluated(component, extension, &trials);
    let mut least = 1.0_f64;
    for ((trial, kind), share) in trials.iter().zip(&kinds).zip(&scored.shares) {
        let share = share.unwrap();
        let shown = || format!("{} {}: {share}\n{}", component.display(), trial.name, trial.answer);
        match kind {
            Kind::Itself => assert!((share - 1.0).abs() < f64::EPSILON, "{}", shown()),
            Kind::Correct => assert!(share >= LEAST, "{}", shown()),
            Kind::Wrong => assert!(share < 1.0, "{}", shown()),
        }
        if *kind != Kind::Wrong {
            least = least.min(share);
        }
    }
    (kinds.iter().filter(|kind| **kind == Kind::Wrong).count(), least)
}

fn json_variants(expected: &str, correct: Vec<String>) -> Vec<(Kind, String)> {
    let value: Value = serde_json::from_str(expected).unwrap();
    let mut variants = vec![(Kind::Correct, permuted(&value).to_string())];
    variants.extend(correct.into_iter().map(|answer| (Kind::Correct, answer)));
    let mut pointers = Vec::new();
    leaves(&value, String::new(), &mut pointers);
    for pointer in pointers {
        for mistake in mistakes(value.pointer(&pointer).unwrap()) {
            let mut answer = value.clone();
            *answer.pointer_mut(&pointer).unwrap() = mistake;
            variants.push((Kind::Wrong, answer.to_string()));
        }
    }
    variants
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn a_library_without_rules_scores_correct_answers_and_mistakes() {
    let root = fixtures().join("unruled");
    let corruptions = read(&root.join("answers/corruptions.json"));
    let corruptions: Vec<(String, String)> = serde_json::from_str(&corruptions).unwrap();
    let mut all = 0;
    for (skill, extension) in [("site-visit", "json"), ("budget-items", "json"), ("purchase-note", "md")] {
        let component = root.join("components").join(skill);
        assert!(!component.join("evals/scoring.yaml").exists());
        let (mistakes, least) = check(&component, extension, |case, expected| {
            let written = read(&root.join(format!("answers/{skill}/{case}.{extension}")));
            if extension == "json" {
                return json_variants(expected, vec![written]);
            }
            let wrong = corruptions.iter().map(|(from, to)| (Kind::Wrong, expected.replacen(from, to, 1)));
            [(Kind::Correct, written)].into_iter().chain(wrong).collect()
        });
        println!(
            "{skill}: {mistakes} mistakes lower the score; correct answers score at least {:.1} %",
            least * 100.0
        );
        all += mistakes;
    }
    assert!(all >= 40, "{all}");
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn the_invented_library_scores_correct_answers_and_mistakes() {
    let root = fixtures().join("library/components");
    let mut all = 0;
    for skill in ["grant-letter-extraction", "budget-lines", "letter-translation"] {
        let (mistakes, least) = check(&root.join(skill), "json", |_, expected| {
            let value = serde_json::from_str(expected).unwrap();
            json_variants(expected, vec![reworded(&value, "").to_string()])
        });
        println!(
            "{skill}: {mistakes} mistakes lower the score; correct answers score at least {:.1} %",
            least * 100.0
        );
        all += mistakes;
    }
    let (mistakes, least) = check(&root.join("expense-review"), "md", expense_variants);
    println!(
        "expense-review: {mistakes} mistakes lower the score; correct answers score at least {:.1} %",
        least * 100.0
    );
    all += mistakes;
    assert!(all >= 40, "{all}");
}

/// Reviews that say the same in another order and other words, and reviews with one mistake.
fn expense_variants(case: &str, expected: &str) -> Vec<(Kind, String)> {
    let (correct, wrong): (&str, &[(&str, &str)]) = match case {
        "coffee-machine" => (
            "# Review\n\n## Next steps\n\n* [ ] Charge it to another account\n\n## Rules\n\n* [ ] Food and drink are not paid\n\n\
             ## Decision\n\n**Amount:** USD 249\n**Outcome:** Unallowable\n",
            &[
                ("unallowable", "allowable"),
                ("$249.00", "$294.00"),
                ("- [ ] Food", "- [x] Food"),
                ("Charge it to another account", "Pay it from the grant"),
            ],
        ),
        "conference-flight" => (
            "# Review\n\n## Rules\n\n- [ ] Consent of the officer before booking\n- [X] travel in economy class\n\n## Decision\n\n\
             **Amount:** $612.4\n**Outcome:** Allowable\n\nTravel in economy class: the flight.\n\n\
             ## Next steps\n\n1. Ask for the consent in writing.\n\n- [x] Keep the invoice\n- [ ] File the consent\n",
            &[
                ("** allowable", "** unallowable"),
                ("$612.40", "$621.40"),
                ("- [x] Travel", "- [ ] Travel"),
                ("- [ ] Consent", "- [x] Consent"),
                ("- [x] Keep the invoice\n", ""),
            ],
        ),
        other => panic!("{other}"),
    };
    let wrong = wrong.iter().map(|(from, to)| {
        assert!(expected.contains(from), "{from}");
        (Kind::Wrong, expected.replacen(from, to, 1))
    });
    [(Kind::Correct, correct.to_owned())].into_iter().chain(wrong).collect()
}

/// The threshold of 0.4 was not chosen with these texts.
#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn further_prose_is_recognized_in_other_words_and_its_mistakes_are_found() {
    let texts: Value =
        serde_json::from_str(&read(&fixtures().with_file_name("scoring").join("rewordings.json"))).unwrap();
    let (mut trials, mut kinds) = (Vec::new(), Vec::new());
    for text in texts.as_array().unwrap() {
        for kind in ["correct", "wrong"] {
            for answer in text[kind].as_array().unwrap() {
                let [expected, answer] =
                    [&text["expected"], answer].map(|text| json!({"text": text}).to_string());
                trials.push(Trial { name: kind.to_owned(), input: String::new(), expected, answer });
                kinds.push(kind == "correct");
            }
        }
    }
    let scored = evaluated(&fixtures().join("unruled/components/budget-items"), "json", &trials);
    for ((trial, is_correct), share) in trials.iter().zip(&kinds).zip(&scored.shares) {
        let expected = if *is_correct { 1.0 } else { 0.0 };
        assert!((share.unwrap() - expected).abs() < 1e-9, "{}\n{}", trial.expected, trial.answer);
    }
    let correct = kinds.iter().filter(|is| **is).count();
    println!("{correct} correct rewordings are right, {} mistakes are wrong", kinds.len() - correct);
}

const TEXTS: [&str; 12] = [
    "x",
    " X ",
    "1",
    "7.50",
    "true",
    "",
    "fen",
    "Moss Hill",
    "Two boats left Alder Bay at 9 and reached the island before noon.",
    "Before noon two boats that left Alder Bay at 9 had reached the island.",
    "Two boats left Alder Bay at 8 and did not reach the island.",
    "The grant pays for tools, travel and the salary of a student who maps the reed beds in summer",
];

fn leaf(random: &mut fastrand::Rng) -> Value {
    match random.u8(..5) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.i8(-2..9)),
        _ => json!(TEXTS[random.usize(..TEXTS.len())]),
    }
}

fn tree(random: &mut fastrand::Rng, depth: u8) -> Value {
    match random.u8(..4) {
        0 if depth > 0 => {
            let count = random.usize(..4);
            let key = |random: &mut fastrand::Rng| ["a", "b", "k"][random.usize(..3)].to_owned();
            (0..count).map(|_| (key(random), tree(random, depth - 1))).collect()
        }
        1 | 2 if depth > 0 => (0..random.usize(..5)).map(|_| tree(random, depth - 1)).collect(),
        _ => leaf(random),
    }
}

/// The same tree with a few leaves changed and its lists in another order.
fn varied(value: &Value, random: &mut fastrand::Rng) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), varied(value, random))).collect(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|value| varied(value, random)).collect();
            random.shuffle(&mut items);
            items.truncate(items.len() - usize::from(!items.is_empty() && random.u8(..5) == 0));
            Value::Array(items)
        }
        _ if random.u8(..4) == 0 => leaf(random),
        plain => plain.clone(),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn an_independent_count_in_python_agrees_with_the_entry_of_200_random_trees() {
    let mut random = fastrand::Rng::with_seed(2026);
    let (mut trials, mut lines) = (Vec::new(), String::new());
    for number in 0..200 {
        let expected = json!({"a": tree(&mut random, 3), "list": tree(&mut random, 2)});
        let answer = if number % 4 == 0 {
            json!({"a": tree(&mut random, 3), "k": tree(&mut random, 1)})
        } else {
            varied(&expected, &mut random)
        };
        let input = "Alder Bay, 9".to_owned();
        let given = format!("{input}\n{}\n", marker(number));
        let _ = writeln!(lines, "{}", json!({"expected": expected, "answer": answer, "input": given}));
        let (expected, answer) = (expected.to_string(), answer.to_string());
        trials.push(Trial { name: number.to_string(), input, expected, answer });
    }
    let scored = evaluated(&fixtures().join("unruled/components/budget-items"), "json", &trials);

    let script = fixtures().with_file_name("scoring").join("count.py");
    let mut python = Command::new("python3");
    let mut python = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let counted: Vec<[u64; 5]> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(counted.len(), 200);
    let mut sum = [0; 5];
    for ((trial, share), counts) in trials.iter().zip(&scored.shares).zip(&counted) {
        let whole: u64 = counts[..4].iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let expected = (whole > 0).then(|| counts[0] as f64 / whole as f64);
        let agrees = match (share, expected) {
            (Some(share), Some(expected)) => (share - expected).abs() < 1e-4,
            (share, expected) => share.is_none() && expected.is_none(),
        };
        assert!(agrees, "{share:?}, by Python {counts:?}: {}\n{}", trial.expected, trial.answer);
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    assert_eq!(scored.counts, sum, "correct, incorrect, missing, hallucinated, correctly absent");
    assert!(sum[..4].iter().all(|count| *count > 20), "the trees have too little of something: {sum:?}");
    println!("200 trees, counted twice: {sum:?}");
}
