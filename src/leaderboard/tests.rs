//! Bytes, mistakes and changes.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::model::{
    Accuracy, Calls, CaseCounts, CaseFigures, CommitSha, Digest, ENTRY_FORMAT, ModelParams, Prose, Ratio,
    Reproducibility, SchemaFit, SkipReason, Skipped, StructuredOutput, TokenSums,
};

fn commit(digit: char) -> CommitSha {
    digit.to_string().repeat(40).parse().unwrap()
}

/// An entry with consistent numbers: one case, two replicates, `correct` of 10 fields.
fn entry(model: &str, digit: char, version: &str, correct: u64) -> Entry {
    let ratio = |part, whole| Ratio::of(part, whole);
    Entry {
        skill: "letters".parse().unwrap(),
        skill_version: version.to_owned(),
        prompt_commit: commit(digit),
        prompt_sha256: Digest::of(b"prompt"),
        prompt_body_sha256: Digest::of(b"body"),
        dataset_commit: None,
        cases_sha256: Digest::of(b"cases"),
        model: model.to_owned(),
        alias_target: None,
        params: ModelParams {
            temperature: Some(0.1),
            max_tokens: Some(16_384),
            seed: None,
            structured_output: StructuredOutput::JsonSchema,
        },
        replicates: 2.try_into().unwrap(),
        scorer_version: 2,
        rules_sha256: Some(Digest::of(b"rules")),
        cases: CaseCounts {
            total: 2,
            run: 1,
            skipped: vec![Skipped { case: "scan".to_owned(), reason: SkipReason::NoInput }],
        },
        calls: Calls { attempted: 2, ok: 2, ..Calls::default() },
        schema_valid: SchemaFit { n: 1, of: 2, rate: ratio(1, 2) },
        accuracy: Accuracy {
            score: ratio(correct, 10),
            interval: None,
            n_correct: correct,
            n_incorrect: 10 - correct,
            n_missing: 0,
            n_hallucinated: 0,
            n_correct_absent: 3,
        },
        prose: Some(Prose {
            score: ratio(correct.min(1), 1),
            overlap: ratio(3, 4),
            n_correct: correct.min(1),
            n_incorrect: 1 - correct.min(1),
            n_missing: 0,
        }),
        reproducibility: Reproducibility {
            score: ratio(2, 3),
            interval: None,
            fields_probed: 3,
            fields_full_agreement: 2,
            exact_output_rate: ratio(0, 1),
        },
        tokens: TokenSums { prompt: 100, completion: 20 },
        per_case: vec![CaseFigures {
            case: "alder".to_owned(),
            accuracy: ratio(correct, 10),
            reproducibility: ratio(2, 3),
            ok: 2,
            errors: 0,
        }],
    }
}

fn absent(model: &str) -> AbsentModel {
    AbsentModel::new("letters".parse().unwrap(), commit('a'), model.to_owned())
}

fn board(entries: &[Entry]) -> Leaderboard {
    let mut board = Leaderboard::empty();
    for entry in entries {
        board.insert(entry.clone());
    }
    board
}

fn refused(bytes: &[u8]) -> String {
    let failure = Leaderboard::parse(bytes, Path::new("leaderboard.json")).unwrap_err();
    assert_eq!(failure.exit(), crate::model::Exit::Config);
    format!("{failure}\nhint: {}", failure.hint_text().unwrap())
}

#[test]
fn the_bytes_are_fixed() {
    let mut board = board(&[entry("meadow/quill", 'a', "1.2.0", 9)]);
    board.insert_absent(absent("gone"));
    insta::assert_snapshot!(String::from_utf8(board.to_bytes()).unwrap(), @r#"
    {
      "schema_version": 2,
      "entries": [
        {
          "skill": "letters",
          "skill_version": "1.2.0",
          "prompt_commit": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "prompt_sha256": "cf07194ee232eb531e15f690000d19846dea69cf05504782658afcfacb9228a2",
          "prompt_body_sha256": "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5",
          "dataset_commit": null,
          "cases_sha256": "352b84777d8dd96ac9c0b3c170ecb2c7cca7fc2dbae41a1ec1ed4286fb2c43db",
          "model": "meadow/quill",
          "alias_target": null,
          "params": {
            "temperature": 0.1,
            "max_tokens": 16384,
            "seed": null,
            "structured_output": "json_schema"
          },
          "replicates": 2,
          "scorer_version": 2,
          "rules_sha256": "6c621d1a05138a7888d37d9269a9da8e2e11e4aced2f6cfd24b05ab1b9e61bb0",
          "cases": {
            "total": 2,
            "run": 1,
            "skipped": [
              {
                "case": "scan",
                "reason": "no_input"
              }
            ]
          },
          "calls": {
            "attempted": 2,
            "ok": 2,
            "api_error": 0,
            "parse_error": 0,
            "truncated": 0
          },
          "schema_valid": {
            "n": 1,
            "of": 2,
            "rate": 0.5
          },
          "accuracy": {
            "score": 0.9,
            "interval": null,
            "n_correct": 9,
            "n_incorrect": 1,
            "n_missing": 0,
            "n_hallucinated": 0,
            "n_correct_absent": 3
          },
          "prose": {
            "score": 1.0,
            "overlap": 0.75,
            "n_correct": 1,
            "n_incorrect": 0,
            "n_missing": 0
          },
          "reproducibility": {
            "score": 0.6667,
            "interval": null,
            "fields_probed": 3,
            "fields_full_agreement": 2,
            "exact_output_rate": 0.0
          },
          "tokens": {
            "prompt": 100,
            "completion": 20
          },
          "per_case": [
            {
              "case": "alder",
              "accuracy": 0.9,
              "reproducibility": 0.6667,
              "ok": 2,
              "errors": 0
            }
          ]
        }
      ],
      "absent": [
        {
          "skill": "letters",
          "prompt_commit": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "model": "gone",
          "reason": "not_served"
        }
      ]
    }
    "#);
    insta::assert_snapshot!(String::from_utf8(Leaderboard::empty().to_bytes()).unwrap(), @r#"
    {
      "schema_version": 2,
      "entries": [],
      "absent": []
    }
    "#);
}

#[test]
fn the_same_key_replaces_the_entry() {
    let mut board =
        board(&[entry("b", 'a', "1.0.0", 5), entry("a", 'b', "1.0.0", 5), entry("a", 'a', "1.0.0", 5)]);
    board.insert(entry("b", 'a', "1.0.0", 7));
    let shown: Vec<_> =
        board.entries().iter().map(|entry| (entry.prompt_commit.short(), entry.model.as_str())).collect();
    assert_eq!(shown, [("aaaaaaa", "a"), ("aaaaaaa", "b"), ("bbbbbbb", "a")]);
    assert_eq!(board.entries()[1].accuracy.n_correct, 7);
    let mut other = entry("b", 'a', "1.0.0", 7);
    other.alias_target = Some("c".to_owned());
    board.insert(other);
    assert_eq!(board.entries().len(), 4);
}

#[test]
fn a_model_is_absent_until_it_was_evaluated() {
    let mut board = Leaderboard::empty();
    board.insert_absent(absent("m"));
    board.insert_absent(absent("m"));
    assert_eq!(board.absent(), [absent("m")]);
    board.insert(entry("m", 'a', "1.0.0", 5));
    assert_eq!(board.absent(), []);
    board.insert_absent(absent("m"));
    assert_eq!(board.absent(), []);
}

#[test]
fn files_not_written_by_run_evals_are_rejected() {
    let written =
        String::from_utf8(board(&[entry("a", 'a', "1.0.0", 5), entry("b", 'a', "1.0.0", 5)]).to_bytes())
            .unwrap();
    let change = |from: &str, to: &str| {
        assert!(written.contains(from), "{from}");
        refused(written.replacen(from, to, 1).as_bytes())
    };
    insta::assert_snapshot!(change("\"schema_version\": 2", "\"schema_version\": 3"), @"
    `leaderboard.json` has format 3, but this version of `run-evals` supports formats 1 to 2
    hint: update `run-evals`; the file was left as it is
    ");
    insta::assert_snapshot!(change("\"schema_version\": 2", "\"schema_version\": 0"), @"
    `leaderboard.json:2` was changed by hand: `schema_version` 0 never existed
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("\"score\": 0.5", "\"score\": 0.9"), @"
    `leaderboard.json:5` was changed by hand: `accuracy.score` does not match its counts
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("\"n_correct\": 5", "\"n_correct\": 6"), @"
    `leaderboard.json:5` was changed by hand: `accuracy.score` does not match its counts
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("\"tokens\": {", "\"tokens\":  {"), @"
    `leaderboard.json:68` was changed by hand: this line differs from what `run-evals` writes
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("\"model\": \"a\"", "\"model\": \"z\""), @"
    `leaderboard.json:12` was changed by hand: this line differs from what `run-evals` writes
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("\"seed\": null,", "\"seed\": null, \"note\": 1,"), @"
    cannot read `leaderboard.json:17`: unknown field `note`, expected one of `temperature`, `max_tokens`, `seed`, `structured_output`
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(change("  \"absent\"", "<<<<<<< HEAD\n  \"absent\""), @"
    cannot read `leaderboard.json:161`: it contains a merge conflict
    hint: `run-evals leaderboard merge --output leaderboard.json leaderboard.json` keeps the entries of both sides
    ");
    insta::assert_snapshot!(refused(written.trim_end().as_bytes()), @"
    `leaderboard.json:162` was changed by hand: this line differs from what `run-evals` writes
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(refused(b""), @"
    cannot read `leaderboard.json:1`: EOF while parsing a value
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(refused(b"\xff\xfe"), @"
    cannot read `leaderboard.json:1`: expected value
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    insta::assert_snapshot!(refused(written.replace('\n', "\r\n").as_bytes()), @"
    `leaderboard.json:1` was changed by hand: this line differs from what `run-evals` writes
    hint: only `run-evals` writes this file; restore its last version: `git log --oneline -- leaderboard.json`, then `git checkout <commit> -- leaderboard.json`
    ");
    // Numbers in another notation.
    refused(written.replacen("\"score\": 0.5", "\"score\": 0.50", 1).as_bytes());
    refused(written.replacen("\"score\": 0.5", "\"score\": 5e-1", 1).as_bytes());
    refused(written.replacen("\"rate\": 0.5", "\"rate\": 0.50001", 1).as_bytes());
    refused(format!("{written}\n").as_bytes());
    refused(format!(" {written}").as_bytes());
}

#[test]
fn inconsistent_numbers_are_named() {
    let wrong = |change: fn(&mut Entry)| {
        let mut entry = entry("a", 'a', "1.0.0", 5);
        change(&mut entry);
        check::figures(&entry).unwrap_err()
    };
    let messages = [
        wrong(|entry| entry.cases.total = 3),
        wrong(|entry| entry.per_case.clear()),
        wrong(|entry| entry.calls.attempted = 3),
        wrong(|entry| entry.calls.ok = 1),
        wrong(|entry| entry.per_case[0].errors = 1),
        wrong(|entry| entry.schema_valid.n = 3),
        wrong(|entry| entry.schema_valid.rate = None),
        wrong(|entry| entry.accuracy.score = None),
        wrong(|entry| entry.accuracy.interval = Some([Ratio::of(9, 10).unwrap(), Ratio::of(1, 1).unwrap()])),
        wrong(|entry| entry.reproducibility.score = Ratio::of(1, 1)),
        wrong(|entry| entry.reproducibility.interval = Some([Ratio::of(0, 1).unwrap(); 2])),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    `cases`: `total` is not `run` and `skipped` together
    `per_case`: not as many as `cases.run`
    `calls.attempted` is not cases times replicates
    `calls` do not add up to `attempted`
    `per_case` does not add up to `calls`
    `schema_valid`: `n` is more than `of`
    `schema_valid.rate` is not `n` of `of`
    `accuracy.score` does not match its counts
    `accuracy.score` is not in its interval
    `reproducibility.score` does not match its counts
    `reproducibility.score` is not in its interval
    ");
}

#[test]
fn the_previous_entry_is_the_nearest_earlier_commit() {
    let before = board(&[
        entry("m", 'b', "1.1.0", 4),
        entry("m", 'c', "1.0.0", 6),
        entry("m", 'd', "3.0.0", 1),
        entry("other", 'b', "1.1.0", 1),
    ]);
    let now = entry("m", 'a', "1.2.0", 7);
    let rank = |commit: &CommitSha| match commit.as_str().as_bytes()[0] {
        b'c' => Some(3),
        b'b' => Some(9),
        _ => None,
    };
    let by_rank = previous(&before, &now, &rank).unwrap();
    assert_eq!(
        (by_rank.before.prompt_commit.short(), by_rank.accuracy, by_rank.reproducibility),
        ("ccccccc", Some(1000), Some(0))
    );
    assert_eq!(by_rank.differs, Vec::<&str>::new());
    // Without commit order: the highest version that is not above its own.
    let by_version = previous(&before, &now, &|_| None).unwrap();
    assert_eq!(by_version.before.skill_version, "1.1.0");
    assert_eq!(previous(&before, &entry("new", 'a', "1.2.0", 7), &rank), None);
    // The same entry, run again, is not its own predecessor.
    assert_eq!(previous(&board(std::slice::from_ref(&now)), &now, &|_| Some(0)), None);
    let mut old = entry("m", 'b', "1.0.0", 4);
    old.cases_sha256 = Digest::of(b"others");
    old.params.seed = Some(1);
    old.replicates = 3.try_into().unwrap();
    assert_eq!(previous(&board(&[old]), &now, &rank).unwrap().differs, ["cases", "settings", "replicates"]);
}

#[test]
fn the_table_is_readable() {
    let mut old = entry("quill", 'b', "1.1.0", 4);
    old.cases_sha256 = Digest::of(b"others");
    let before = board(&[old, entry("pen|`x`\n", 'b', "1.1.0", 9)]);
    let mut first = entry("quill", 'a', "1.2.0", 7);
    first.accuracy.interval = Some([Ratio::of(1, 2).unwrap(), Ratio::of(9, 10).unwrap()]);
    first.calls = Calls { attempted: 2, ok: 0, api_error: 1, parse_error: 1, truncated: 1 };
    first.alias_target = Some("quill-2".to_owned());
    let table = markdown(
        &[first, entry("pen|`x`\n", 'a', "1.2.0", 8), entry("new", 'a', "1.2.0", 8)],
        &[absent("gone")],
        &before,
        &|_| None,
    );
    insta::assert_snapshot!(table, @r"
    | model | accuracy (95 %) | change | exact fields | prose | reproducibility (95 %) | change | fits the schema | calls |
    |---|---|---|---|---|---|---|---|---|
    | `quill → quill-2` | 70.0 % (50.0 to 90.0) | +30.0 | 66.7 % | 100.0 % | 66.7 % | ±0.0 | 50.0 % | 0 of 2 ok, 1 failed, 1 unreadable, 1 truncated |
    | `pen\|'x'\n` | 80.0 % | −10.0 | 77.8 % | 100.0 % | 66.7 % | ±0.0 | 50.0 % | 2 of 2 ok |
    | `new` | 80.0 % | – | 77.8 % | 100.0 % | 66.7 % | – | 50.0 % | 2 of 2 ok |
    | `gone` | – | – | – | – | – | – | – | not called: the server does not list it |

    Compared with:

    - `quill → quill-2`: version 1.1.0 at `bbbbbbb`; since then changed: cases, the model behind the alias, so the figures are not comparable
    - `pen\|'x'\n`: version 1.1.0 at `bbbbbbb`
    - `new`: no entry before

    <details><summary>Fields</summary>

    | model | correct | incorrect | missing | hallucinated | correctly absent |
    |---|---|---|---|---|---|
    | `quill → quill-2` | 7 | 3 | 0 | 0 | 3 |
    | `pen\|'x'\n` | 8 | 2 | 0 | 0 | 3 |
    | `new` | 8 | 2 | 0 | 0 | 3 |

    </details>

    <details><summary>Cases</summary>

    | case | `quill → quill-2` | `pen\|'x'\n` | `new` |
    |---|---|---|---|
    | `alder` | 70.0 % | 80.0 % | 80.0 % |

    </details>

    Not run: 1 of 2 cases.

    - `scan`: it has no input
    ");
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let one = (
        prop_oneof![Just("a"), Just("b"), Just("ü/\"x\"")],
        "[abc]",
        0_u64..=10,
        0_u32..3,
        any::<Option<i64>>(),
        0.0..2.0,
    )
        .prop_map(|(model, digit, correct, alias, seed, temperature)| {
            let mut entry = entry(model, digit.chars().next().unwrap(), "1.0.0", correct);
            entry.alias_target = (alias > 0).then(|| format!("t{alias}"));
            entry.params.seed = seed;
            entry.params.temperature = Some(temperature);
            entry
        });
    proptest::collection::vec(one, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_files_are_read_back(entries in entries()) {
        let board = board(&entries);
        let bytes = board.to_bytes();
        let read = Leaderboard::parse(&bytes, Path::new("l")).unwrap();
        prop_assert_eq!(&read, &board);
        prop_assert_eq!(read.to_bytes(), bytes);
    }

    #[test]
    fn the_order_of_insertion_does_not_matter(entries in entries(), seed in any::<u64>()) {
        // The last entry of a key counts, so each key appears once.
        let mut entries = board(&entries).entries().to_vec();
        let bytes = board(&entries).to_bytes();
        fastrand::Rng::with_seed(seed).shuffle(&mut entries);
        prop_assert_eq!(board(&entries).to_bytes(), bytes);
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        let _ = Leaderboard::parse(&bytes, Path::new("l"));
        let mut written = board(&[entry("a", 'a', "1.0.0", 5)]).to_bytes();
        let at = at.index(written.len());
        let old = written[at];
        written[at] = bytes.first().copied().unwrap_or(b' ');
        if written[at] != old {
            // Any changed byte is detected, or is another entry that this program could have written.
            if let Ok(board) = Leaderboard::parse(&written, Path::new("l")) {
                prop_assert_eq!(board.to_bytes(), written);
            }
        }
    }
}

/// Without the digest of the rules, as in the older format.
fn of_format_1(mut entry: Entry) -> Entry {
    (entry.scorer_version, entry.rules_sha256, entry.prose) = (1, None, None);
    entry
}

#[test]
fn format_1_stays_readable_until_a_new_entry_comes() {
    let old = of_format_1(entry("quill", 'a', "1.0.0", 5));
    let text = String::from_utf8(board(std::slice::from_ref(&old)).to_bytes()).unwrap();
    let text = text.replacen("\"schema_version\": 2", "\"schema_version\": 1", 1);
    assert!(!text.contains("rules_sha256") && !text.contains("prose"));
    let mut read = Leaderboard::parse(text.as_bytes(), Path::new("l")).unwrap();
    assert_eq!(read.to_bytes(), text.as_bytes());
    read.insert(of_format_1(entry("pen", 'a', "1.0.0", 5)));
    assert!(read.to_bytes().starts_with(b"{\n  \"schema_version\": 1,"));
    // For the same commit and model, scored differently: both stay, and are not compared.
    let new = entry("quill", 'a', "1.0.0", 9);
    read.insert(new.clone());
    assert_eq!((read.entries().len(), ENTRY_FORMAT), (3, 2));
    let bytes = read.to_bytes();
    assert_eq!(Leaderboard::parse(&bytes, Path::new("l")).unwrap().to_bytes(), bytes);
    let change = previous(&read, &new, &|_| Some(0)).unwrap();
    assert_eq!((change.before, change.accuracy, change.reproducibility), (&old, None, None));
    assert_eq!(change.differs, ["scoring"]);
}
