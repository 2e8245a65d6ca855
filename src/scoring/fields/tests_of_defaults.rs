//! The defaults, without any rule: a fixture library, and an independent count in Python.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::tests::{as_list, score_case};
use super::{compare, matcher};
use crate::config::{Expected, Skill};
use crate::model::FieldRules;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills/unruled")
}

fn skills() -> Vec<Skill> {
    let names = ["site-visit", "budget-items", "purchase-note"];
    names.map(|name| Skill::read(&fixture(), &name.parse().unwrap(), None).unwrap()).into()
}

fn share(skill: &Skill, answer: &str) -> f64 {
    score_case(skill, answer).score.unwrap().as_f64()
}

#[test]
fn correct_answers_in_other_words_and_order_score_at_least_95_percent() {
    for skill in skills() {
        assert_eq!((skill.rules.rules.len(), skill.cases.len()), (0, 1), "{}", skill.name);
        let folder = fixture().join("answers").join(skill.name.as_str());
        let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let found = share(&skill, &std::fs::read_to_string(file).unwrap());
        assert!(found >= 0.95, "{}: {found}", skill.name);
        assert!((share(&skill, &expected(&skill)) - 1.0).abs() < f64::EPSILON, "{}", skill.name);
    }
}

fn expected(skill: &Skill) -> String {
    match &skill.cases[0].expected {
        Expected::Json(value) => value.to_string(),
        Expected::Markdown(text) => text.clone(),
    }
}

#[test]
fn every_single_corruption_lowers_the_score() {
    let mut corruptions = 0;
    for skill in skills() {
        match &skill.cases[0].expected {
            Expected::Json(value) => {
                let mut pointers = Vec::new();
                leaves(value, String::new(), &mut pointers);
                for pointer in pointers {
                    for changed in changes(value.pointer(&pointer).unwrap()) {
                        let mut answer = value.clone();
                        *answer.pointer_mut(&pointer).unwrap() = changed.clone();
                        assert!(
                            share(&skill, &answer.to_string()) < 1.0,
                            "{} {pointer}: {changed}",
                            skill.name
                        );
                        corruptions += 1;
                    }
                }
            }
            Expected::Markdown(text) => {
                let list = std::fs::read_to_string(fixture().join("answers/corruptions.json")).unwrap();
                let list: Vec<(String, String)> = serde_json::from_str(&list).unwrap();
                for (from, to) in list {
                    assert!(text.contains(&from), "{from}");
                    let found = share(&skill, &text.replacen(&from, &to, 1));
                    assert!(found < 1.0, "{from} → {to}: {found}");
                    corruptions += 1;
                }
            }
        }
    }
    assert!(corruptions >= 40, "{corruptions}");
}

fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| leaves(value, format!("{at}/{key}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| leaves(value, format!("{at}/{place}"), found));
        }
        _ => found.push(at),
    }
}

/// Ways in which a model could get a value wrong.
fn changes(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!("something")],
        Value::Bool(flag) => vec![json!(!flag), Value::Null],
        Value::Number(number) => vec![json!(number.as_f64().unwrap() + 1.0), Value::Null],
        Value::String(text) => {
            let mut changes =
                vec![Value::Null, json!("Something that is nowhere in the whole report, ever.")];
            let digit = text.find(|c: char| c.is_ascii_digit());
            changes.extend(digit.map(|at| json!(format!("{}9{}", &text[..at], &text[at..]))));
            if let Some(name) = text.split(' ').skip(1).find(|word| word.starts_with(char::is_uppercase)) {
                changes.push(json!(text.replacen(name, "Quarry", 1)));
            }
            changes
        }
        Value::Array(_) | Value::Object(_) => Vec::new(),
    }
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
            (0..count)
                .map(|_| (["a", "b", "k"][random.usize(..3)].to_owned(), tree(random, depth - 1)))
                .collect()
        }
        1 | 2 if depth > 0 => (0..random.usize(..5)).map(|_| tree(random, depth - 1)).collect(),
        _ => leaf(random),
    }
}

/// The same tree with a few leaves changed and its lists reordered.
fn varied(value: &Value, random: &mut fastrand::Rng) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), varied(value, random))).collect(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|value| varied(value, random)).collect();
            random.shuffle(&mut items);
            if random.u8(..5) == 0 {
                items.pop();
            }
            Value::Array(items)
        }
        _ if random.u8(..4) == 0 => leaf(random),
        plain => plain.clone(),
    }
}

#[test]
fn an_independent_count_in_python_agrees_on_random_trees() {
    let mut random = fastrand::Rng::with_seed(22);
    let cases: Vec<(Value, Value)> = (0..400)
        .map(|number| {
            let expected = json!({"a": tree(&mut random, 3), "list": tree(&mut random, 2)});
            let answer = if number % 4 == 0 { tree(&mut random, 3) } else { varied(&expected, &mut random) };
            (expected, answer)
        })
        .collect();
    let input = "Alder Bay, 9";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scoring/count.py");
    let mut python =
        Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let line = |(expected, answer): &(Value, Value)| {
        json!({"expected": expected, "answer": answer, "input": input}).to_string()
    };
    let lines: Vec<String> = cases.iter().map(line).collect();
    let lines = format!("{}\n", lines.join("\n"));
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), cases.len());
    let (rules, mut correct) = (FieldRules::default(), 0);
    let case = compare::Case::new(input);
    for ((expected, answer), line) in cases.iter().zip(text.lines()) {
        let found = compare::count(expected, answer, &matcher::Matcher::new(&rules), &case);
        correct += found.correct;
        let counted: [u64; 5] = serde_json::from_str(line).unwrap();
        assert_eq!(as_list(&found.accuracy()), counted, "{expected}\n{answer}");
    }
    assert!(correct > 200, "the trees are too different: {correct}");
}
