//! Bad input: the full message of each, exit code 3 (2 for wrong usage), no call made, nothing lost, nothing left behind.

use insta::assert_snapshot;

use crate::support::{MockLlm, PaidResults, Workspace};

const EVAL: [&str; 6] = ["eval", "suite.eval.yaml", "--target", "llm", "--output", "out"];
const DISPATCH: [&str; 7] =
    ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out"];
const GOOD_SUITE: &str = "tests:\n  - id: a\n    criteria: is polite\n    input: hello\n";
const GOOD_REQUEST: &str = "{\"id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}\n";

/// The error of `eval` for a good suite with these targets.
fn targets(text: impl AsRef<[u8]>, args: &[&str]) -> String {
    let scene = PaidResults::new();
    scene.workspace.write("suite.eval.yaml", GOOD_SUITE);
    scene.workspace.write("targets.yaml", text);
    scene.refused(args)
}

/// The error of `eval` for this suite and the files beside it, with a good target.
fn suite(text: &str, files: &[(&str, &str)]) -> String {
    let scene = PaidResults::new();
    scene.workspace.write("suite.eval.yaml", text);
    for (name, text) in files {
        scene.workspace.write(name, text);
    }
    scene.refused(&EVAL)
}

/// The error of `dispatch` for this requests file with a good target.
fn requests(text: impl AsRef<[u8]>) -> String {
    let scene = PaidResults::new();
    scene.workspace.write("requests.jsonl", text);
    scene.refused(&DISPATCH)
}

#[test]
fn targets_with_an_unknown_key() {
    let message = targets("targets:\n  - name: llm\n    provider: mock\n    modle: x\n", &EVAL);
    assert_snapshot!(message, @r"
    error: unknown key `modle` for provider `mock`
      --> targets.yaml:4:5
       |
     4 |     modle: x
       |     ^^^^^

    hint: did you mean `model`?
    ");
}

#[test]
fn targets_with_a_bad_type() {
    let message = targets("targets:\n  - name: llm\n    provider: mock\n    max_concurrency: many\n", &EVAL);
    assert_snapshot!(message, @r"
    error: `max_concurrency`: expected a whole number, 1 or more, found `many`
      --> targets.yaml:4:22
       |
     4 |     max_concurrency: many
       |                      ^^^^
    ");
}

#[test]
fn several_problems_in_targets_are_reported_together() {
    let message = targets(
        "targets:\n  - name: llm\n    provider: opnai\n  - name: other\n    provider: mock\n    latency: 5\n",
        &EVAL,
    );
    assert_snapshot!(message, @r"
    error: `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found `opnai`
      --> targets.yaml:3:15
       |
     3 |     provider: opnai
       |               ^^^^^

    hint: did you mean `openai`?

    error: `latency`: expected a duration with its unit, found the number 5
      --> targets.yaml:6:14
       |
     6 |     latency: 5
       |              ^

    hint: write `5s`, `5m`, `5h` or `5ms`
    ");
}

#[test]
fn targets_with_a_duplicate() {
    let entry = "  - name: llm\n    provider: mock\n";
    assert_snapshot!(targets(format!("targets:\n{entry}{entry}"), &EVAL), @r"
    error: duplicate target `llm`, first on line 2
      --> targets.yaml:4:11
       |
     4 |   - name: llm
       |           ^^^

    hint: rename one of them; line 2 is `- name: llm`
    ");
}

#[test]
fn a_use_target_cycle() {
    let message =
        targets("targets:\n  - name: llm\n    use_target: b\n  - name: b\n    use_target: llm\n", &EVAL);
    assert_snapshot!(message, @r"
    error: `use_target` is circular: llm → b → llm
      --> targets.yaml:5:17
       |
     5 |     use_target: llm
       |                 ^^^

    hint: give one of these targets a `provider` instead
    ");
}

#[test]
fn a_use_target_without_its_target() {
    let message =
        targets("targets:\n  - name: llm\n    use_target: gpt\n  - name: gpt-5\n    provider: mock\n", &EVAL);
    assert_snapshot!(message, @r"
    error: `use_target` does not resolve: llm → gpt (no such target)
      --> targets.yaml:3:17
       |
     3 |     use_target: gpt
       |                 ^^^

    hint: did you mean `gpt-5`?
    ");
}

#[test]
fn an_unset_variable() {
    let entry =
        "targets:\n  - name: llm\n    provider: openai\n    model: m\n    api_key: ${{ OPENAI_API_KEY }}\n";
    assert_snapshot!(targets(entry, &EVAL), @r"
    error: target `llm`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
      --> targets.yaml:5:14
       |
     5 |     api_key: ${{ OPENAI_API_KEY }}
       |              ^^^^^^^^^^^^^^^^^^^^^

    hint: `export OPENAI_API_KEY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step
    ");
}

#[test]
fn an_unknown_target() {
    let scene = PaidResults::new();
    scene.workspace.write("suite.eval.yaml", GOOD_SUITE);
    assert_snapshot!(scene.refused(&["eval", "suite.eval.yaml", "--target", "lmm"]), @r"
    error: no target `lmm` in `targets.yaml`

    hint: did you mean `llm`?
    ");
    // Without `--target`, the default is the target named `default`.
    assert_snapshot!(scene.refused(&["eval", "suite.eval.yaml"]), @r"
    error: no target `default` in `targets.yaml`

    hint: `--target` chooses one; its targets: `llm`
    ");
}

#[test]
fn a_missing_targets_file() {
    let scene = PaidResults::new();
    scene.workspace.write("evals/suite.eval.yaml", GOOD_SUITE);
    std::fs::remove_file(scene.workspace.path("targets.yaml")).unwrap();
    assert_snapshot!(scene.refused(&["eval", "evals/suite.eval.yaml", "--target", "llm"]), @r"
    error: no targets file: neither `targets.yaml` nor `.agentv/targets.yaml` in `evals`, `.`

    hint: `run-evals init` writes one, and `--targets FILE` sets another
    ");
    let named = ["eval", "evals/suite.eval.yaml", "--target", "llm", "--targets", "gone.yaml"];
    assert_snapshot!(scene.refused(&named), @r"
    error: cannot read `gone.yaml`: No such file or directory (os error 2)

    hint: `--targets FILE` names another file
    ");
}

#[test]
fn targets_that_are_not_yaml() {
    let open_quote = "targets:\n  - name: \"llm\n    provider: mock\n";
    assert_snapshot!(targets(open_quote, &EVAL), @r#"
    error: invalid YAML: invalid indentation in quoted scalar
      --> targets.yaml:2:11
       |
     2 |   - name: "llm
       |           ^
    "#);
    let indentation = "targets:\n  - name: llm\n   provider: mock\n";
    assert_snapshot!(targets(indentation, &EVAL), @r"
    error: invalid YAML: while parsing a block collection, did not find expected '-' indicator
      --> targets.yaml:3:4
       |
     3 |    provider: mock
       |    ^
    ");
    let cut_off = "targets: [\n  {name: llm\n";
    assert_snapshot!(targets(cut_off, &EVAL), @r"
    error: invalid YAML: while parsing a flow mapping, did not find expected ',' or '}'
      --> targets.yaml:2:12
       |
     2 |   {name: llm
       |            ^
    ");
    assert_snapshot!(targets(b"targets:\n  - name: ll\xff\n", &EVAL), @r"
    error: the text is not UTF-8
      --> targets.yaml:2:13
       |
     2 |   - name: ll�
       |             ^

    hint: save the file as UTF-8
    ");
    assert_snapshot!(targets("", &EVAL), @r"
    error: expected a mapping, found nothing
      --> targets.yaml:1:1

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`
    ");
}

#[test]
fn a_workflow_command_in_a_key_is_escaped() {
    let message =
        targets("targets:\n  - name: llm\n    provider: mock\n    \"x\\n::error::y\\e[2J\": 1\n", &EVAL);
    let first = message.lines().next().unwrap();
    assert_snapshot!(first, @r"error: unknown key `x\n::error::y\u{1b}[2J` for provider `mock`");
    assert!(!message.contains("\n::") && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn a_missing_suite() {
    let scene = PaidResults::new();
    assert_snapshot!(scene.refused(&EVAL), @r"
    error: cannot read the suite `suite.eval.yaml`: No such file or directory (os error 2)

    hint: check the path, which is relative to the working directory
    ");
    std::fs::create_dir(scene.workspace.path("evals")).unwrap();
    assert_snapshot!(scene.refused(&["eval", "evals", "--target", "llm"]), @r"
    error: no suite in `evals`: it has no `*.eval.yaml` and no `EVAL.yaml`

    hint: pass a suite, or a directory that has one
    ");
}

#[test]
fn a_missing_test_file() {
    assert_snapshot!(suite("tests: cases/gone.jsonl\n", &[]), @r"
    error: cannot read `cases/gone.jsonl`: No such file or directory (os error 2)
      --> suite.eval.yaml:1:8
       |
     1 | tests: cases/gone.jsonl
       |        ^^^^^^^^^^^^^^^^

    hint: paths of tests begin at the suite's directory
    ");
}

#[test]
fn a_duplicate_test_id() {
    let test = "  - id: a\n    criteria: is polite\n    input: hello\n";
    assert_snapshot!(suite(&format!("tests:\n{test}{test}"), &[]), @r"
    error: duplicate id `a`, first in suite.eval.yaml:2
      --> suite.eval.yaml:5:9
       |
     5 |   - id: a
       |         ^

    hint: ids are unique in a suite: rename one of them
    ");
    let line = "{\"id\":\"a\",\"criteria\":\"is polite\",\"input\":\"hello\"}\n";
    let message = suite(
        "tests:\n  - file://one.jsonl\n  - file://two.jsonl\n",
        &[("one.jsonl", line), ("two.jsonl", line)],
    );
    assert_snapshot!(message, @r#"
    error: duplicate id `a`, first in one.jsonl:1
      --> two.jsonl:1:1
       |
     1 | {"id":"a","criteria":"is polite","input":"hello"}
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: ids are unique in a suite: rename one of them
    "#);
}

#[test]
fn a_truncated_test_line() {
    let lines = "{\"id\":\"a\",\"criteria\":\"is polite\",\"input\":\"hello\"}\n{\"id\":\"b\",\"crit";
    assert_snapshot!(suite("tests: tests.jsonl\n", &[("tests.jsonl", lines)]), @r#"
    error: invalid JSON: the line ends in the middle of a value
      --> tests.jsonl:2:15
       |
     2 | {"id":"b","crit
       |               ^

    hint: a `.jsonl` file has one JSON object per line
    "#);
}

#[test]
fn a_test_without_input_or_criteria() {
    let message = suite("tests:\n  - id: a\n    criteria: is polite\n  - id: b\n    input: hello\n", &[]);
    assert_snapshot!(message, @r"
    error: the test has no `input`, so AgentV skips it
      --> suite.eval.yaml:2:5
       |
     2 |   - id: a
       |     ^

    hint: `input` is a text, or a list of messages with `role` and `content`

    error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
      --> suite.eval.yaml:4:9
       |
     4 |   - id: b
       |         ^

    hint: add one of them; assertions of the suite do not count
    ");
}

#[test]
fn an_attachment_outside_the_roots() {
    let scene = PaidResults::new();
    let repo = scene.workspace.path("repo");
    let secret = scene.workspace.path("secret.txt");
    scene.workspace.write("repo/targets.yaml", "targets:\n  - name: llm\n    provider: mock\n");
    scene.workspace.write("secret.txt", "s3cret");
    let refused = |file: &str| {
        let text = format!("{GOOD_SUITE}    input_files: [\"{file}\"]\n");
        scene.workspace.write("repo/evals/suite.eval.yaml", text);
        let before = scene.workspace.tree();
        let mut command = scene.workspace.command(&["eval", "evals/suite.eval.yaml", "--target", "llm"]);
        let output = command.current_dir(&repo).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(before == scene.workspace.tree(), "something was written");
        scene.comparable(&String::from_utf8(output.stderr).unwrap())
    };
    assert_snapshot!(refused("../../secret.txt"), @r#"
    error: attachment outside the roots: `../../secret.txt`
      --> evals/suite.eval.yaml:5:19
       |
     5 |     input_files: ["../../secret.txt"]
       |                   ^^^^^^^^^^^^^^^^^^

    hint: only files in `evals`, `.` can be attached, links resolved
    "#);
    insta::with_settings!({filters => vec![(r"\^+", "^")]}, {
        assert_snapshot!(refused(secret.to_str().unwrap()), @r#"
        error: attachment outside the roots: `[dir]/secret.txt`
          --> evals/suite.eval.yaml:5:19
           |
         5 |     input_files: ["[dir]/secret.txt"]
           |                   ^

        hint: only files in `evals`, `.` can be attached, links resolved
        "#);
    });
    std::fs::create_dir_all(repo.join("evals")).unwrap();
    std::os::unix::fs::symlink("../../secret.txt", repo.join("evals/link.txt")).unwrap();
    assert_snapshot!(refused("link.txt"), @r#"
    error: attachment outside the roots: `link.txt`
      --> evals/suite.eval.yaml:5:19
       |
     5 |     input_files: ["link.txt"]
       |                   ^^^^^^^^^^

    hint: only files in `evals`, `.` can be attached, links resolved
    "#);
    assert_snapshot!(refused("/etc/passwd"), @r#"
    error: attachment outside the roots: `/etc/passwd`
      --> evals/suite.eval.yaml:5:19
       |
     5 |     input_files: ["/etc/passwd"]
       |                   ^^^^^^^^^^^^^

    hint: only files in `evals`, `.` can be attached, links resolved
    "#);
}

#[test]
fn a_missing_attachment() {
    let message = suite(
        "tests:\n  - id: a\n    criteria: is polite\n    input: hello\n    input_files: [notes.md]\n",
        &[],
    );
    assert_snapshot!(message, @r"
    error: attachment not found: `notes.md`
      --> suite.eval.yaml:5:19
       |
     5 |     input_files: [notes.md]
       |                   ^^^^^^^^

    hint: looked in `.`
    ");
}

#[test]
fn a_suite_that_needs_an_agent() {
    assert_snapshot!(suite(&format!("workspace: ./template\n{GOOD_SUITE}"), &[]), @r"
    error: `workspace` cannot run as a batch: the test is not a single model call
      --> suite.eval.yaml:1:1
       |
     1 | workspace: ./template
       | ^^^^^^^^^

    hint: run it with `agentv eval` and `provider: github-actions`
    ");
    let hooks = "execution:\n  targets:\n    - name: llm\n      hooks: { before_each: setup.sh }\n";
    assert_snapshot!(suite(&format!("{hooks}{GOOD_SUITE}"), &[]), @r"
    error: `hooks` cannot run as a batch: the test is not a single model call
      --> suite.eval.yaml:4:7
       |
     4 |       hooks: { before_each: setup.sh }
       |       ^^^^^

    hint: run it with `agentv eval` and `provider: github-actions`
    ");
    let turns = "tests:\n  - id: a\n    criteria: is polite\n    turns:\n      - input: hello\n";
    assert_snapshot!(suite(turns, &[]), @r"
    error: `turns` cannot run as a batch: the test is not a single model call
      --> suite.eval.yaml:4:5
       |
     4 |     turns:
       |     ^^^^^

    hint: run it with `agentv eval` and `provider: github-actions`
    ");
}

#[test]
fn a_suite_for_another_version() {
    let text = "prompts: [hello]\nproviders: [llm]\ntests:\n  - vars: { name: Ada }\n";
    assert_snapshot!(suite(text, &[]), @r"
    error: this is a promptfoo config or a suite of AgentV 5 (`prompts`), and run-evals supports suites of AgentV 4
      --> suite.eval.yaml:1:1
       |
     1 | prompts: [hello]
       | ^^^^^^^

    hint: write `input` and `assertions` in each test, and set the model in targets.yaml: `run-evals init` writes an example
    ");
}

#[test]
fn a_truncated_request() {
    assert_snapshot!(requests(format!("{GOOD_REQUEST}{{\"id\":\"b\",\"mess")), @r#"
    error: invalid request: the line ends in the middle of a value
      --> requests.jsonl:2:15

    hint: one JSON object per line: {"id":…,"messages":[{"role":"user","content":"…"}]}
    "#);
    let pretty = "{\n  \"id\": \"a\"\n}\n";
    assert_snapshot!(requests(pretty), @r#"
    error: invalid request: the line ends in the middle of a value
      --> requests.jsonl:1:1

    hint: one JSON object per line: {"id":…,"messages":[{"role":"user","content":"…"}]}
    "#);
    assert_snapshot!(requests("[\"a\",[{\"role\":\"user\",\"content\":\"hello\"}]]\n"), @r#"
    error: invalid request: expected a JSON object
      --> requests.jsonl:1:1

    hint: one JSON object per line: {"id":…,"messages":[{"role":"user","content":"…"}]}
    "#);
}

#[test]
fn a_request_that_sets_its_own_target() {
    let with = |params: &str| {
        requests(format!(
            "{GOOD_REQUEST}{{\"id\":\"b\",\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],\"params\":{params}}}\n"
        ))
    };
    assert_snapshot!(with("{\"base_url\":\"https://evil.example\"}"), @r"
    error: invalid request: unknown field `base_url`, expected one of `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `reasoning_effort`, `response_format`
      --> requests.jsonl:2:73

    hint: the prompt belongs in `messages`, parameters in `params`; URLs, keys and settings for all requests belong in the target
    ");
    let message = with("{\"api_key\":\"sk-1234567890\"}");
    assert!(!message.contains("sk-1234567890"), "{message}");
    assert_snapshot!(message, @r"
    error: invalid request: unknown field `api_key`, expected one of `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `reasoning_effort`, `response_format`
      --> requests.jsonl:2:72

    hint: the prompt belongs in `messages`, parameters in `params`; URLs, keys and settings for all requests belong in the target
    ");
}

#[test]
fn a_request_with_a_duplicate_id() {
    let other = "{\"id\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n";
    assert_snapshot!(requests(format!("{GOOD_REQUEST}\n{other}{GOOD_REQUEST}")), @r"
    error: invalid request: duplicate id `a`, first on line 1
      --> requests.jsonl:4

    hint: ids are unique in a batch: rename one of them
    ");
}

#[test]
fn a_request_with_files() {
    let sha256 = "0".repeat(64);
    let block = format!("{{\"type\":\"file\",\"sha256\":\"{sha256}\"}}");
    let file = format!("{{\"sha256\":\"{sha256}\",\"name\":\"x\",\"media_type\":\"text/plain\",\"size\":1}}");
    let message = format!("{{\"id\":\"a\",\"messages\":[{{\"role\":\"user\",\"content\":[{block}]}}]");
    assert_snapshot!(requests(format!("{message},\"files\":[{file}]}}\n")), @r"
    error: invalid request: `files` in a requests file
      --> requests.jsonl:1

    hint: attachments need a suite: use an EVAL.yaml
    ");
    assert_snapshot!(requests(format!("{message}}}\n")), @r"
    error: invalid request: a message refers to attachment [sha256], which `files` does not list
      --> requests.jsonl:1

    hint: attachments need a suite: use an EVAL.yaml
    ");
}

#[test]
fn empty_requests() {
    assert_snapshot!(requests(""), @r#"
    error: no request in `requests.jsonl`

    hint: one request per line: {"id":…,"messages":[{"role":"user","content":"…"}]}
    "#);
    assert_snapshot!(requests("\n  \n"), @r#"
    error: no request in `requests.jsonl`

    hint: one request per line: {"id":…,"messages":[{"role":"user","content":"…"}]}
    "#);
    assert_snapshot!(requests("{\"id\":\"a\",\"messages\":[]}\n"), @r#"
    error: invalid request: `messages` is empty
      --> requests.jsonl:1

    hint: at least one message: {"role":"user","content":"…"}
    "#);
    assert_snapshot!(requests("{\"id\":\" \",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"), @r"
    error: invalid request: `id` is empty
      --> requests.jsonl:1

    hint: any text that no other request of the batch has
    ");
}

#[test]
fn requests_that_are_not_utf_8() {
    let mut text = GOOD_REQUEST.as_bytes().to_vec();
    text.extend(b"{\"id\":\"b\xff\",\"messages\":[]}\n");
    assert_snapshot!(requests(text), @r"
    error: invalid request: the text is not UTF-8
      --> requests.jsonl:2:9

    hint: save the file as UTF-8
    ");
    let utf_16: Vec<u8> =
        std::iter::once(0xfeff).chain(GOOD_REQUEST.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_snapshot!(requests(utf_16), @r"
    error: invalid request: the text is not UTF-8
      --> requests.jsonl:1:1

    hint: save the file as UTF-8
    ");
}

#[test]
fn a_workflow_command_in_a_request_is_escaped() {
    let message = requests("{\"id\":\"a\",\"x\\n::error::y\\u001b[2J\":1}\n");
    assert_snapshot!(message, @r"
    error: invalid request: unknown field `x\n::error::y\u{1b}[2J`, expected one of `id`, `messages`, `params`, `tools`, `files`, `metadata`
      --> requests.jsonl:1:34

    hint: the prompt belongs in `messages`, parameters in `params`; URLs, keys and settings for all requests belong in the target
    ");
}

#[test]
fn unreadable_requests() {
    let scene = PaidResults::new();
    assert_snapshot!(scene.refused(&["dispatch", "--requests", "gone.jsonl", "--target", "llm"]), @r#"
    error: cannot read `gone.jsonl`: No such file or directory (os error 2)

    hint: `--requests` takes a file with one request per line: {"id":…,"messages":[…]}
    "#);
    assert_snapshot!(scene.refused(&["dispatch", "--requests", ".", "--target", "llm"]), @r#"
    error: cannot read `.`: Is a directory (os error 21)

    hint: `--requests` takes a file with one request per line: {"id":…,"messages":[…]}
    "#);
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "\u{feff}targets:\n  - name: llm\n    provider: mock\n");
    workspace.write("requests.jsonl", format!("\u{feff}{GOOD_REQUEST}"));
    workspace.run(&DISPATCH).expect(0);
    assert_eq!(workspace.rows("out/responses.jsonl")[0]["id"], "a");
}

#[test]
fn a_budget_without_a_price() {
    let in_target = "targets:\n  - name: llm\n    provider: mock\n    budget_usd: 1\n";
    assert_snapshot!(targets(in_target, &EVAL), @r"
    error: `budget_usd` without `price`: the cost cannot be computed
      --> targets.yaml:4:17
       |
     4 |     budget_usd: 1
       |                 ^

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }`, in US dollars for a million tokens
    ");
    assert_snapshot!(suite(&format!("execution:\n  budget_usd: 1\n{GOOD_SUITE}"), &[]), @r"
    error: a budget needs a `price` in target `llm`

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target, or remove the budget
    ");
    let scene = PaidResults::new();
    assert_snapshot!(scene.refused(&[&DISPATCH[..], &["--budget-usd", "1"]].concat()), @r"
    error: a budget needs a `price` in target `llm`

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target, or remove the budget
    ");
}

#[test]
fn a_budget_without_a_price_is_reported_before_any_target_is_called() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        format!(
            "targets:\n  - name: priced\n    provider: openai-compatible\n    base_url: {}\n    model: m\n    price: {{ input_per_mtok: 1, output_per_mtok: 1 }}\n  - name: other\n    provider: mock\n",
            llm.base_url()
        ),
    );
    workspace.write_requests(1);
    let both = ["dispatch", "--requests", "requests.jsonl", "--target", "priced", "--target", "other"];
    let output = workspace.run(&[&both[..], &["--budget-usd", "1"]].concat()).expect(3);
    assert!(
        output.stderr.starts_with("error: a budget needs a `price` in target `other`"),
        "{}",
        output.stderr
    );
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn wrong_usage() {
    let scene = PaidResults::new();
    let no_command = scene.fails(2, &[]);
    assert!(no_command.contains("Usage: run-evals [OPTIONS] <COMMAND>"), "{no_command}");
    assert_snapshot!(scene.fails(2, &["eval", "suite.eval.yaml", "--tragets", "x"]), @r"
    error: unexpected argument '--tragets' found

      tip: a similar argument exists: '--targets'

    Usage: run-evals eval --targets <FILE> <SUITE>...

    For more information, try '--help'.
    ");
    assert_snapshot!(scene.fails(2, &["eval", "suite.eval.yaml", "--batch-id", "Nightly"]), @r"
    error: invalid value 'Nightly' for '--batch-id <ID>': a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    For more information, try '--help'.
    ");
    assert_snapshot!(scene.fails(2, &["run", "--batch-id", "kept", "--batch-sha256", "ABC"]), @r"
    error: invalid value 'ABC' for '--batch-sha256 <SHA256>': a SHA-256 has 64 lower-case hexadecimal digits

    For more information, try '--help'.
    ");
    assert_snapshot!(scene.fails(2, &["dispatch", "suite.eval.yaml", "--requests", "r.jsonl"]), @r"
    error: the argument '[SUITE]' cannot be used with '--requests <FILE>'

    Usage: run-evals dispatch [OPTIONS] <SUITE>
           run-evals dispatch [OPTIONS] --requests <FILE>
           run-evals dispatch [OPTIONS] --resume <BATCH>
           run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>

    For more information, try '--help'.
    ");
    assert_snapshot!(scene.fails(2, &["dispatch"]), @r"
    error: the following required arguments were not provided:
      <SUITE>

    Usage: run-evals dispatch [OPTIONS] <SUITE>
           run-evals dispatch [OPTIONS] --requests <FILE>
           run-evals dispatch [OPTIONS] --resume <BATCH>
           run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>

    For more information, try '--help'.
    ");
    let long = "n".repeat(58);
    scene.workspace.write(
        "targets.yaml",
        "targets:\n  - name: one\n    provider: mock\n  - name: two\n    provider: mock\n",
    );
    let two = ["dispatch", "--requests", "requests.jsonl", "--target", "one", "--target", "two"];
    assert_snapshot!(scene.fails(2, &[&two[..], &["--batch-id", &long]].concat()), @r"
    error: cannot name a batch `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-one`: a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    hint: with several targets each batch is named `<batch-id>-<target>`: choose a shorter `--batch-id`
    ");
}

#[test]
fn an_unknown_batch() {
    let scene = PaidResults::new();
    assert_snapshot!(scene.refused(&["collect", "gone", "--output", "other"]), @r"
    error: no batch `gone` in the exchange `.run-evals/exchange.git`

    hint: it has only the results of `kept`; `--target NAME` finds a batch that another machine dispatched
    ");
    assert_snapshot!(scene.refused(&["run", "--batch-id", "gone"]), @r"
    error: no batch `gone` in the exchange `.run-evals/exchange.git`

    hint: it has only the results of `kept`
    ");
    // It was already collected, so there is nothing left to run.
    assert_snapshot!(scene.refused(&["run", "--batch-id", "kept"]), @r"
    error: no batch `kept` in the exchange `.run-evals/exchange.git`

    hint: its results are on the branch `eval-results/kept`, which `collect` reads
    ");
}

#[test]
fn an_exchange_path_that_is_not_an_exchange() {
    let scene = PaidResults::new();
    scene.workspace.write("file", "text");
    scene.workspace.write("folder/file", "text");
    scene.workspace.write("nearly/HEAD", "no ref");
    scene.workspace.write("nearly/objects/x", "");
    let with = |command: &[&str], path: &str| scene.refused(&[command, &["--exchange", path]].concat());
    assert_snapshot!(with(&DISPATCH, "file"), @r"
    error: `file` is not a bare git repository

    hint: pass a new path with `--exchange`
    ");
    for path in ["folder", "nearly"] {
        let message = with(&DISPATCH, path);
        assert!(message.starts_with(&format!("error: `{path}` is not a bare git repository\n")), "{message}");
    }
    assert_snapshot!(with(&DISPATCH, "file/exchange.git"), @r"
    error: cannot make `file/exchange.git`: `file` is not a directory

    hint: pass another path with `--exchange`
    ");
    assert_snapshot!(with(&["collect", "kept"], "folder"), @r"
    error: `folder` is not a bare git repository

    hint: `--exchange` must be one that `run-evals eval` or `run-evals dispatch` created; `--target NAME` finds a batch that another machine dispatched
    ");
    assert_snapshot!(with(&["collect", "kept"], "gone.git"), @r"
    error: no exchange at `gone.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path; `--target NAME` finds a batch that another machine dispatched
    ");
    assert_snapshot!(with(&["run", "--batch-id", "kept"], "gone.git"), @r"
    error: no exchange at `gone.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path
    ");
}

#[test]
fn an_output_that_is_not_a_directory() {
    let scene = PaidResults::new();
    scene.workspace.write("file", "text");
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "file"];
    assert_snapshot!(scene.refused(&args), @r"
    error: `file` is not a directory

    hint: `--output` takes the directory for `responses.jsonl` and `summary.json`
    ");
}

#[test]
fn a_rejected_first_run_leaves_nothing_behind() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - name: llm\n    provider: mock\n");
    workspace.write("requests.jsonl", "{\"id\":");
    let before = workspace.tree();
    workspace.run(&DISPATCH).expect(3);
    workspace.run(&["collect", "b1", "--output", "out"]).expect(3);
    workspace.run(&["run", "--batch-id", "b1"]).expect(3);
    assert!(before == workspace.tree(), "{:?}", workspace.tree().keys());
}
