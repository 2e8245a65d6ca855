//! Suites that load with warnings.

use super::warnings;

#[test]
fn unknown_keys_are_reported_once() {
    insta::assert_snapshot!(warnings(&[("s.yaml", "nmae: demo
execution: { worker: 2 }
tests: cases.jsonl
"), ("cases.jsonl", r#"{"id": "a", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
{"id": "b", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
{"id": "c", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
"#)]), @r#"
    unknown key `worker` in `execution` is ignored
      --> s.yaml:2:14
       |
     2 | execution: { worker: 2 }
       |              ^^^^^^

    hint: did you mean `workers`?

    unknown key `nmae` in a suite is ignored
      --> s.yaml:1:1
       |
     1 | nmae: demo
       | ^^^^

    hint: did you mean `name`?

    unknown key `name` in a message is ignored
      --> cases.jsonl:1:1
       |
     1 | {"id": "a", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: legal in a message: `role`, `content`

    unknown key `inpt_files` in a test is ignored
      --> cases.jsonl:1:1
       |
     1 | {"id": "a", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: did you mean `input_files`?

    unknown key `zzz` in a test is ignored
      --> cases.jsonl:1:1
       |
     1 | {"id": "a", "input": [{"role": "user", "content": "hi", "name": "x"}], "criteria": "x", "inpt_files": [], "zzz": 1}
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: legal in a test: `id`, `vars`, `criteria`, `input`, `input_files`, `tools`, `expected_output`, `assertions`, `rubrics`, `execution`, `workspace`, `metadata`, `conversation_id`, `suite`, `depends_on`, `mode`, `turns`
    "#);
}

#[test]
fn keys_without_effect_are_reported() {
    insta::assert_snapshot!(warnings(&[("s.yaml", r#"name: My Suite
tests:
  - file://empty.yaml
  - id: a
    input:
      - { role: system, content: "${{ NOT_SET }}" }
      - { role: user, content: "${{ NOT_SET_EITHER:-hi }}" }
    criteria: x
    depends_on: [b]
    execution: { target: gpt, trials: { count: 2 } }
  - id: b
    vars: { name: Ada }
    input: "{{ name }}, {{ nmae }} and {{ nmae }}"
    criteria: x
  - { id: c, input: { content: hi }, criteria: x }
"#), ("empty.yaml", "
")]), @r#"
        the environment variable `NOT_SET` is not set and becomes empty
          --> s.yaml:6:34
           |
         6 |       - { role: system, content: "${{ NOT_SET }}" }
           |                                  ^^^^^^^^^^^^^^^^^

        hint: set it, or give a default: `${{ NOT_SET:-default }}`

        `empty.yaml` is empty
          --> s.yaml:3:5
           |
         3 |   - file://empty.yaml
           |     ^^^^^^^^^^^^^^^^^

        AgentV rejects the name `My Suite`
          --> s.yaml:1:1
           |
         1 | name: My Suite
           | ^^^^

        hint: it accepts up to 64 characters of `a-z`, `0-9` and `-`

        `execution.target` of a test is not read
           --> s.yaml:10:18
            |
         10 |     execution: { target: gpt, trials: { count: 2 } }
            |                  ^^^^^^

        hint: write `targets`, a list of names

        `execution.trials` of a test is not read
           --> s.yaml:10:31
            |
         10 |     execution: { target: gpt, trials: { count: 2 } }
            |                               ^^^^^^

        hint: it belongs to the `execution` of the suite

        a message without content is skipped
          --> s.yaml:6:7
           |
         6 |       - { role: system, content: "${{ NOT_SET }}" }
           |       ^

        `depends_on` has no effect: the tests of a batch run at the same time
          --> s.yaml:9:5
           |
         9 |     depends_on: [b]
           |     ^^^^^^^^^^

        `{{ nmae }}` is not in the `vars` of the test and is not replaced
           --> s.yaml:13:12
            |
         13 |     input: "{{ name }}, {{ nmae }} and {{ nmae }}"
            |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        a mapping without `role` is sent as JSON, `content` and all
           --> s.yaml:15:21
            |
         15 |   - { id: c, input: { content: hi }, criteria: x }
            |                     ^^

        hint: add `role: user` if it is a message
        "#);
}

#[test]
fn suite_variables_that_a_test_lacks_are_reported() {
    insta::assert_snapshot!(warnings(&[("s.yaml", r#"input: "Speak {{ language }}."
tests:
  - { id: a, input: "{{ mustache }}", criteria: x }
  - { id: b, input: hi, vars: { language: French }, criteria: x }
  - { id: c, input: hi, vars: { language: French }, criteria: x, execution: { skip_defaults: true } }
"#)]), @r#"
        `{{ language }}` is not in the `vars` of the test and is not replaced
          --> s.yaml:1:8
           |
         1 | input: "Speak {{ language }}."
           |        ^^^^^^^^^^^^^^^^^^^^^^^
        "#);
}

#[test]
fn forms_that_differ_from_agentv_are_reported() {
    insta::assert_snapshot!(warnings(&[("s.yaml", "tests: file://cases"), ("cases/a/case.yaml", "input: hi
criteria: x
"), ("cases/shared/notes.md", "")]), @r"
        AgentV 4 reads `file://` only inside a list
          --> s.yaml:1:8
           |
         1 | tests: file://cases
           |        ^^^^^^^^^^^^

        hint: write `tests: cases`

        `cases/shared` has no `case.yaml`: it is not a test
          --> s.yaml:1:8
           |
         1 | tests: file://cases
           |        ^^^^^^^^^^^^
        ");
}

#[test]
fn a_sidecar_is_not_a_suite() {
    insta::assert_snapshot!(warnings(&[("s.jsonl", r#"{"id": "a", "input": "hi", "criteria": "x"}"#), ("s.yaml", "name: s
input: Be brief.
tests: ./s.jsonl
")]), @r"
        `input` is not read from the YAML file beside a `.jsonl` suite
          --> s.yaml:2:1
           |
         2 | input: Be brief.
           | ^^^^^

        hint: run the YAML file itself, with `tests` naming the `.jsonl` file

        `tests` is not read from the YAML file beside a `.jsonl` suite
          --> s.yaml:3:1
           |
         3 | tests: ./s.jsonl
           | ^^^^^

        hint: run the YAML file itself, with `tests` naming the `.jsonl` file
        ");
}
