//! Runs the rules of `docs/scoring.md`, and checks properties of any answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::answer::Outcome;
use super::*;
use crate::config::{Document, ModelSettings, Skill};
use crate::model::{Accuracy, CommitSha, Entry, Ratio, Replicates};

const DOC: &str = include_str!("../../../docs/scoring.md");

/// A skill with one case, read from files.
fn skill(format: &str, rules: &Value, expected: &str, input: &str) -> Skill {
    skill_of(format, rules, &[("one", expected)], input)
}

fn skill_of(format: &str, rules: &Value, cases: &[(&str, &str)], input: &str) -> Skill {
    let temp = tempfile::tempdir().unwrap();
    let component = temp.path().join("components/x");
    let write = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(&component.join("prompt.md"), "---\nversion: 1.0.0\n---\n## Prompt\nDo it.\n");
    write(&component.join("evals/scoring.yaml"), &rules.to_string());
    let catalog = json!({"components": [{"slug": "x", "contracts": {"output": {"format": format}}}]});
    write(&temp.path().join("component_catalog.json"), &catalog.to_string());
    let extension = if format == "markdown" { "md" } else { "json" };
    for (name, expected) in cases {
        let case = component.join("evals/cases").join(name);
        write(&case.join("input.md"), input);
        write(&case.join(format!("expected.{extension}")), expected);
    }
    Skill::read(temp.path(), &"x".parse().unwrap(), None).unwrap()
}

fn counts(rules: &Value, expected: &Value, answer: &str) -> [u64; 5] {
    let skill = skill("json_object", rules, &expected.to_string(), "input");
    as_list(&score_case(&skill, answer))
}

/// The counts of one answer to a skill with one case.
pub(super) fn score_case(skill: &Skill, answer: &str) -> Accuracy {
    let answers = BTreeMap::from([((skill.cases[0].id.clone(), 1), text_answer(answer))]);
    entry_of(skill, 1, &answers).accuracy
}

fn text_answer(text: impl Into<String>) -> Answer {
    Answer { outcome: Outcome::Text { text: text.into(), truncated: false }, tokens: None }
}

pub(super) fn as_list(counts: &Accuracy) -> [u64; 5] {
    [counts.n_correct, counts.n_incorrect, counts.n_missing, counts.n_hallucinated, counts.n_correct_absent]
}

fn entry_of(skill: &Skill, replicates: u32, answers: &Answers) -> Entry {
    let commit: CommitSha = "a".repeat(40).parse().unwrap();
    let model = ModelSettings {
        id: "m".to_owned(),
        temperature: None,
        max_tokens: None,
        seed: None,
        structured_output: None,
        timeout: None,
    };
    let replicates: Replicates = replicates.try_into().unwrap();
    let subject = Subject {
        skill,
        prompt_commit: &commit,
        dataset_commit: None,
        model: &model,
        alias_target: None,
        replicates,
    };
    entry(&subject, answers)
}

/// The code blocks of the document that begin with `# example`.
fn examples() -> Vec<Value> {
    DOC.split("```yaml\n# example\n")
        .skip(1)
        .map(|rest| {
            let block = rest.split("\n```\n").next().unwrap();
            Document::parse("docs/scoring.md", block)
                .unwrap_or_else(|error| panic!("{block}\n{error}"))
                .root
                .to_json()
        })
        .collect()
}

#[test]
fn the_examples_of_the_docs_are_correct() {
    let examples = examples();
    assert!(examples.len() >= 11, "the test no longer sees the examples: {}", examples.len());
    let mut repeated = 0;
    for example in examples {
        let format = example["format"].as_str().unwrap_or("json_object");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let rules = example.get("rules").cloned().unwrap_or_else(|| json!({}));
        let input = example["input"].as_str().unwrap_or("input");
        let skill = skill(format, &rules, &text(&example["expected"]), input);
        let list = match example.get("answers") {
            Some(answers) => answers.as_array().unwrap().clone(),
            None => vec![example["answer"].clone()],
        };
        let answers: Answers =
            (1..).zip(&list).map(|(n, answer)| (("one".to_owned(), n), text_answer(text(answer)))).collect();
        let entry = entry_of(&skill, u32::try_from(list.len()).unwrap(), &answers);
        let of = &entry.accuracy;
        let found = json!({
            "correct": of.n_correct, "incorrect": of.n_incorrect, "missing": of.n_missing,
            "hallucinated": of.n_hallucinated, "correct_absent": of.n_correct_absent,
        });
        assert_eq!(found, example["counts"], "{example:#}");
        assert_eq!(json!(of.score), example["accuracy"], "{example:#}");
        if let Some(expected) = example.get("reproducibility") {
            repeated += 1;
            let of = &entry.reproducibility;
            let found = json!({
                "score": of.score, "fields_probed": of.fields_probed,
                "fields_full_agreement": of.fields_full_agreement, "exact_output_rate": of.exact_output_rate,
            });
            assert_eq!(&found, expected, "{example:#}");
        }
    }
    assert_eq!(repeated, 1);
}

#[test]
fn the_table_of_values_in_the_docs_is_symmetric() {
    let mut rows = 0;
    for line in DOC.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let ["", expected, answer, kind, verdict @ ("yes" | "no"), ""] = cells[..] else { continue };
        rows += 1;
        let [expected, answer]: [Value; 2] =
            [expected, answer].map(|text| serde_json::from_str(text).unwrap());
        let rules = if kind.is_empty() { json!({}) } else { json!({"types": {"v": kind}}) };
        for (a, b) in [(&expected, &answer), (&answer, &expected)] {
            let found = counts(&rules, &json!({"v": a}), &json!({"v": b}).to_string());
            let wanted = if verdict == "yes" { [1, 0, 0, 0, 0] } else { [0, 1, 0, 0, 0] };
            assert_eq!(found, wanted, "{line}");
        }
    }
    assert!(rows >= 30, "the test no longer sees the rows: {rows}");
}

/// Calculated by hand: rules, expected, answer, and correct, incorrect, missing, hallucinated, correctly absent.
#[test]
fn cases_calculated_by_hand() {
    let none = json!({});
    let table: &[(&Value, Value, Value, [u64; 5])] = &[
        (&none, json!({}), json!({}), [0, 0, 0, 0, 1]),
        (&none, json!([]), json!([]), [0, 0, 0, 0, 1]),
        (&none, json!({}), json!({"a": null}), [0, 0, 0, 0, 1]),
        (&none, json!({}), json!({"a": {"b": [1, null, "x"]}}), [0, 0, 0, 2, 0]),
        (&none, json!({"a": null}), json!({}), [0, 0, 0, 0, 1]),
        (&none, json!({"a": 1}), json!({"b": null}), [0, 0, 1, 0, 0]),
        (&none, json!({"a": null}), json!({"a": {"b": 1, "c": 2}}), [0, 0, 0, 2, 0]),
        (&none, json!({"a": 1}), json!({"a": {"b": 1}}), [0, 1, 0, 0, 0]),
        (&none, json!({"a": 1}), json!({"a": []}), [0, 0, 1, 0, 0]),
        (&none, json!({"a": {"b": 1, "c": null}}), json!({"a": 7}), [0, 0, 1, 1, 1]),
        (&none, json!({"a": [1, 2]}), json!({"a": 1}), [0, 0, 2, 1, 0]),
        (&none, json!({"a": [1, 2]}), json!({"a": {"b": 3}}), [0, 0, 2, 1, 0]),
        (&none, json!({"a": [1, 2]}), json!({"a": [1]}), [1, 0, 1, 0, 0]),
        (&none, json!({"a": [1]}), json!({"a": [1, 2, null]}), [1, 0, 0, 1, 0]),
        (&none, json!({"a": [[1, 2], [3]]}), json!({"a": [[1], [3, 4]]}), [2, 0, 1, 1, 0]),
        (&none, json!({"a": [null, 1]}), json!({"a": [1, null]}), [1, 0, 0, 0, 0]),
        (&json!({"order": ["a"]}), json!({"a": [null, 1]}), json!({"a": [1, null]}), [0, 0, 1, 1, 0]),
        (&none, json!([{"a": 1}]), json!({"a": 1}), [0, 0, 1, 1, 0]),
        (&none, json!({"a": "ä", "b": "e\u{301}"}), json!({"a": "Ä", "b": "E\u{301}"}), [2, 0, 0, 0, 0]),
        (&none, json!({"a": false, "b": 0}), json!({"a": 0, "b": false}), [0, 2, 0, 0, 0]),
        (
            &json!({"set": ["a"]}),
            json!({"a": ["x", "x", "y"]}),
            json!({"a": ["x", "y", "y"]}),
            [2, 0, 1, 1, 0],
        ),
        (&json!({"set": ["a"]}), json!({"a": [1, "1"]}), json!({"a": ["1", "1"]}), [2, 0, 0, 0, 0]),
        (
            &json!({"set": ["a"]}),
            json!({"a": [{"k": 1, "n": null}, {"k": 2}]}),
            json!({"a": [{"k": 2}, {"k": 1.0}]}),
            [2, 0, 0, 0, 0],
        ),
        (&json!({"set": ["a"]}), json!({"a": [{"k": 1, "l": 2}]}), json!({"a": 5}), [0, 0, 1, 1, 0]),
        (&json!({"set": ["a"]}), json!({"a": null}), json!({"a": ["x", {"k": 1, "l": 2}]}), [0, 0, 0, 2, 0]),
        (
            &json!({"set": ["a"], "tolerance": {"a[]": 1}}),
            json!({"a": [10, 12]}),
            json!({"a": [11, 9]}),
            [2, 0, 0, 0, 0],
        ),
        (
            &json!({"set": ["a"], "ignore": ["a[].n"]}),
            json!({"a": [{"k": 1, "n": "x"}]}),
            json!({"a": [{"k": 1, "n": "y"}]}),
            [1, 0, 0, 0, 0],
        ),
        (
            &json!({"key": {"a": ["k"]}}),
            json!({"a": [{"k": 1, "v": 1}, {"k": 1, "v": 2}]}),
            json!({"a": [{"k": 1, "v": 1}, {"k": "1", "v": 2}]}),
            [4, 0, 0, 0, 0],
        ),
        (
            &json!({"key": {"a": ["k"]}}),
            json!({"a": [{"k": null, "v": 1}]}),
            json!({"a": [{"v": 1}]}),
            [1, 0, 0, 0, 1],
        ),
        (
            &json!({"key": {"a": ["k"]}}),
            json!({"a": [{"k": 1, "v": 1}]}),
            json!({"a": ["x", {"k": 2, "v": 1}]}),
            [0, 0, 2, 3, 0],
        ),
        (
            &json!({"key": {"$": ["c", "s"]}}),
            json!([{"c": "A", "s": null, "v": 1}, {"c": "A", "s": "x", "v": 2}]),
            json!([{"c": "a", "s": "X", "v": 2}, {"c": "A", "v": 3}]),
            [4, 1, 0, 0, 1],
        ),
        (&json!({"contains": ["a"]}), json!({"a": []}), json!({"a": ["x"]}), [0, 0, 0, 0, 0]),
        (&json!({"contains": ["a"]}), json!({"a": ["x", "y"]}), json!({"a": ["z", "X"]}), [1, 0, 1, 0, 0]),
        (&json!({"contains": ["a"]}), json!({"a": "x"}), json!({"a": null}), [0, 0, 1, 0, 0]),
        (
            &json!({"in_input": ["a", "b"]}),
            json!({"a": "q", "b": "q"}),
            json!({"a": "INPUT", "b": "output"}),
            [1, 1, 0, 0, 0],
        ),
        (
            &json!({"tolerance": {"a": "10%", "b": 0}}),
            json!({"a": -100, "b": 1}),
            json!({"a": "-110", "b": 1.0001}),
            [1, 1, 0, 0, 0],
        ),
        // Large numbers: off by one is wrong; small ones: binary rounding does not matter.
        (
            &json!({"tolerance": {"a": 1, "b": 1, "c": 0, "d": 0.05, "e": "1%"}}),
            json!({"a": 3_000_000_000_u64, "b": 3_000_000_000_u64, "c": 123_456_789_012_u64, "d": 0.8, "e": 700}),
            json!({"a": 3_000_000_002_u64, "b": 3_000_000_001_u64, "c": 123_456_789_013_u64, "d": 0.75, "e": 707}),
            [3, 2, 0, 0, 0],
        ),
        (
            &json!({"tolerance": {"a": 5}, "types": {"a": "money"}}),
            json!({"a": "$100"}),
            json!({"a": "€101"}),
            [0, 1, 0, 0, 0],
        ),
        (&json!({"ignore": ["a"]}), json!({"a": {"b": 1}}), json!({"a": {"b": 2, "c": 3}}), [0, 0, 0, 0, 0]),
        (&json!({"ignore": ["$"]}), json!({"a": 1}), json!({"a": 2}), [0, 0, 0, 0, 0]),
        (
            &json!({"ignore": ["*.n"]}),
            json!({"a": {"n": 1}}),
            json!({"a": {"n": 2}, "b": {"n": 3}, "n": 4}),
            [0, 0, 0, 1, 0],
        ),
    ];
    for (rules, expected, answer, wanted) in table {
        assert_eq!(counts(rules, expected, &answer.to_string()), *wanted, "{rules} {expected} {answer}");
    }
}

#[test]
fn unreadable_answers_are_missing_in_all_their_fields() {
    let expected = json!({"a": 1, "b": [2, null], "c": null});
    for answer in ["", "no", "{", "{\"a\": NaN}", "{\"a\": 1e999}", "{} {}", &"[".repeat(500)] {
        assert_eq!(counts(&json!({}), &expected, answer), [0, 0, 2, 0, 0], "{answer}");
    }
    let skill = skill("json_object", &json!({}), &expected.to_string(), "input");
    let entry = entry_of(&skill, 3, &BTreeMap::new());
    assert_eq!((entry.calls.api_error, entry.accuracy.n_missing), (3, 6));
    assert_eq!(entry.accuracy.score, Ratio::of(0, 1));
    assert_eq!(entry.reproducibility.score, Ratio::of(0, 1), "a model that always fails is not reproducible");
    assert_eq!(entry.reproducibility.exact_output_rate, Ratio::of(0, 1));
}

#[test]
fn calls_tokens_and_replicates_are_summed_up() {
    let skill = skill_of("json_object", &json!({}), &[("a", "{\"v\": 1}"), ("b", "{\"v\": 2}")], "input");
    let tokens = Some(crate::model::TokenUsage { input: 10, output: 5, ..Default::default() });
    let cut = Answer { outcome: Outcome::Text { text: "{\"v\": ".to_owned(), truncated: true }, tokens };
    let whole = Answer { outcome: Outcome::Text { text: "{\"v\": 1}".to_owned(), truncated: true }, tokens };
    let answers: Answers = [
        (("a".to_owned(), 1), whole),
        (("a".to_owned(), 2), text_answer("{\"v\": 1}\n")),
        (("b".to_owned(), 1), cut),
    ]
    .into();
    let entry = entry_of(&skill, 2, &answers);
    let shown = serde_json::to_string_pretty(&json!({
        "cases": entry.cases, "calls": entry.calls, "schema_valid": entry.schema_valid, "accuracy": entry.accuracy,
        "reproducibility": entry.reproducibility, "tokens": entry.tokens, "per_case": entry.per_case,
    }));
    insta::assert_snapshot!(shown.unwrap(), @r#"
    {
      "cases": {
        "total": 2,
        "run": 2,
        "skipped": []
      },
      "calls": {
        "attempted": 4,
        "ok": 2,
        "api_error": 1,
        "parse_error": 1,
        "truncated": 2
      },
      "schema_valid": {
        "n": 0,
        "of": 0,
        "rate": null
      },
      "accuracy": {
        "score": 0.5,
        "interval": [
          0.0,
          1.0
        ],
        "n_correct": 2,
        "n_incorrect": 0,
        "n_missing": 2,
        "n_hallucinated": 0,
        "n_correct_absent": 0
      },
      "reproducibility": {
        "score": 0.5,
        "interval": [
          0.0,
          1.0
        ],
        "fields_probed": 2,
        "fields_full_agreement": 1,
        "exact_output_rate": 0.5
      },
      "tokens": {
        "prompt": 20,
        "completion": 10
      },
      "per_case": [
        {
          "case": "a",
          "accuracy": 1.0,
          "reproducibility": 1.0,
          "ok": 2,
          "errors": 0
        },
        {
          "case": "b",
          "accuracy": 0.0,
          "reproducibility": 0.0,
          "ok": 0,
          "errors": 2
        }
      ]
    }
    "#);
    let once = entry_of(&skill, 1, &answers);
    assert_eq!(once.reproducibility, crate::model::Reproducibility::default());
    assert_eq!(once.per_case[0].reproducibility, None);
}

#[test]
fn a_million_leaves_cost_little() {
    let rules = json!({"ignore": ["**.x"], "types": {"**.d": "date"}, "key": {"list": ["k"]}});
    let expected = json!({"list": [{"k": 1, "v": 2}], "a": 1});
    let mut answer = String::from("{\"list\": [");
    for n in 0..500_000 {
        let _ = write!(answer, "{}{{\"k\": {n}, \"v\": 2}}", if n == 0 { "" } else { "," });
    }
    answer.push_str("]}");
    let skill = skill("json_object", &rules, &expected.to_string(), "input");
    // With nonlinear work, this test would not finish.
    let found = score_case(&skill, &answer);
    assert_eq!((found.n_correct, found.n_missing, found.n_hallucinated), (2, 1, 999_998));
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-20_i64..20).prop_map(Value::from),
        prop_oneof![
            Just("x"),
            Just(" X "),
            Just("1"),
            Just("1.0"),
            Just("$1"),
            Just("1%"),
            Just("2026-01-02"),
            Just(""),
            Just("01/02/2026")
        ]
        .prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[abk]", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

fn rules() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"set": ["a", "$", "a.b"]})),
        Just(json!({"key": {"$": ["k"], "a": ["k", "b"]}})),
        Just(json!({"contains": ["a"], "ignore": ["**.b"]})),
        Just(json!({"types": {"**.a": "number", "**.k": "date_mdy"}, "tolerance": {"**.a": 2}})),
    ]
}

fn as_rules(value: &Value) -> crate::model::FieldRules {
    skill("json_object", value, "{}", "input").rules
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_expected_answer_itself_is_fully_correct(value in tree(), rules in rules()) {
        let rules = as_rules(&rules);
        let found = compare::count(&value, &value, &matcher::Matcher::new(&rules), &compare::Case::new(""));
        prop_assert_eq!((found.incorrect, found.missing, found.hallucinated), (0, 0, 0), "{:?}", found);
        prop_assert_eq!(found.correct, compare::present(&value, &matcher::Matcher::new(&rules)));
    }

    #[test]
    fn every_expected_field_is_counted_once(expected in tree(), answer in tree(), rules in rules()) {
        let rules = as_rules(&rules);
        let matcher = matcher::Matcher::new(&rules);
        let found = compare::count(&expected, &answer, &matcher, &compare::Case::new(""));
        let wanted = compare::present(&expected, &matcher);
        prop_assert_eq!(found.correct + found.incorrect + found.missing, wanted);
        prop_assert!(found.hallucinated <= compare::present(&answer, &matcher));
        let share = Ratio::of(found.correct, found.counted());
        prop_assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share.as_f64())));
        let unanswered = compare::count_unanswered(&expected, &matcher);
        prop_assert_eq!((unanswered.missing, unanswered.counted()), (wanted, wanted));
    }

    #[test]
    fn the_order_of_a_set_does_not_matter(
        expected in proptest::collection::vec(tree(), 0..6),
        answer in proptest::collection::vec(tree(), 0..6),
        seed in any::<u64>(),
    ) {
        let rules = as_rules(&json!({"set": ["$"]}));
        let matcher = matcher::Matcher::new(&rules);
        let first = compare::count(&json!(expected), &json!(answer), &matcher, &compare::Case::new(""));
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut expected, mut answer) = (expected, answer);
        random.shuffle(&mut expected);
        random.shuffle(&mut answer);
        prop_assert_eq!(compare::count(&json!(expected), &json!(answer), &matcher, &compare::Case::new("")), first);
    }

    #[test]
    fn value_equality_is_symmetric_and_reflexive(a in leaf(), b in leaf()) {
        for (_, kind) in crate::model::FieldType::WORDS {
            for kind in [None, Some(kind)] {
                prop_assert!(reading::same(&a, &a, kind));
                prop_assert_eq!(reading::same(&a, &b, kind), reading::same(&b, &a, kind));
            }
        }
    }

    #[test]
    fn any_text_can_be_an_answer(text in any::<String>(), marks in "[#*\\[\\] x`~:.1\n-]{0,80}") {
        let none = crate::model::FieldRules::default();
        let matcher = matcher::Matcher::new(&none);
        for text in [&text, &marks] {
            let tree = markdown::tree(text, &matcher);
            let found = compare::count(&tree, &tree, &matcher, &compare::Case::new(""));
            prop_assert_eq!((found.incorrect, found.missing, found.hallucinated), (0, 0, 0));
            answer::parse(text, crate::config::OutputFormat::JsonObject, &matcher);
        }
    }

    #[test]
    fn an_interval_contains_its_share(clusters in proptest::collection::vec((0_u64..9, 0_u64..9), 0..8), seed in any::<u64>()) {
        let clusters: Vec<(u64, u64)> = clusters.into_iter().map(|(a, b)| (a.min(b), b)).collect();
        let sum = clusters.iter().fold((0, 0), |sum, cluster| (sum.0 + cluster.0, sum.1 + cluster.1));
        let interval = crate::scoring::stats::cluster_interval(&clusters, seed);
        if let Some([low, high]) = interval {
            let share = Ratio::of(sum.0, sum.1).unwrap();
            prop_assert!(low <= share && share <= high);
        }
        prop_assert_eq!(crate::scoring::stats::cluster_interval(&clusters, seed), interval);
    }
}
