//! Suites that cannot be loaded.

use super::errors;

#[test]
fn tests_that_agentv_drops_silently_are_errors() {
    insta::assert_snapshot!(errors(&[("s.yaml", r#"assertions: [{ type: is-json }]
tests:
  - input: no id
    criteria: x
  - { id: 7, input: a number, criteria: x }
  - { id: no-input, criteria: x }
  - { id: no-grading, input: hi }
  - { id: only-rubrics, input: hi, rubrics: [polite], evaluators: [{ name: x }] }
  - { id: blank, input: hi, criteria: "", expected_output: [{ role: robot, content: x }] }
  - just a text
  - 12
"#)]), @r#"
        a string is not a test, so AgentV skips it
           --> s.yaml:10:5
            |
         10 |   - just a text
            |     ^^^^^^^^^^^

        hint: a reference to a file begins with `file://`

        error: test: expected a mapping, found a number
           --> s.yaml:11:5
            |
         11 |   - 12
            |     ^^

        error: the test has no `id`, so AgentV skips it
          --> s.yaml:3:5
           |
         3 |   - input: no id
           |     ^

        hint: give it one: any text that no other test of the suite has

        error: `id`: expected a string, found a number, so AgentV skips the test
          --> s.yaml:5:11
           |
         5 |   - { id: 7, input: a number, criteria: x }
           |           ^

        hint: put it in quotes

        error: the test has no `input`, so AgentV skips it
          --> s.yaml:6:5
           |
         6 |   - { id: no-input, criteria: x }
           |     ^^

        hint: `input` is a text, or a list of messages with `role` and `content`

        error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
          --> s.yaml:7:11
           |
         7 |   - { id: no-grading, input: hi }
           |           ^^^^^^^^^^

        hint: add one of them; assertions of the suite do not count

        error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
          --> s.yaml:8:11
           |
         8 |   - { id: only-rubrics, input: hi, rubrics: [polite], evaluators: [{ name: x }] }
           |           ^^^^^^^^^^^^

        hint: add one of them; assertions of the suite do not count

        error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
          --> s.yaml:9:11
           |
         9 |   - { id: blank, input: hi, criteria: "", expected_output: [{ role: robot, content: x }] }
           |           ^^^^^

        hint: add one of them; assertions of the suite do not count
        "#);
}

#[test]
fn ids_are_unique_and_do_not_look_like_replicates() {
    insta::assert_snapshot!(errors(&[("s.yaml", r#"execution: { trials: { count: 2 } }
tests:
  - { id: " ", input: hi, criteria: x }
  - { id: "a\tb", input: hi, criteria: x }
  - { id: "case#2", input: hi, criteria: x }
  - { id: "issue #7b", input: hi, criteria: x }
  - { id: twice, input: hi, criteria: x }
  - file://more.jsonl
"#), ("more.jsonl", r#"{"id": "once", "input": "hi", "criteria": "x"}
{"id": "twice", "input": "hi", "criteria": "x"}
"#)]), @r#"
        `id`: it is empty
          --> s.yaml:3:11
           |
         3 |   - { id: " ", input: hi, criteria: x }
           |           ^^^

        hint: choose another id

        error: `id`: it contains a control character
          --> s.yaml:4:11
           |
         4 |   - { id: "a\tb", input: hi, criteria: x }
           |           ^^^^^^

        hint: choose another id

        error: `id`: an ending like `#2` is reserved for the second trial of a test
          --> s.yaml:5:11
           |
         5 |   - { id: "case#2", input: hi, criteria: x }
           |           ^^^^^^^^

        hint: choose another id

        error: duplicate id `twice`, first in s.yaml:7
          --> more.jsonl:2:1
           |
         2 | {"id": "twice", "input": "hi", "criteria": "x"}
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        hint: ids are unique in a suite: rename one of them
        "#);
}

#[test]
fn a_targets_file_is_recognized() {
    let text = "targets:\n  - {name: m, provider: mock}\n";
    let said = errors(&[("s.yaml", text)]);
    assert!(said.starts_with("this is a targets file, not a suite\n  --> s.yaml:1:1"), "{said}");
    assert!(said.contains("`run-evals eval SUITE --targets FILE`"), "{said}");
}

#[test]
fn tests_are_required() {
    insta::assert_snapshot!(errors(&[("s.yaml", "name: empty
description: nothing
")]), @r"
        the suite has no `tests`
          --> s.yaml:1:1
           |
         1 | name: empty
           | ^^^^^^^^^^^

        hint: `tests` is a list of tests, or the path of a `.yaml` or `.jsonl` file or of a directory
        ");
}

#[test]
fn tests_must_not_be_empty() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests: []")]), @r"
    the suite has no tests
      --> s.yaml:1:8
       |
     1 | tests: []
       |        ^

    hint: list them in `tests`, each with `id`, `input` and `assertions`
    ");
}

#[test]
fn tests_must_be_a_list_or_a_path() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests: { id: a }")]), @r"
        `tests`: expected a list or a path, found a mapping
          --> s.yaml:1:8
           |
         1 | tests: { id: a }
           |        ^^
        ");
}

#[test]
fn a_suite_is_a_mapping() {
    insta::assert_snapshot!(errors(&[("s.yaml", "- id: a")]), @r"
        suite: expected a mapping, found a list
          --> s.yaml:1:1
           |
         1 | - id: a
           | ^
        ");
}

#[test]
fn references_must_resolve() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests:
  - file://gone.yaml
  - file://cases/*.yaml
  - file://{a
  - file://cases.csv
  - file://mapping.yaml
  - file://texts.yaml
  - file://broken.yaml
"), ("cases.csv", "id,input"), ("mapping.yaml", "tests:
  - { id: a, input: hi, criteria: x }
"), ("texts.yaml", "- file://other.yaml"), ("broken.yaml", "- id: [a")]), @r"
        cannot read `gone.yaml`: No such file or directory (os error 2)
          --> s.yaml:2:5
           |
         2 |   - file://gone.yaml
           |     ^^^^^^^^^^^^^^^^

        hint: paths of tests begin at the suite's directory

        error: no file matches `cases/*.yaml`
          --> s.yaml:3:5
           |
         3 |   - file://cases/*.yaml
           |     ^^^^^^^^^^^^^^^^^^^

        hint: it is relative to the suite's directory, `.`

        error: cannot use the pattern `{a`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
          --> s.yaml:4:5
           |
         4 |   - file://{a
           |     ^^^^^^^^^

        error: unknown format of a test file: `cases.csv`
          --> s.yaml:5:5
           |
         5 |   - file://cases.csv
           |     ^^^^^^^^^^^^^^^^

        hint: a test file ends in `.yaml`, `.yml` or `.jsonl`

        error: a test file is a list of tests, found a mapping
          --> mapping.yaml:1:1
           |
         1 | tests:
           | ^

        hint: put `- ` before each test, without a `tests:` around them

        error: test: expected a mapping, found a string
          --> texts.yaml:1:3
           |
         1 | - file://other.yaml
           |   ^^^^^^^^^^^^^^^^^

        error: invalid YAML: while parsing a flow sequence, expected ',' or ']'
          --> broken.yaml:1:8
           |
         1 | - id: [a
           |        ^
        ");
}

#[test]
fn a_pattern_needs_its_prefix() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests: ./cases/*.yaml")]), @r#"
        `tests`: a pattern must be in a list and start with `file://`: `./cases/*.yaml`
          --> s.yaml:1:8
           |
         1 | tests: ./cases/*.yaml
           |        ^^^^^^^^^^^^^^

        hint: write `tests: ["file://cases/*.yaml"]`
        "#);
}

#[test]
fn a_truncated_line_is_shown() {
    insta::assert_snapshot!(errors(&[("s.eval.yaml", "tests: cases.jsonl"), ("cases.jsonl", r#"{"id": "a", "input": "hi", "criteria": "x"}
  {"id": "é", "input": hi}
["list"]
{"id": "b", "inp"#)]), @r#"
        invalid JSON: expected value
          --> cases.jsonl:2:24
           |
         2 |   {"id": "é", "input": hi}
           |                        ^

        hint: a `.jsonl` file has one JSON object per line

        error: test: expected a mapping, found a list
          --> cases.jsonl:3:1
           |
         3 | ["list"]
           | ^^^^^^^^

        error: invalid JSON: the line ends in the middle of a value
          --> cases.jsonl:4:16
           |
         4 | {"id": "b", "inp
           |                ^

        hint: a `.jsonl` file has one JSON object per line
        "#);
}

#[test]
fn messages_must_be_complete() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests:
  - id: messages
    criteria: x
    input:
      - { role: tool, content: hi }
      - { role: robot, content: hi }
      - { role: 7, content: hi }
      - { content: hi }
      - { role: user }
      - { role: user, content: 7 }
      - { role: assistant, content: hi, tool_calls: [{}] }
      - a text
  - id: pieces
    criteria: x
    input:
      - role: user
        content:
          - { type: text, text: hi }
          - { type: text, value: 7 }
          - { type: audio, value: a.mp3 }
          - { value: hi }
          - 7
")]), @r"
        `role`: this version does not send `tool` messages
          --> s.yaml:5:17
           |
         5 |       - { role: tool, content: hi }
           |                 ^^^^

        hint: one of `system`, `user` and `assistant`

        error: unknown `role`: `robot`
          --> s.yaml:6:17
           |
         6 |       - { role: robot, content: hi }
           |                 ^^^^^

        hint: one of `system`, `user` and `assistant`

        error: `role`: expected a word, found a number
          --> s.yaml:7:17
           |
         7 |       - { role: 7, content: hi }
           |                 ^

        hint: one of `system`, `user` and `assistant`

        error: the message has no `role`, so AgentV skips it
          --> s.yaml:8:9
           |
         8 |       - { content: hi }
           |         ^^

        hint: one of `system`, `user` and `assistant`

        error: the message has no `content`
          --> s.yaml:9:9
           |
         9 |       - { role: user }
           |         ^^

        error: `content`: expected a text, a mapping or a list, found a number
           --> s.yaml:10:32
            |
         10 |       - { role: user, content: 7 }
            |                                ^

        error: `tool_calls`: a message must be text, files or images
           --> s.yaml:11:41
            |
         11 |       - { role: assistant, content: hi, tool_calls: [{}] }
            |                                         ^^^^^^^^^^

        error: `input`: expected a message, found a string, which AgentV skips
           --> s.yaml:12:9
            |
         12 |       - a text
            |         ^^^^^^

        hint: a message is a mapping with `role` and `content`

        error: a part of `content` without `value`, which AgentV skips
           --> s.yaml:18:13
            |
         18 |           - { type: text, text: hi }
            |             ^^

        hint: write it as `{type: text, value: …}`

        error: `value`: expected a text, found a number
           --> s.yaml:19:34
            |
         19 |           - { type: text, value: 7 }
            |                                  ^

        error: unknown type of `content`: `audio`
           --> s.yaml:20:21
            |
         20 |           - { type: audio, value: a.mp3 }
            |                     ^^^^^

        hint: one of `text`, `file` and `image`

        error: a part of `content` without `type`, which AgentV skips
           --> s.yaml:21:13
            |
         21 |           - { value: hi }
            |             ^^

        hint: one of `text`, `file` and `image`

        error: content: expected a mapping, found a number
           --> s.yaml:22:13
            |
         22 |           - 7
            |             ^
        ");
}

#[test]
fn system_messages_come_first() {
    insta::assert_snapshot!(errors(&[("s.yaml", "input: Be brief.
tests:
  - id: late-in-the-test
    criteria: x
    execution: { skip_defaults: true }
    input:
      - { role: system, content: one }
      - { role: user, content: two }
      - { role: system, content: three }
  - id: after-the-suite
    criteria: x
    input:
      - { role: system, content: one }
      - { role: user, content: two }
")]), @r"
        a `system` message after the first turn
          --> s.yaml:9:9
           |
         9 |       - { role: system, content: three }
           |         ^^

        hint: move it to the front: vendors treat later ones differently

        error: a `system` message after the first turn
           --> s.yaml:13:9
            |
         13 |       - { role: system, content: one }
            |         ^^

        hint: move it to the front: vendors treat later ones differently
        ");
}

#[test]
fn input_must_not_be_empty() {
    insta::assert_snapshot!(errors(&[("s.yaml", r#"tests:
  - { id: number, input: 7, criteria: x }
  - { id: nothing, input: [], criteria: x }
  - { id: blank, input: " ", criteria: x }
  - { id: var, input: "{{ n }}", vars: { n: 7 }, criteria: x }
  - { id: vars, input: hi, vars: [n], criteria: x }
"#)]), @r#"
        `input`: expected a text, a mapping or a list of messages, found a number
          --> s.yaml:2:26
           |
         2 |   - { id: number, input: 7, criteria: x }
           |                          ^

        hint: put a plain value in quotes; `${{ NAME }}` or `{{ name }}` alone takes the type of its value

        error: `input` is empty
          --> s.yaml:3:27
           |
         3 |   - { id: nothing, input: [], criteria: x }
           |                           ^

        error: `input` is empty
          --> s.yaml:4:25
           |
         4 |   - { id: blank, input: " ", criteria: x }
           |                         ^^^

        error: `input`: expected a text, a mapping or a list of messages, found a number
          --> s.yaml:5:23
           |
         5 |   - { id: var, input: "{{ n }}", vars: { n: 7 }, criteria: x }
           |                       ^^^^^^^^^

        hint: put a plain value in quotes; `${{ NAME }}` or `{{ name }}` alone takes the type of its value

        error: `vars`: expected a mapping, found a list
          --> s.yaml:6:34
           |
         6 |   - { id: vars, input: hi, vars: [n], criteria: x }
           |                                  ^
        "#);
}

#[test]
fn input_files_need_a_text() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests:
  - { id: messages, input: [{ role: user, content: hi }], input_files: [a.md], criteria: x }
  - { id: empty, input: hi, input_files: [], criteria: x }
  - { id: one, input: hi, input_files: a.md, criteria: x }
  - { id: number, input: hi, input_files: [7], criteria: x }
"), ("a.md", "a")]), @r"
        `input`: with `input_files` it must be a text, found a list
          --> s.yaml:2:28
           |
         2 |   - { id: messages, input: [{ role: user, content: hi }], input_files: [a.md], criteria: x }
           |                            ^

        hint: put the files into the messages, as `{type: file, value: PATH}`

        error: `input_files`: expected a list of paths, found an empty list
          --> s.yaml:3:42
           |
         3 |   - { id: empty, input: hi, input_files: [], criteria: x }
           |                                          ^

        hint: omit it if there is no file; `execution.skip_defaults` drops those of the suite

        error: `input_files`: expected a list of paths, found a string
          --> s.yaml:4:40
           |
         4 |   - { id: one, input: hi, input_files: a.md, criteria: x }
           |                                        ^^^^

        hint: omit it if there is no file; `execution.skip_defaults` drops those of the suite

        error: `input_files`: expected a path, found a number
          --> s.yaml:5:44
           |
         5 |   - { id: number, input: hi, input_files: [7], criteria: x }
           |                                            ^
        ");
}

#[test]
fn attachments_must_be_found() {
    insta::assert_snapshot!(errors(&[("evals/s.yaml", "input_files: [shared.md]
tests:
  - { id: a, input: hi, criteria: x }
  - { id: b, input: hi, criteria: x }
  - { id: c, input: hi, criteria: x, input_files: [/] }
  - file://cases/c.yaml
"), ("evals/cases/c.yaml", "- { id: beside, input: hi, criteria: x, input_files: [notes.md] }"), ("evals/cases/notes.md", "notes"), (".git/HEAD", "")]), @r"
        attachment not found: `shared.md`
          --> evals/s.yaml:1:15
           |
         1 | input_files: [shared.md]
           |               ^^^^^^^^^

        hint: looked in `evals`, `.`

        error: `/` is not the path of a file
          --> evals/s.yaml:5:52
           |
         5 |   - { id: c, input: hi, criteria: x, input_files: [/] }
           |                                                    ^

        error: attachment not found: `notes.md`
          --> evals/cases/c.yaml:1:55
           |
         1 | - { id: beside, input: hi, criteria: x, input_files: [notes.md] }
           |                                                       ^^^^^^^^

        hint: paths begin at the suite's directory: write `cases/notes.md`; looked in `evals`, `.`
        ");
}

#[test]
fn images_are_recognized_by_their_name() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests:
  - id: a
    criteria: x
    input: [{ role: user, content: [{ type: image, value: a.tiff }] }]
"), ("a.tiff", "x")]), @r"
        `a.tiff` is not an image by its name
          --> s.yaml:4:59
           |
         4 |     input: [{ role: user, content: [{ type: image, value: a.tiff }] }]
           |                                                           ^^^^^^

        hint: an image ends in one of `.png`, `.jpg`, `.jpeg`, `.gif`, `.webp`, `.svg`, `.bmp`; attach others as `file`
        ");
}

#[test]
fn suites_for_agents_are_rejected() {
    insta::assert_snapshot!(errors(&[("s.yaml", "workspace: { template: ./template }
execution:
  targets:
    - { name: a, hooks: { before_each: { command: make } } }
tests:
  - { id: w, input: hi, criteria: x, workspace: { template: ./other } }
  - { id: c, input: hi, mode: conversation, turns: [{ input: hi }] }
  - { id: t, input: hi, criteria: x, turns: [{ input: hi }] }
  - { id: m, input: hi, criteria: x, mode: chat }
")]), @r"
        `hooks` cannot run as a batch: the test is not a single model call
          --> s.yaml:4:18
           |
         4 |     - { name: a, hooks: { before_each: { command: make } } }
           |                  ^^^^^

        hint: run it with `agentv eval` and `provider: github-actions`

        error: `workspace` cannot run as a batch: the test is not a single model call
          --> s.yaml:1:1
           |
         1 | workspace: { template: ./template }
           | ^^^^^^^^^

        hint: run it with `agentv eval` and `provider: github-actions`

        error: `workspace` cannot run as a batch: the test is not a single model call
          --> s.yaml:6:38
           |
         6 |   - { id: w, input: hi, criteria: x, workspace: { template: ./other } }
           |                                      ^^^^^^^^^

        hint: run it with `agentv eval` and `provider: github-actions`

        error: `mode: conversation` cannot run as a batch: the test is not a single model call
          --> s.yaml:7:25
           |
         7 |   - { id: c, input: hi, mode: conversation, turns: [{ input: hi }] }
           |                         ^^^^

        hint: run it with `agentv eval` and `provider: github-actions`

        error: `turns` cannot run as a batch: the test is not a single model call
          --> s.yaml:8:38
           |
         8 |   - { id: t, input: hi, criteria: x, turns: [{ input: hi }] }
           |                                      ^^^^^

        hint: run it with `agentv eval` and `provider: github-actions`

        error: unknown `mode`: `chat`
          --> s.yaml:9:38
           |
         9 |   - { id: m, input: hi, criteria: x, mode: chat }
           |                                      ^^^^

        hint: leave it out
        ");
}

#[test]
fn a_workspace_beside_a_case_is_rejected() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests: ./cases"), ("cases/one/case.yaml", "input: hi
criteria: x
"), ("cases/one/workspace/main.rs", "")]), @r"
        the workspace `cases/one/workspace` cannot run as a batch: the test is not a single model call
          --> cases/one/case.yaml:1:1
           |
         1 | input: hi
           | ^

        hint: run it with `agentv eval` and `provider: github-actions`
        ");
}

#[test]
fn suites_of_version_5_are_rejected() {
    insta::assert_snapshot!(errors(&[("s.yaml", r#"providers: [openai:gpt-6-luna]
prompts: ["Translate {{ text }}"]
tests:
  - vars: { text: hello }
    assert: [{ type: contains, value: hallo }]
"#)]), @r"
        this is a promptfoo config or a suite of AgentV 5 (`providers`), and run-evals supports suites of AgentV 4
          --> s.yaml:1:1
           |
         1 | providers: [openai:gpt-6-luna]
           | ^^^^^^^^^

        hint: write `input` and `assertions` in each test, and set the model in targets.yaml: `run-evals init` writes an example
        ");
}

#[test]
fn defaults_are_version_5_only_with_its_keys() {
    let suite =
        |defaults: &str| format!("defaults: {defaults}\ntests: [{{ id: a, input: hi, criteria: c }}]\n");
    for defaults in ["{ provider: gpt }", "{ grader: judge, other: 1 }"] {
        let told = errors(&[("s.yaml", &suite(defaults))]);
        assert!(told.starts_with("this is a suite of AgentV 5 (`defaults`)"), "{told}");
    }
}

#[test]
fn execution_is_checked() {
    insta::assert_snapshot!(errors(&[("s.yaml", r#"execution:
  workers: 51
  budget_usd: 0
  total_budget_usd: 3
  trials: { count: 0 }
  targets: ["", { use_target: gpt }, 7]
tests:
  - { id: a, input: hi, criteria: x, execution: { targets: [{ name: gpt }], skip_defaults: yes } }
  - { id: b, input: hi, criteria: x, execution: fast }
"#)]), @r#"
        a target needs a name
          --> s.yaml:6:13
           |
         6 |   targets: ["", { use_target: gpt }, 7]
           |             ^^

        error: a target needs a `name`
          --> s.yaml:6:17
           |
         6 |   targets: ["", { use_target: gpt }, 7]
           |                 ^^

        error: target: expected a mapping, found a number
          --> s.yaml:6:38
           |
         6 |   targets: ["", { use_target: gpt }, 7]
           |                                      ^

        error: `workers`: expected 1 to 50, found 51
          --> s.yaml:2:12
           |
         2 |   workers: 51
           |            ^^

        error: `total_budget_usd` is not read
          --> s.yaml:4:3
           |
         4 |   total_budget_usd: 3
           |   ^^^^^^^^^^^^^^^^

        hint: write `budget_usd`

        error: `budget_usd`: expected more than 0, found 0
          --> s.yaml:3:15
           |
         3 |   budget_usd: 0
           |               ^

        error: `trials.count`: expected 1 or more, found 0
          --> s.yaml:5:20
           |
         5 |   trials: { count: 0 }
           |                    ^

        error: `execution.targets` of a test: expected the name of a target, found a mapping
          --> s.yaml:8:61
           |
         8 |   - { id: a, input: hi, criteria: x, execution: { targets: [{ name: gpt }], skip_defaults: yes } }
           |                                                             ^^

        error: `skip_defaults`: expected `true` or `false`, found a string
          --> s.yaml:8:92
           |
         8 |   - { id: a, input: hi, criteria: x, execution: { targets: [{ name: gpt }], skip_defaults: yes } }
           |                                                                                            ^^^

        error: `execution`: expected a mapping, found a string
          --> s.yaml:9:49
           |
         9 |   - { id: b, input: hi, criteria: x, execution: fast }
           |                                                 ^^^^
        "#);
}

#[test]
fn grading_must_have_the_right_type() {
    insta::assert_snapshot!(errors(&[("s.yaml", "tests:
  - { id: a, input: hi, assertions: contains }
  - { id: b, input: hi, expected_output: 42 }
  - { id: c, input: hi, criteria: [polite] }
")]), @r"
        `assertions`: expected a list, found a string
          --> s.yaml:2:37
           |
         2 |   - { id: a, input: hi, assertions: contains }
           |                                     ^^^^^^^^

        error: `expected_output`: expected a string, a mapping or a list, found a number
          --> s.yaml:3:42
           |
         3 |   - { id: b, input: hi, expected_output: 42 }
           |                                          ^^

        hint: put the value in quotes

        error: `criteria`: expected a string, found a list
          --> s.yaml:4:35
           |
         4 |   - { id: c, input: hi, criteria: [polite] }
           |                                   ^
        ");
}

#[test]
fn problems_of_all_files_are_reported_at_once() {
    insta::assert_snapshot!(errors(&[("s.yaml", "execution: { workers: none }
tests:
  - file://a.yaml
  - file://b.jsonl
"), ("a.yaml", "- { id: a, input: hi }"), ("b.jsonl", r#"{"id": "b", "criteria": "x"}"#)]), @r#"
        `workers`: expected a whole number, 0 or more, found a string
          --> s.yaml:1:23
           |
         1 | execution: { workers: none }
           |                       ^^^^

        error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
          --> a.yaml:1:9
           |
         1 | - { id: a, input: hi }
           |         ^

        hint: add one of them; assertions of the suite do not count

        error: the test has no `input`, so AgentV skips it
          --> b.jsonl:1:1
           |
         1 | {"id": "b", "criteria": "x"}
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        hint: `input` is a text, or a list of messages with `role` and `content`
        "#);
}

#[test]
fn a_typescript_suite_is_rejected() {
    insta::assert_snapshot!(errors(&[("s.eval.ts", "")]), @r"
        cannot load the suite `s.eval.ts`: a TypeScript suite is a program, which only AgentV runs

        hint: write the suite as `.yaml`, `.yml` or `.jsonl`
        ");
}

#[test]
fn an_agent_skills_suite_is_rejected() {
    insta::assert_snapshot!(errors(&[("evals.json", "{}")]), @r"
    cannot load the suite `evals.json`: suites are `.yaml`, `.yml` or `.jsonl` files

    hint: JSON is valid YAML, so rename it: `mv evals.json evals.yaml`; an Agent Skills `evals.json` runs with `agentv eval` only
    ");
}

#[test]
fn an_unknown_format_is_rejected() {
    insta::assert_snapshot!(errors(&[("suite.toml", "")]), @r"
        cannot load the suite `suite.toml`: unknown format `.toml`

        hint: write the suite as `.yaml`, `.yml` or `.jsonl`
        ");
}

#[test]
fn tools_have_one_shape() {
    let suite = |tools: &str| format!("tools: {tools}\ntests:\n  - {{ id: a, input: x, criteria: y }}\n");
    let mut told = Vec::new();
    for tools in [
        "[{ type: function, name: f }]",
        "[{ type: web_search }]",
        "[{ type: function, function: { name: f, strict: true } }]",
        "[{ type: function, function: { name: f, parameters: [] } }]",
        "[{ type: function, function: { name: no spaces } }]",
        "[[function, { name: f }]]",
        "get_weather",
    ] {
        let text = errors(&[("s.yaml", suite(tools))]);
        told.push(text.lines().next().unwrap().to_owned());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    `tools`: unknown field `name`, expected `type` or `function`
    `tools`: unknown variant `web_search`, expected `function`
    `tools`: unknown field `strict`, expected one of `name`, `description`, `parameters`
    `tools`: invalid type: sequence, expected a map
    `tools`: the name of a tool has 1 to 64 letters, digits, `_` and `-`
    `tools`: found a list
    `tools`: expected a list, found a string
    ");
    insta::assert_snapshot!(errors(&[("s.yaml", suite("[{ type: function, function: { name: f } }, { type: mcp }]"))]), @r"
    `tools`: unknown variant `mcp`, expected `function`
      --> s.yaml:1:52
       |
     1 | tools: [{ type: function, function: { name: f } }, { type: mcp }]
       |                                                    ^^

    hint: a tool is `{type: function, function: {name: get_weather, description: …, parameters: {type: object}}}`
    ");
}

#[test]
fn tools_of_a_test_replace_those_of_the_suite() {
    let suite = concat!(
        "tools: [{ type: function, function: { name: f } }]\ntests:\n  - { id: a, input: x, criteria: y }\n",
        "  - { id: b, input: x, criteria: y, tools: [] }\n",
        "  - { id: c, input: x, criteria: y, tools: [{ type: function, function: { name: g, parameters: { type: object } } }] }\n",
    );
    let (suite, warnings) = super::load(&[("s.yaml", suite)]).unwrap();
    assert_eq!(warnings, [""; 0]);
    let names = |tools: &[crate::model::Tool]| -> Vec<String> {
        tools.iter().map(|tool| tool.function.name.clone()).collect()
    };
    let tools: Vec<Vec<String>> = suite.tests.iter().map(|test| names(&test.tools)).collect();
    assert_eq!(tools, [vec!["f"], vec![], vec!["g"]]);
}
