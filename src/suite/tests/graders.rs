//! Graders: how they are read, and their errors.

use std::path::Path;

use super::{directory, load_suite};
use crate::config::Env;
use crate::model::{ArgsMatch, CallOrder, GraderKind, Suite, Trajectory};
use crate::suite::{GraderOptions, SuiteOptions};

const ALL: GraderOptions = GraderOptions { ignore_unknown: false, allow_commands: true };

fn load(files: &[(&str, &str)], options: GraderOptions) -> Result<(Suite, Vec<String>), String> {
    let dir = directory(files);
    let env = Env::default();
    let options = SuiteOptions { env: &env, cwd: dir.path(), graders: Some(options) };
    load_suite(Path::new("s.yaml"), &options).map_err(|failure| failure.to_string())
}

/// The errors in the assertions of one test, one per line.
fn wrong(assertions: &str) -> String {
    let suite = format!("tests:\n  - id: a\n    input: x\n    assertions:\n{assertions}");
    load(&[("s.yaml", &suite)], ALL).expect_err("it is wrong")
}

#[test]
fn graders_that_agentv_skips_are_errors() {
    insta::assert_snapshot!(wrong(
        "      - { type: contains }\n      - { type: contains, value: 42 }\n      - { type: contains-any, value: x }\n      \
         - { type: regex, value: '(' }\n      - { type: latency, threshold: -1 }\n      - { type: token-usage }\n      - 7\n"
    ), @r"
    `contains`: `value` is missing
      --> s.yaml:5:9
       |
     5 |       - { type: contains }
       |         ^^

    hint: `value` is a text; put a number in quotes

    error: `contains`: `value`: expected a text, found a number
      --> s.yaml:6:27
       |
     6 |       - { type: contains, value: 42 }
       |                           ^^^^^

    hint: `value` is a text; put a number in quotes

    error: `contains-any`: `value` is a list of texts, and not empty
      --> s.yaml:7:31
       |
     7 |       - { type: contains-any, value: x }
       |                               ^^^^^

    hint: put numbers in quotes; a single text has its own grader

    error: `regex`: invalid pattern: a `(` without its `)`
      --> s.yaml:8:24
       |
     8 |       - { type: regex, value: '(' }
       |                        ^^^^^

    hint: the pattern is JavaScript's, as in AgentV

    error: `threshold`: expected a number from 0 to 1e12, found -1
      --> s.yaml:9:37
       |
     9 |       - { type: latency, threshold: -1 }
       |                                     ^^

    error: `token-usage`: no limit is set
       --> s.yaml:10:11
        |
     10 |       - { type: token-usage }
        |           ^^^^

    hint: set one of `max_total`, `max_input`, `max_output`

    error: an assertion is a mapping or a text, found a number
       --> s.yaml:11:9
        |
     11 |       - 7
        |         ^

    hint: for example `{type: contains, value: Paris}`, or a sentence that a model checks
    ");
}

#[test]
fn unknown_graders_are_named() {
    insta::assert_snapshot!(wrong(
        "      - { type: skill-trigger, skill: x }\n      - { type: contians, value: x }\n      - { type: my-own }\n      \
         - { type: llm_judge }\n      - { value: x }\n"
    ), @r"
    unknown grader `skill-trigger`
      --> s.yaml:5:17
       |
     5 |       - { type: skill-trigger, skill: x }
       |                 ^^^^^^^^^^^^^

    hint: it checks an agent's actions, which only `agentv eval` supports; `--ignore-unknown-graders` skips it

    error: unknown grader `contians`
      --> s.yaml:6:17
       |
     6 |       - { type: contians, value: x }
       |                 ^^^^^^^^

    hint: did you mean `contains`? `--ignore-unknown-graders` skips it

    error: unknown grader `my-own`
      --> s.yaml:7:17
       |
     7 |       - { type: my-own }
       |                 ^^^^^^

    hint: the kinds are `contains`, `contains-any`, `contains-all`, `icontains`, `icontains-any`, `icontains-all`, `starts-with`, `ends-with`, `equals`, `regex`, `is-json`, `field-accuracy`, `latency`, `cost`, `token-usage`, `execution-metrics`, `tool-trajectory`, `llm-grader`, `rubrics`, `code-grader`, `composite`; `--ignore-unknown-graders` skips it

    error: `llm_judge` is no longer supported, so AgentV skips it
      --> s.yaml:8:17
       |
     8 |       - { type: llm_judge }
       |                 ^^^^^^^^^

    hint: write `llm-grader`

    error: an assertion without a `type`
      --> s.yaml:9:9
       |
     9 |       - { value: x }
       |         ^^

    hint: add `type:`, one of `contains`, `contains-any`, `contains-all`, `icontains`, `icontains-any`, `icontains-all`, `starts-with`, `ends-with`, `equals`, `regex`, `is-json`, `field-accuracy`, `latency`, `cost`, `token-usage`, `execution-metrics`, `tool-trajectory`, `llm-grader`, `rubrics`, `code-grader`, `composite`
    ");
}

#[test]
fn unknown_graders_can_be_ignored() {
    let suite = "tests:\n  - { id: a, input: x, assertions: [{ type: skill-trigger }, { type: contains, value: x }] }\n";
    let options = GraderOptions { ignore_unknown: true, ..ALL };
    let (suite, warnings) = load(&[("s.yaml", suite)], options).unwrap();
    let words: Vec<&str> = suite.tests[0].grading.graders.iter().map(|grader| grader.kind.word()).collect();
    assert_eq!(words, ["skill-trigger", "contains"]);
    insta::assert_snapshot!(warnings.join("\n"), @r"
    unknown grader `skill-trigger`: it does not count
      --> s.yaml:2:45
       |
     2 |   - { id: a, input: x, assertions: [{ type: skill-trigger }, { type: contains, value: x }] }
       |                                             ^^^^^^^^^^^^^
    ");
}

#[test]
fn common_keys_have_limits() {
    insta::assert_snapshot!(wrong(
        "      - { type: is-json, weight: -1 }\n      - { type: is-json, required: 2 }\n      - { type: is-json, min_score: 0 }\n      \
         - { type: is-json, negate: yes please }\n      - { type: is-json, schema: { type: nonsense } }\n"
    ), @r#"
    `weight`: expected a number from 0 to 1e12, found -1
      --> s.yaml:5:34
       |
     5 |       - { type: is-json, weight: -1 }
       |                                  ^^

    error: `required`: expected `true`, or a score above 0 and up to 1, found 2
      --> s.yaml:6:36
       |
     6 |       - { type: is-json, required: 2 }
       |                                    ^

    error: `min_score`: expected a score above 0 and up to 1, found 0
      --> s.yaml:7:37
       |
     7 |       - { type: is-json, min_score: 0 }
       |                                     ^

    error: `negate`: expected `true` or `false`, found a string
      --> s.yaml:8:34
       |
     8 |       - { type: is-json, negate: yes please }
       |                                  ^^^^^^^^^^

    error: `is-json`: invalid JSON schema: "nonsense" is not valid under any of the schemas listed in the 'anyOf' keyword
      --> s.yaml:9:26
       |
     9 |       - { type: is-json, schema: { type: nonsense } }
       |                          ^^^^^^

    hint: see https://json-schema.org
    "#);
}

#[test]
fn fields_and_rubrics_are_checked() {
    insta::assert_snapshot!(wrong(
        "      - { type: field-accuracy, fields: [] }\n      - { type: field-accuracy, fields: [{ path: a, match: fuzzy }] }\n      \
         - { type: rubrics, criteria: [] }\n      - { type: rubrics, criteria: [{ id: a }] }\n      \
         - { type: rubrics, criteria: [{ id: a, score_ranges: { 0: bad, 11: good } }] }\n      \
         - { type: rubrics, criteria: [{ id: a, outcome: x }, { id: a, outcome: y }] }\n"
    ), @r"
    `field-accuracy`: `fields` is a list, and not empty
      --> s.yaml:5:33
       |
     5 |       - { type: field-accuracy, fields: [] }
       |                                 ^^^^^^

    hint: each has a `path` and a `match`: `{path: invoice.total, match: exact}`

    error: a field without a `path` or without a known `match`, which AgentV skips
      --> s.yaml:6:42
       |
     6 |       - { type: field-accuracy, fields: [{ path: a, match: fuzzy }] }
       |                                          ^^

    hint: `match` is one of `exact`, `numeric_tolerance` and `date`

    error: `rubrics`: `criteria` is a list, and not empty
      --> s.yaml:7:26
       |
     7 |       - { type: rubrics, criteria: [] }
       |                          ^^^^^^^^

    hint: each is a sentence, or a mapping with `outcome`

    error: a rubric without `outcome`, which AgentV skips
      --> s.yaml:8:37
       |
     8 |       - { type: rubrics, criteria: [{ id: a }] }
       |                                     ^^

    hint: `outcome` states what must hold

    error: `score_ranges`: every whole number from 0 to 10 belongs to exactly one range
      --> s.yaml:9:60
       |
     9 |       - { type: rubrics, criteria: [{ id: a, score_ranges: { 0: bad, 11: good } }] }
       |                                                            ^^

    hint: for example `{0: wrong, 4: partly right, 8: right}`, or a list of `{score_range: [0, 3], outcome: wrong}`

    error: two rubrics have the id `a`
       --> s.yaml:10:60
        |
     10 |       - { type: rubrics, criteria: [{ id: a, outcome: x }, { id: a, outcome: y }] }
        |                                                            ^^

    hint: rename one of them
    ");
}

#[test]
fn composites_are_checked() {
    insta::assert_snapshot!(wrong(
        "      - { type: composite, aggregator: { type: threshold, threshold: 1 } }\n      \
         - { type: composite, assertions: [{ name: a, type: is-json }] }\n      \
         - { type: composite, assertions: [{ name: a, type: is-json }], aggregator: { type: vote } }\n      \
         - { type: composite, assertions: [{ type: is-json }], aggregator: { type: weighted_average } }\n      \
         - { type: composite, assertions: [{ name: a, type: is_json }, words], aggregator: { type: weighted_average } }\n"
    ), @r#"
    `composite`: `assertions` is a list, and not empty
      --> s.yaml:5:9
       |
     5 |       - { type: composite, aggregator: { type: threshold, threshold: 1 } }
       |         ^^

    hint: it lists the graders to combine

    error: `composite`: `aggregator` is missing
      --> s.yaml:6:9
       |
     6 |       - { type: composite, assertions: [{ name: a, type: is-json }] }
       |         ^^

    hint: for example `aggregator: {type: weighted_average}`; `type` is one of `weighted_average`, `threshold`, `code-grader` and `llm-grader`

    error: unknown `type` of an `aggregator`: `vote`
      --> s.yaml:7:84
       |
     7 |       - { type: composite, assertions: [{ name: a, type: is-json }], aggregator: { type: vote } }
       |                                                                                    ^^^^

    hint: one of `weighted_average`, `threshold`, `code-grader` and `llm-grader`

    error: a grader in a `composite` without a `name`, which AgentV skips
      --> s.yaml:8:41
       |
     8 |       - { type: composite, assertions: [{ type: is-json }], aggregator: { type: weighted_average } }
       |                                         ^^

    hint: add one: weights refer to members by name

    error: AgentV skips `is_json` in a `composite`
      --> s.yaml:9:58
       |
     9 |       - { type: composite, assertions: [{ name: a, type: is_json }, words], aggregator: { type: weighted_average } }
       |                                                          ^^^^^^^

    hint: write `is-json`

    error: a text in a `composite`, which AgentV skips
      --> s.yaml:9:69
       |
     9 |       - { type: composite, assertions: [{ name: a, type: is_json }, words], aggregator: { type: weighted_average } }
       |                                                                     ^^^^^

    hint: write it as `{name: …, type: rubrics, criteria: ["…"]}`
    "#);
}

#[test]
fn prompts_are_checked() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: llm-grader, prompt: 'file://gone.md' }\n      \
                 - { type: llm-grader, prompt: 'file://blind.md' }\n      - { type: llm-grader, temperature: 3 }\n      \
                 - { type: llm-grader, prompt: 'file:///etc/hostname' }\n";
    insta::assert_snapshot!(load(&[("s.yaml", suite), ("blind.md", "Grade it.")], ALL).unwrap_err(), @r"
    prompt not found: `gone.md`
      --> s.yaml:5:37
       |
     5 |       - { type: llm-grader, prompt: 'file://gone.md' }
       |                                     ^^^^^^^^^^^^^^^^^

    hint: looked in `.`

    error: the prompt `blind.md` does not show the answer
      --> s.yaml:6:37
       |
     6 |       - { type: llm-grader, prompt: 'file://blind.md' }
       |                                     ^^^^^^^^^^^^^^^^^^

    hint: write `{{ output }}` where the answer belongs, or `{{ expected_output }}`

    error: `llm-grader`: `temperature`: expected 0 to 2, found 3
      --> s.yaml:7:29
       |
     7 |       - { type: llm-grader, temperature: 3 }
       |                             ^^^^^^^^^^^

    hint: omit it to use the target's

    error: prompt outside the roots: `/etc/hostname`
      --> s.yaml:8:37
       |
     8 |       - { type: llm-grader, prompt: 'file:///etc/hostname' }
       |                                     ^^^^^^^^^^^^^^^^^^^^^^^

    hint: only files in `.` can be used, links resolved
    ");
}

#[test]
fn missing_and_cyclic_includes_are_reported() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - include: gone\n      - include: ./circle.yaml\n      \
                 - include: ./deep1.yaml\n      - include: ./list.yaml\n      - include: ../../../etc/hostname\n";
    let files = [
        ("s.yaml", suite),
        ("circle.yaml", "assertions:\n  - include: ./other.yaml\n"),
        ("other.yaml", "assertions:\n  - include: ./circle.yaml\n"),
        ("deep1.yaml", "assertions:\n  - include: ./deep2.yaml\n"),
        ("deep2.yaml", "assertions:\n  - include: ./deep3.yaml\n"),
        ("deep3.yaml", "assertions:\n  - include: ./deep4.yaml\n"),
        ("deep4.yaml", "assertions: []\n"),
        ("list.yaml", "- type: is-json\n"),
    ];
    insta::assert_snapshot!(load(&files, ALL).unwrap_err(), @r"
    no template `gone`
      --> s.yaml:5:18
       |
     5 |       - include: gone
       |                  ^^^^

    hint: a bare name means `.agentv/templates/NAME.yaml`, a path with `./` or `/` a file; looked in `.`

    error: `include` is circular: circle.yaml → other.yaml → circle.yaml
      --> other.yaml:2:14
       |
     2 |   - include: ./circle.yaml
       |              ^^^^^^^^^^^^^

    hint: one of these files must not include the next

    error: `include` is nested more than 3 levels deep: deep1.yaml → deep2.yaml → deep3.yaml → ./deep4.yaml
      --> deep3.yaml:2:14
       |
     2 |   - include: ./deep4.yaml
       |              ^^^^^^^^^^^^

    hint: put the assertions of the last file into an earlier one

    error: a template is a mapping with a list of `assertions`
      --> list.yaml:1:1
       |
     1 | - type: is-json
       | ^^^^^^^^^^^^^^^

    error: template outside the roots: `../../../etc/hostname`
      --> s.yaml:9:18
       |
     9 |       - include: ../../../etc/hostname
       |                  ^^^^^^^^^^^^^^^^^^^^^

    hint: only files in `.` can be included, links resolved
    ");
}

#[test]
fn a_mistake_in_a_template_is_shown_in_the_template() {
    let suite = "tests:\n  - { id: a, input: x, assertions: [{ include: mine }] }\n  - { id: b, input: x, assertions: [{ include: mine }] }\n";
    let files = [("s.yaml", suite), (".agentv/templates/mine.yaml", "assertions:\n  - type: contains\n")];
    insta::assert_snapshot!(load(&files, ALL).unwrap_err(), @r"
    `contains`: `value` is missing
      --> .agentv/templates/mine.yaml:2:5
       |
     2 |   - type: contains
       |     ^

    hint: `value` is a text; put a number in quotes

    error: `contains`: `value` is missing
      --> .agentv/templates/mine.yaml:2:5
       |
     2 |   - type: contains
       |     ^

    hint: `value` is a text; put a number in quotes
    ");
}

#[test]
fn commands_are_rejected_where_they_are_not_allowed() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'rm -rf /' }\n      \
                 - { type: composite, assertions: [{ name: a, type: is-json }], aggregator: { type: code-grader, path: x.sh } }\n";
    let options = GraderOptions { allow_commands: false, ..ALL };
    insta::assert_snapshot!(load(&[("s.yaml", suite)], options).unwrap_err(), @r"
    the suite runs a command, and this container can reach the Docker engine of its host
      --> s.yaml:5:39
       |
     5 |       - { type: code-grader, command: 'rm -rf /' }
       |                                       ^^^^^^^^^^^

    hint: run `run-evals` in a `run:` step instead, or trust the suite and add `--allow-commands`

    error: the suite runs a command, and this container can reach the Docker engine of its host
      --> s.yaml:6:82
       |
     6 |       - { type: composite, assertions: [{ name: a, type: is-json }], aggregator: { type: code-grader, path: x.sh } }
       |                                                                                  ^^

    hint: run `run-evals` in a `run:` step instead, or trust the suite and add `--allow-commands`
    ");
}

#[test]
fn commands_need_a_program_and_a_directory() {
    insta::assert_snapshot!(wrong(
        "      - { type: code-grader }\n      - { type: code-grader, command: [] }\n      \
         - { type: code-grader, command: 'true', cwd: nowhere }\n"
    ), @r"
    `code-grader`: `command` is missing
      --> s.yaml:5:9
       |
     5 |       - { type: code-grader }
       |         ^^

    hint: `command` is a list of words, or a text for `sh`

    error: `code-grader`: no command
      --> s.yaml:6:39
       |
     6 |       - { type: code-grader, command: [] }
       |                                       ^

    hint: `command` is a list of words, or a text for `sh`

    error: `code-grader`: no directory `nowhere`
      --> s.yaml:7:47
       |
     7 |       - { type: code-grader, command: 'true', cwd: nowhere }
       |                                               ^^^

    hint: looked in `.`
    ");
}

#[test]
fn thresholds_are_scores() {
    let suite = "execution: { threshold: 80 }\ntests:\n  - { id: a, input: x, criteria: c, execution: { threshold: -1 } }\n";
    insta::assert_snapshot!(load(&[("s.yaml", suite)], ALL).unwrap_err(), @r"
    `threshold`: expected 0 to 1, found 80
      --> s.yaml:1:25
       |
     1 | execution: { threshold: 80 }
       |                         ^^

    error: `threshold`: expected 0 to 1, found -1
      --> s.yaml:3:61
       |
     3 |   - { id: a, input: x, criteria: c, execution: { threshold: -1 } }
       |                                                             ^^
    ");
}

#[test]
fn texts_become_one_grader_at_the_position_of_the_first() {
    let suite = "tests:\n  - { id: a, input: x, assertions: [{ type: is-json }, One, { type: contains, value: y }, Two] }\n";
    let (suite, _) = load(&[("s.yaml", suite)], ALL).unwrap();
    let graders: Vec<(&str, f64)> =
        suite.tests[0].grading.graders.iter().map(|grader| (grader.name.as_str(), grader.weight)).collect();
    assert_eq!(graders, [("is-json", 1.0), ("rubrics", 2.0), ("contains-y", 1.0)]);
}

#[test]
fn trajectories_are_read_whole() {
    let suite = concat!(
        "tests:\n  - id: a\n    input: x\n    assertions:\n",
        "      - { type: tool_trajectory, mode: any_order, minimums: { search: 2, open: 0 } }\n",
        "      - type: tool-trajectory\n        mode: in_order\n        args_match: superset\n        expected:\n",
        "          - { tool: search, args: { query: x }, max_duration_ms: 500 }\n",
        "          - { tool: search, args: { query: x }, args_match: [query, filter.limit] }\n",
        "          - { tool: search, args: any }\n          - { tool: search, args: { query: x }, args_match: ignore }\n",
    );
    let (suite, warnings) = load(&[("s.yaml", suite)], ALL).unwrap();
    assert_eq!(warnings, [""; 0]);
    let kinds: Vec<&GraderKind> = suite.tests[0].grading.graders.iter().map(|grader| &grader.kind).collect();
    let minimums = vec![("search".to_owned(), 2.0), ("open".to_owned(), 0.0)];
    assert_eq!(*kinds[0], GraderKind::ToolTrajectory(Trajectory::Minimums(minimums)));
    let GraderKind::ToolTrajectory(Trajectory::Calls { order: CallOrder::InOrder, expected }) = kinds[1]
    else {
        panic!("{:?}", kinds[1]);
    };
    let how: Vec<Option<&ArgsMatch>> =
        expected.iter().map(|call| call.args.as_ref().map(|(_, how)| how)).collect();
    let fields = ArgsMatch::Fields(vec!["query".to_owned(), "filter.limit".to_owned()]);
    assert_eq!(how, [Some(&ArgsMatch::Superset), Some(&fields), None, None]);
    assert_eq!(expected[0].max_duration_ms, Some(500.0));
}

#[test]
fn wrong_trajectories_are_errors() {
    insta::assert_snapshot!(wrong(
        "      - { type: tool-trajectory }\n      - { type: tool-trajectory, mode: any }\n      - { type: tool-trajectory, mode: any_order }\n      \
         - { type: tool-trajectory, mode: exact }\n      - { type: tool-trajectory, mode: any_order, minimums: { a: some } }\n      \
         - { type: tool-trajectory, mode: exact, expected: [{ name: a }] }\n      \
         - { type: tool-trajectory, mode: exact, expected: [{ tool: a, args: [1] }] }\n      \
         - { type: tool-trajectory, mode: exact, expected: [], args_match: fuzzy }\n"
    ), @r"
    `tool-trajectory`: `mode` is missing
      --> s.yaml:5:9
       |
     5 |       - { type: tool-trajectory }
       |         ^^

    hint: one of `any_order`, `in_order`, `exact`, `superset` and `subset`

    error: `tool-trajectory`: unknown `mode`: `any`
      --> s.yaml:6:34
       |
     6 |       - { type: tool-trajectory, mode: any }
       |                                  ^^^^

    hint: one of `any_order`, `in_order`, `exact`, `superset` and `subset`

    error: `tool-trajectory`: `any_order` needs `minimums`
      --> s.yaml:7:34
       |
     7 |       - { type: tool-trajectory, mode: any_order }
       |                                  ^^^^

    hint: how often each tool is called at least: `minimums: {search: 2}`

    error: `tool-trajectory`: the mode needs `expected`, a list of tool calls
      --> s.yaml:8:34
       |
     8 |       - { type: tool-trajectory, mode: exact }
       |                                  ^^^^

    hint: each has a `tool`: `{tool: search, args: {query: x}, max_duration_ms: 500}`

    error: `minimums`: `a` has no number, 0 or more
      --> s.yaml:9:66
       |
     9 |       - { type: tool-trajectory, mode: any_order, minimums: { a: some } }
       |                                                                  ^^^^

    hint: `minimums` has a number for each tool: `{search: 2}`

    error: an expected call without a `tool`, which AgentV skips
       --> s.yaml:10:58
        |
     10 |       - { type: tool-trajectory, mode: exact, expected: [{ name: a }] }
        |                                                          ^^

    hint: each has a `tool`: `{tool: search, args: {query: x}, max_duration_ms: 500}`

    error: `args`: expected a mapping or `any`, found a list
       --> s.yaml:11:75
        |
     11 |       - { type: tool-trajectory, mode: exact, expected: [{ tool: a, args: [1] }] }
        |                                                                           ^

    hint: each has a `tool`: `{tool: search, args: {query: x}, max_duration_ms: 500}`

    error: `args_match`: unknown way to compare arguments
       --> s.yaml:12:61
        |
     12 |       - { type: tool-trajectory, mode: exact, expected: [], args_match: fuzzy }
        |                                                             ^^^^^^^^^^

    hint: one of `exact`, `superset`, `subset`, `ignore`, or a list of paths such as `[city, filter.limit]`
    ");
}

#[test]
fn a_custom_type_in_a_composite_is_an_error() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - type: composite\n        assertions: [{ name: n, type: my-own }]\n        aggregator: { type: threshold, threshold: 0.5 }\n";
    let found = load(&[("s.yaml", suite), (".agentv/graders/my-own.mjs", "")], ALL).unwrap_err();
    insta::assert_snapshot!(found, @r"
    AgentV skips `my-own` in a `composite`, because `.agentv` defines it
      --> s.yaml:6:39
       |
     6 |         assertions: [{ name: n, type: my-own }]
       |                                       ^^^^^^

    hint: write a `code-grader` that runs the same file
    ");
}
