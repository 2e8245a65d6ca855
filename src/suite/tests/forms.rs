//! The forms of a suite: those of `fixtures/evals`, then corner cases.

use std::path::Path;

use super::{directory, errors, load, load_in, summary, told};
use crate::config::Env;
use crate::suite::{SuiteOptions, load_suite};

fn fixture(name: &str) -> String {
    let env = Env::from([("TOPIC", "recursion")]);
    let path = Path::new("fixtures/evals").join(name);
    let options = SuiteOptions { env: &env, cwd: Path::new(env!("CARGO_MANIFEST_DIR")), graders: None };
    let (suite, _) = load_suite(&path, &options).unwrap();
    summary(&suite)
}

#[test]
fn quickstart_suite() {
    insta::assert_snapshot!(fixture("quickstart/suite.eval.yaml"), @r#"
        quickstart ×2 target=echo
        capital
          system: "Answer in one sentence."
          user: "What is the capital of France?"
        greeting
          system: "Answer in one sentence."
          user: "Greet Ada in Portuguese (pt)."
        release-notes
          system: "Answer in one sentence."
          user: <file notes/release.md text/markdown 158> "Which change in the notes could break a user?"
        few-shot
          system: "Answer in one sentence."
          user: "Sentiment of: I love this keyboard"
          assistant: "positive"
          user: "Sentiment of: The screen broke after a day"
        invoice
          user: "{\n  \"task\": \"Add up the invoice\",\n  \"items\": [\n    {\n      \"name\": \"paper\",\n      \"price\": 4.5\n    },\n    {\n      \"name\": \"ink\",\n      \"price\": 20\n    }\n  ]\n}"
        arithmetic
          system: "Answer in one sentence."
          user: "What is 17 + 25?"
        reverse
          system: "Answer in one sentence."
          user: "Spell `stressed` backwards."
        unicode
          system: "Answer in one sentence."
          user: "Which language is this: 「こんにちは」?"
        "#);
}

#[test]
fn forms_data_input() {
    insta::assert_snapshot!(fixture("forms/data-input.eval.yaml"), @r#"
        data-input ×1
        data
          user: "{\n  \"question\": \"How many?\",\n  \"numbers\": [\n    1,\n    2,\n    3\n  ]\n}"
        one-message
          user: "How many?"
        "#);
}

#[test]
fn forms_directory() {
    insta::assert_snapshot!(fixture("forms/directory.eval.yaml"), @r#"
        directory ×1
        goodbye
          user: <file files/style.md text/markdown 26> "Say goodbye as in the style guide."
        greeting
          user: "Greet the reader."
        "#);
}

#[test]
fn forms_input() {
    insta::assert_snapshot!(fixture("forms/input.eval.yaml"), @r#"
        input-forms ×1
        text
          system: "You work for Acme."
          user: "Write a haiku\nabout rivers.\n"
        message
          system: "You work for Acme."
          user: "Hello"
        pieces
          system: "You work for Acme."
          user: "Compare these two." <file files/style.md text/markdown 26> <image files/dot.png image/png 67> "Which one is shorter?"
        only-text-pieces
          user: "First part.\n\nSecond part."
        data
          user: "{\n  \"range\": {\n    \"low\": 1,\n    \"high\": 2.5\n  },\n  \"label\": \"from 1 to 2.5\"\n}"
        conversation-so-far
          user: "My name is Ada."
          assistant: "Hello, Ada."
          user: "What is my name?"
        "#);
}

#[test]
fn forms_jsonl_file() {
    insta::assert_snapshot!(fixture("forms/jsonl-file.eval.yaml"), @r#"
        jsonl-file ×1 target=gpt target=claude→claude-haiku workers=4 budget=0.5
        jsonl-1
          user: "Is 7 prime?"
        jsonl-2
          user: <file files/style.md text/markdown 26> "Short?"
        "#);
}

#[test]
fn forms_old_names() {
    insta::assert_snapshot!(fixture("forms/old-names.eval.yaml"), @r#"
        old-names ×1 target=gpt
        old
          user: "Hello"
        older
          user: "Hello"
        "#);
}

#[test]
fn forms_patterns() {
    insta::assert_snapshot!(fixture("forms/patterns.eval.yaml"), @r#"
        patterns ×1
        inline
          user: "One"
        jsonl-1
          user: "Is 7 prime?"
        jsonl-2
          user: <file files/style.md text/markdown 26> "Short?"
        yaml-1
          user: "What is recursion?"
        yaml-2 gpt
          user: "And why?"
        more-1
          user: "More?"
        "#);
}

#[test]
fn forms_shared_files() {
    insta::assert_snapshot!(fixture("forms/shared-files.eval.yaml"), @r#"
        shared-files ×1
        with-the-shared-file
          user: <file files/style.md text/markdown 26> "Sum it up."
        with-its-own-file
          user: <file files/facts.txt text/plain 44> "Sum it up."
        without-files
          user: "Say hello."
        "#);
}

#[test]
fn forms_yaml_file() {
    insta::assert_snapshot!(fixture("forms/yaml-file.eval.yaml"), @r#"
        yaml-file ×1
        yaml-1
          user: "What is recursion?"
        yaml-2 gpt
          user: "And why?"
        "#);
}

#[test]
fn forms_lines() {
    insta::assert_snapshot!(fixture("forms/lines.jsonl"), @r#"
        lines-with-settings ×3 target=gpt
        line-1
          user: "One?"
        line-2
          user: "Two?"
        "#);
}

#[test]
fn the_first_suite_loads_without_warnings() {
    let env = Env::default();
    let options = SuiteOptions { env: &env, cwd: Path::new(env!("CARGO_MANIFEST_DIR")), graders: None };
    let (_, warnings) = load_suite(Path::new("fixtures/evals/quickstart/suite.eval.yaml"), &options).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let (suite, warnings) = load(&[
        (
            "s.yaml",
            "\u{feff}tests:\r\n  - file://a.jsonl\r\n  - id: b\r\n    input: hi\r\n    criteria: x\r\n",
        ),
        ("a.jsonl", "\u{feff}{\"id\": \"a\", \"input\": \"hi\", \"criteria\": \"x\"}\r\n\r\n"),
    ])
    .unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(summary(&suite), "s ×1\na\n  user: \"hi\"\nb\n  user: \"hi\"");
}

#[test]
fn a_byte_that_is_not_utf_8_is_shown() {
    let line = b"{\"id\": \"a\", \"input\": \"hi\", \"criteria\": \"x\"}\n";
    let torn = [line.as_slice(), b"{\"id\": \"\xc3\xa9 \xff\"}\n"].concat();
    insta::assert_snapshot!(errors(&[("s.jsonl", torn)]), @r#"
        the text is not UTF-8
          --> s.jsonl:2:11
           |
         2 | {"id": "é �"}
           |           ^

        hint: save the file as UTF-8
        "#);
}

#[test]
fn tests_can_share_keys_by_merging() {
    let text = "tests:\n  - &base { id: a, input: hi, criteria: x }\n  - { <<: *base, id: b }\n";
    let (suite, warnings) = load(&[("s.yaml", text)]).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(summary(&suite), "s ×1\na\n  user: \"hi\"\nb\n  user: \"hi\"");
}

/// `defaults` is a key of AgentV 5, and also a common name of anchors.
#[test]
fn defaults_may_hold_an_anchor() {
    let text = "defaults: &base { input: hi, criteria: x }\ntests:\n  - { <<: *base, id: a }\n";
    let (suite, warnings) = load(&[("s.yaml", text)]).unwrap();
    assert!(warnings[0].starts_with("unknown key `defaults` in a suite is ignored"), "{warnings:?}");
    assert_eq!(summary(&suite), "s ×1\na\n  user: \"hi\"");
}

#[test]
fn a_missing_suite_is_named() {
    let temp = directory(&[("x", "")]);
    let failure = load_in(temp.path(), "gone.eval.yaml").unwrap_err();
    assert_eq!(
        told(&failure),
        "cannot read the suite `gone.eval.yaml`: No such file or directory (os error 2)\n\nhint: check the path, which is relative to the working directory"
    );
}

#[test]
fn attachments_outside_the_roots_are_rejected() {
    let temp = directory(&[
        ("secret.txt", "secret"),
        ("repo/.git/HEAD", ""),
        ("repo/evals/s.yaml", ""),
        ("repo/shared.txt", "shared"),
    ]);
    let repo = temp.path().join("repo");
    std::os::unix::fs::symlink(temp.path().join("secret.txt"), repo.join("evals/link.txt")).unwrap();
    let load_with = |file: &str| {
        let suite = format!("tests: [{{ id: a, input: hi, criteria: x, input_files: ['{file}'] }}]");
        std::fs::write(repo.join("evals/s.yaml"), suite).unwrap();
        load_in(&repo, "evals/s.yaml")
    };
    let absolute = temp.path().join("secret.txt").display().to_string();
    for file in ["link.txt", "../../secret.txt", absolute.as_str()] {
        let told = told(&load_with(file).unwrap_err());
        assert!(told.starts_with(&format!("attachment outside the roots: `{file}`\n")), "{told}");
        assert!(told.ends_with("hint: only files in `evals`, `.` can be attached, links resolved"), "{told}");
    }
    let inside = repo.join("shared.txt").display().to_string();
    for (file, name) in
        [("/shared.txt", "shared.txt"), ("../shared.txt", "../shared.txt"), (&inside, &inside[1..])]
    {
        let (suite, _) = load_with(file).unwrap();
        assert_eq!(suite.tests[0].files[0].name, name);
    }
}

#[test]
fn attachments_are_typed_by_name_then_by_bytes() {
    let names = ["a.md", "a.pdf", "a.rs", "a.bin", "A.JSON", "same.md"];
    let list = names.join(", ");
    let temp = directory(&[
        ("s.yaml", format!("tests: [{{ id: a, input: hi, criteria: x, input_files: [{list}] }}]").as_bytes()),
        ("a.md", b"# a"),
        ("a.pdf", b"%PDF"),
        ("a.rs", b"fn"),
        ("a.bin", b"\xff\xfe"),
        ("A.JSON", b"{}"),
        ("same.md", b"# a"),
    ]);
    let (suite, _) = load_in(temp.path(), "s.yaml").unwrap();
    let files: Vec<_> =
        suite.tests[0].files.iter().map(|file| (file.name.as_str(), file.media_type.as_str())).collect();
    assert_eq!(
        files,
        [
            ("a.md", "text/markdown"),
            ("a.pdf", "application/pdf"),
            ("a.rs", "text/plain"),
            ("a.bin", "application/octet-stream"),
            ("A.JSON", "application/json"),
            ("same.md", "text/markdown"),
        ]
    );
    assert_eq!(suite.attachments.len(), 5);
}

#[test]
fn attachments_with_equal_bytes_keep_their_names() {
    let temp = directory(&[
        (
            "s.yaml",
            "tests: [{ id: a, input: hi, criteria: x, input_files: [p/x.md, t/y.md, t/y.md, p/x.md] }]",
        ),
        ("p/x.md", "same"),
        ("t/y.md", "same"),
    ]);
    let (suite, _) = load_in(temp.path(), "s.yaml").unwrap();
    assert_eq!((suite.tests[0].files.len(), suite.attachments.len()), (2, 1));
    insta::assert_snapshot!(summary(&suite), @r#"
        s ×1
        a
          user: <file p/x.md text/markdown 4> <file t/y.md text/markdown 4> <file t/y.md text/markdown 4> <file p/x.md text/markdown 4> "hi"
        "#);
}

#[test]
fn ids_can_end_like_replicates_if_each_test_runs_once() {
    let text = "tests: [{ id: 'owner/repo#123', input: hi, criteria: x }]";
    assert_eq!(load(&[("s.yaml", text)]).unwrap().0.tests[0].id, "owner/repo#123");
}

#[test]
fn a_single_message_is_trimmed_and_system_messages_are_joined() {
    let temp = directory(&[
        (
            "s.yaml",
            "input: [{ role: system, content: [Be, brief.] }]
tests:
  - { id: systems, criteria: x, input: [{ role: system, content: Be kind. }, { role: user, content: hi }] }
  - id: system-file
    criteria: x
    input: [{ role: system, content: [{ type: file, value: a.md }] }, { role: user, content: hi }]
  - id: alone
    criteria: x
    execution: { skip_defaults: true }
    input_files: [a.md]
    input: |

      Block
        scalar
",
        ),
        ("a.md", "a"),
    ]);
    let (suite, _) = load_in(temp.path(), "s.yaml").unwrap();
    insta::assert_snapshot!(summary(&suite), @r#"
        s ×1
        systems
          system: "Be\nbrief.\n\nBe kind."
          user: "hi"
        system-file
          system: "Be\nbrief." <file a.md text/markdown 1>
          user: "hi"
        alone
          user: <file a.md text/markdown 1> "Block\n  scalar"
        "#);
}

#[test]
fn the_nearest_target_setting_wins() {
    for (settings, expected) in [
        ("target: a", "target=a"),
        ("target: a\nexecution: { target: b }", "target=b"),
        ("target: a\nexecution: { target: b, targets: [c, d] }", "target=c target=d"),
    ] {
        let suite = format!("{settings}\ntests: [{{ id: a, input: hi, criteria: x }}]");
        let (suite, _) = load(&[("s.yaml", suite)]).unwrap();
        assert_eq!(summary(&suite).lines().next(), Some(format!("s ×1 {expected}").as_str()));
    }
}

#[test]
fn whatever_agentv_counts_as_grading_is_enough() {
    for grading in [
        "criteria: x",
        "expected_outcome: x",
        "expected_output: ''",
        "expected_output: []",
        "expected_output: { a: 1 }",
        "expected_output: [{ role: assistant, content: x }]",
        "assertions: []",
        "assertions:",
        "assert: [x]",
    ] {
        let suite = format!("tests:\n  - id: a\n    input: hi\n    {grading}\n");
        assert_eq!(load(&[("s.yaml", suite)]).unwrap().0.tests.len(), 1, "{grading}");
    }
}

#[test]
fn reading_stops_after_many_errors() {
    let lines = "{\"input\": \"hi\", \"criteria\": \"x\"}\n".repeat(1000);
    let told = errors(&[("s.jsonl", lines)]);
    assert_eq!(told.matches("the test has no `id`").count(), 20);
    assert!(told.contains("error: 20 errors: further tests are not read\n"), "{told}");
}
