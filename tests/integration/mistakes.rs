//! Plausible mistakes over all commands: each message names the file or option, what is legal, and the fix.

use std::fmt::Write as _;
use std::net::TcpListener;

use insta::assert_snapshot;

use crate::support::{Output, Workspace};

const SUITE: &str = "\
tests:
  - id: greeting
    input: Say hello
    assertions:
      - type: contains
        value: hello
";
const TARGETS: &str = "\
targets:
  - name: default
    provider: mock
    response: hello
  - name: gpt
    provider: openai
    model: gpt-6-luna
    api_key: ${{ OPENAI_API_KEY }}
";

/// A directory with a suite and two targets, and the transcript of what goes wrong in it.
struct Mistakes {
    workspace: Workspace,
    transcript: String,
}

impl Mistakes {
    fn new() -> Self {
        let workspace = Workspace::new();
        workspace.write("suite.eval.yaml", SUITE);
        workspace.write("targets.yaml", TARGETS);
        Self { workspace, transcript: String::new() }
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.workspace.write(name, text);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.workspace = self.workspace.env(name, value);
        self
    }

    /// Runs a command that must fail with this exit code and print nothing on stdout.
    fn fails(mut self, code: i32, args: &str) -> Self {
        let words: Vec<&str> = args.split_whitespace().collect();
        let output = self.workspace.run(&words);
        self.note(&format!("run-evals {args}"), code, output);
        self
    }

    /// The same for a step of a workflow, with these inputs.
    fn step_fails(mut self, code: i32, inputs: &[(&str, &str)]) -> Self {
        let mut command = self.workspace.command(&[]);
        for (name, value) in inputs {
            command.env(format!("INPUT_{}", name.to_uppercase()), value);
        }
        let with: Vec<String> = inputs.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        self.note(&format!("with: {{ {} }}", with.join(", ")), code, Output::of(&mut command));
        self
    }

    fn note(&mut self, what: &str, code: i32, output: Output) {
        let output = output.expect(code);
        assert_eq!(output.stdout, "", "stdout is for data: {what}");
        let message = output.stderr.replace(self.workspace.root().to_str().unwrap(), "[dir]");
        let has_fix = [
            "hint: ",
            "tip: ",
            "Usage: ",
            "[possible values: ",
            "expected ",
            "characters of",
            "hexadecimal digits",
            "a whole number from",
        ];
        assert!(has_fix.iter().any(|words| message.contains(words)), "no way out: {what}\n{message}");
        assert!(!message.contains("\\n"), "a literal line break: {what}\n{message}");
        writeln!(self.transcript, "$ {what}\n{}\n", message.trim_end()).unwrap();
    }
}

#[test]
fn suites_that_are_not_suites() {
    let mistakes = Mistakes::new()
        .file("suite.json", "{\"tests\": []}\n")
        .file("empty.eval.yaml", "")
        .file("no-tests.eval.yaml", "name: demo\ntests: []\n")
        .file("empty.jsonl", "")
        .file(
            "promptfooconfig.yaml",
            "prompts: ['Translate {{ text }}']\nproviders: [openai:gpt-6-luna]\ntests: []\n",
        )
        .file("evals/README.md", "no suite here\n")
        .fails(3, "eval suite.json")
        .fails(3, "eval empty.eval.yaml")
        .fails(3, "eval no-tests.eval.yaml")
        .fails(3, "eval empty.jsonl")
        .fails(3, "eval promptfooconfig.yaml")
        .fails(3, "eval missing.eval.yaml")
        .fails(3, "eval targets.yaml");
    assert_snapshot!(mistakes.transcript, @r#"
    $ run-evals eval suite.json
    error: cannot load the suite `suite.json`: suites are `.yaml`, `.yml` or `.jsonl` files

    hint: JSON is valid YAML, so rename it: `mv suite.json suite.yaml`; an Agent Skills `evals.json` runs with `agentv eval` only

    $ run-evals eval empty.eval.yaml
    error: the suite is empty
      --> empty.eval.yaml:1:1

    hint: a suite has `tests`, each with `id`, `input` and `assertions`; `run-evals init` writes an example

    $ run-evals eval no-tests.eval.yaml
    error: the suite has no tests
      --> no-tests.eval.yaml:2:8
       |
     2 | tests: []
       |        ^

    hint: list them in `tests`, each with `id`, `input` and `assertions`

    $ run-evals eval empty.jsonl
    error: the suite has no tests
      --> empty.jsonl:1:1

    hint: write one test per line: {"id":"greeting","input":"Hello","criteria":"is polite"}

    $ run-evals eval promptfooconfig.yaml
    error: this is a promptfoo config (`prompts`), and run-evals supports suites of AgentV 4
      --> promptfooconfig.yaml:1:1
       |
     1 | prompts: ['Translate {{ text }}']
       | ^^^^^^^

    hint: write `input` and `assertions` in each test, and set the model in targets.yaml: `run-evals init` writes an example

    $ run-evals eval missing.eval.yaml
    error: cannot read the suite `missing.eval.yaml`: No such file or directory (os error 2)

    hint: check the path, which is relative to the working directory

    $ run-evals eval targets.yaml
    error: this is a targets file, not a suite
      --> targets.yaml:1:1
       |
     1 | targets:
       | ^^^^^^^^

    hint: pass the suite, and this file with `--targets`: `run-evals eval SUITE --targets FILE`; `run-evals doctor` checks a targets file
    "#);
}

#[test]
fn yaml_that_is_not_yaml() {
    let test = "tests:\n  - id: a\n";
    let mistakes = Mistakes::new()
        .file("tab.eval.yaml", &format!("{test}\t  input: hello\n"))
        .file("tabs.eval.yaml", "tests:\n\t- id: a\n")
        .file("colon.eval.yaml", &format!("{test}    input: Note: be polite\n"))
        .file("mention.eval.yaml", &format!("{test}    input: @user, be polite\n"))
        .file("variable.eval.yaml", &format!("{test}    input: {{{{ question }}}}\n"))
        .file("star.eval.yaml", &format!("{test}    input: *very* polite\n"))
        .fails(3, "eval tab.eval.yaml")
        .fails(3, "eval tabs.eval.yaml")
        .fails(3, "eval colon.eval.yaml")
        .fails(3, "eval mention.eval.yaml")
        .fails(3, "eval variable.eval.yaml")
        .fails(3, "eval star.eval.yaml");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals eval tab.eval.yaml
    error: invalid YAML: while scanning a plain scalar, found a tab
      --> tab.eval.yaml:2:9
       |
     2 |   - id: a
       |         ^

    hint: line 3 is indented with a tab: YAML allows only spaces

    $ run-evals eval tabs.eval.yaml
    error: invalid YAML: tabs disallowed within this context (block indentation)
      --> tabs.eval.yaml:2:2
       |
     2 |  - id: a
       |  ^

    hint: line 2 is indented with a tab: YAML allows only spaces

    $ run-evals eval colon.eval.yaml
    error: invalid YAML: mapping values are not allowed in this context
      --> colon.eval.yaml:3:16
       |
     3 |     input: Note: be polite
       |                ^

    hint: a value that contains `: ` needs quotes: `input: '…'`

    $ run-evals eval mention.eval.yaml
    error: invalid YAML: unexpected character: `@'
      --> mention.eval.yaml:3:12
       |
     3 |     input: @user, be polite
       |            ^

    hint: a value that starts with a special character needs quotes: `input: '…'`

    $ run-evals eval variable.eval.yaml
    error: expected a plain key
      --> variable.eval.yaml:3:13
       |
     3 |     input: {{ question }}
       |             ^^

    hint: a value that starts with `{{` needs quotes: `input: '…'`

    $ run-evals eval star.eval.yaml
    error: invalid YAML: while parsing node, found unknown anchor
      --> star.eval.yaml:3:12
       |
     3 |     input: *very* polite
       |            ^

    hint: a value that starts with `*`, `&` or `!` needs quotes: `input: '…'`
    ");
}

#[test]
fn mistakes_in_a_suite() {
    let mistakes = Mistakes::new()
        .file("grader.eval.yaml", &SUITE.replace("type: contains", "type: contain"))
        .file("twice.eval.yaml", &format!("{SUITE}{}", SUITE.replace("tests:\n", "")))
        .file("silent.eval.yaml", "tests:\n  - id: a\n    input: Say hello\n")
        .fails(3, "eval grader.eval.yaml")
        .fails(3, "eval twice.eval.yaml")
        .fails(3, "eval silent.eval.yaml");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals eval grader.eval.yaml
    error: unknown grader `contain`
      --> grader.eval.yaml:5:15
       |
     5 |       - type: contain
       |               ^^^^^^^

    hint: did you mean `contains`? `--ignore-unknown-graders` skips it

    $ run-evals eval twice.eval.yaml
    error: duplicate id `greeting`, first in twice.eval.yaml:2
      --> twice.eval.yaml:7:9
       |
     7 |   - id: greeting
       |         ^^^^^^^^

    hint: ids are unique in a suite: rename one of them

    $ run-evals eval silent.eval.yaml
    error: the test has no `criteria`, `expected_output` or `assertions`, so AgentV skips it
      --> silent.eval.yaml:2:9
       |
     2 |   - id: a
       |         ^

    hint: add one of them; assertions of the suite do not count
    ");
}

#[test]
fn options_of_eval() {
    let mistakes = Mistakes::new()
        .fails(2, "evla suite.eval.yaml")
        .fails(2, "eval suite.eval.yaml --treshold 0.8")
        .fails(2, "eval suite.eval.yaml --tagret gpt")
        .fails(2, "eval suite.eval.yaml --threshold 80")
        .fails(2, "eval suite.eval.yaml --budget-usd $5")
        .fails(2, "eval suite.eval.yaml --deadline 45")
        .fails(2, "eval suite.eval.yaml --fail-on failed")
        .fails(2, "eval suite.eval.yaml --bless")
        .fails(2, "eval suite.eval.yaml --batch-id My_Batch")
        .fails(3, "eval suite.eval.yaml --baseline v1");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals evla suite.eval.yaml
    error: unrecognized subcommand 'evla'

      tip: some similar subcommands exist: 'evaluate', 'eval'

    Usage: run-evals [OPTIONS] <COMMAND>

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --treshold 0.8
    error: unexpected argument '--treshold' found

      tip: a similar argument exists: '--threshold'

    Usage: run-evals eval --threshold <SCORE> <SUITE>...

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --tagret gpt
    error: unexpected argument '--tagret' found

      tip: a similar argument exists: '--target'

    Usage: run-evals eval --target <NAME> <SUITE>...

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --threshold 80
    error: invalid value '80' for '--threshold <SCORE>': expected a score from 0 to 1, for example `0.8`

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --budget-usd $5
    error: invalid value '$5' for '--budget-usd <USD>': expected an amount above 0, for example `2.50`

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --deadline 45
    error: invalid value '45' for '--deadline <DURATION>': expected a unit after the number: `45s`, `45m` or `45h`

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --fail-on failed
    error: invalid value 'failed' for '--fail-on <WHAT>'
      [possible values: regression, threshold, incomplete, never]

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --bless
    error: the following required arguments were not provided:
      --baseline <BASELINE>

    Usage: run-evals eval --baseline <BASELINE> --bless <SUITE>...

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --batch-id My_Batch
    error: invalid value 'My_Batch' for '--batch-id <ID>': a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    For more information, try '--help'.

    $ run-evals eval suite.eval.yaml --baseline v1
    error: no baseline `v1`

    hint: a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory
    ");
}

#[test]
fn targets() {
    let typo = TARGETS.replace("model:", "modle:");
    let foreign = TARGETS.replace("model:", "engine_version:");
    let mistakes = Mistakes::new()
        .file("typo.yaml", &typo)
        .file("foreign.yaml", &foreign)
        .file("list.yaml", "- name: gpt\n  provider: openai\n")
        .file("empty.yaml", "")
        .fails(3, "eval suite.eval.yaml --target gtp")
        .fails(3, "eval suite.eval.yaml --target claude")
        .fails(3, "eval suite.eval.yaml --target gpt")
        .fails(3, "eval suite.eval.yaml --targets missing.yaml")
        .fails(3, "eval suite.eval.yaml --targets typo.yaml")
        .fails(3, "eval suite.eval.yaml --targets foreign.yaml")
        .fails(3, "eval suite.eval.yaml --targets list.yaml")
        .fails(3, "eval suite.eval.yaml --targets empty.yaml")
        .fails(3, "doctor --target gtp --offline");
    assert_snapshot!(mistakes.transcript, @"
    $ run-evals eval suite.eval.yaml --target gtp
    error: no target `gtp` in `targets.yaml`

    hint: did you mean `gpt`?

    $ run-evals eval suite.eval.yaml --target claude
    error: no target `claude` in `targets.yaml`

    hint: `--target` chooses one; its targets: `default`, `gpt`

    $ run-evals eval suite.eval.yaml --target gpt
    error: target `gpt`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
      --> targets.yaml:8:14
       |
     8 |     api_key: ${{ OPENAI_API_KEY }}
       |              ^^^^^^^^^^^^^^^^^^^^^

    hint: `export OPENAI_API_KEY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step

    $ run-evals eval suite.eval.yaml --targets missing.yaml
    error: cannot read `missing.yaml`: No such file or directory (os error 2)

    hint: `--targets FILE` names another file

    $ run-evals eval suite.eval.yaml --targets typo.yaml
    error: unknown key `modle` for provider `openai`
      --> typo.yaml:7:5
       |
     7 |     modle: gpt-6-luna
       |     ^^^^^

    hint: did you mean `model`?

    $ run-evals eval suite.eval.yaml --targets foreign.yaml
    error: unknown key `engine_version` for provider `openai`
      --> foreign.yaml:7:5
       |
     7 |     engine_version: gpt-6-luna
       |     ^^^^^^^^^^^^^^

    hint: legal for provider `openai`: `name`, `provider`, `model`, `deployment`, `deployment_name`, `variant`, `base_url`, `endpoint`, `api_key`, `ca_file`, `seed`, `api_format`, `auth`, `temperature`, `top_p`, `stop`, `max_tokens`, `max_output_tokens`, `reasoning_effort`, `response_format`, `max_concurrency`, `requests_per_minute`, `tokens_per_minute`, `timeout` and 17 more

    $ run-evals eval suite.eval.yaml --targets list.yaml
    error: expected a mapping, found a list
      --> list.yaml:1:1
       |
     1 | - name: gpt
       | ^

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`

    $ run-evals eval suite.eval.yaml --targets empty.yaml
    error: expected a mapping, found nothing
      --> empty.yaml:1:1

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`

    $ run-evals doctor --target gtp --offline
    error: no target `gtp` in `targets.yaml`

    hint: did you mean `gpt`?
    ");
    let nothing = Mistakes { workspace: Workspace::new(), transcript: String::new() }
        .fails(2, "eval")
        .fails(3, "doctor")
        .file("suite.eval.yaml", SUITE)
        .fails(3, "eval suite.eval.yaml")
        .fails(2, "targets chekc");
    assert_snapshot!(nothing.transcript, @"
    $ run-evals eval
    error: no suite: this directory has no `*.eval.yaml` and no `EVAL.yaml`

    hint: pass one, as in `run-evals eval SUITE`; `run-evals init` writes a first one

    $ run-evals doctor
    error: no targets file: neither `targets.yaml` nor `.agentv/targets.yaml` in `.`

    hint: `run-evals init` writes one, and `--targets FILE` sets another

    $ run-evals eval suite.eval.yaml
    error: no targets file: neither `targets.yaml` nor `.agentv/targets.yaml` in `.`

    hint: `run-evals init` writes one, and `--targets FILE` sets another

    $ run-evals targets chekc
    error: unrecognized subcommand 'chekc'

      tip: a similar subcommand exists: 'schema'

    Usage: run-evals targets [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn a_missing_key_in_a_workflow() {
    let in_actions = || Mistakes::new().env("GITHUB_ACTIONS", "true").env("GITHUB_REPOSITORY", "acme/evals");
    let runner = in_actions()
        .env("GITHUB_EVENT_NAME", "workflow_dispatch")
        .fails(3, "eval suite.eval.yaml --target gpt");
    assert_snapshot!(runner.transcript, @r"
    $ run-evals eval suite.eval.yaml --target gpt
    error: target `gpt`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
      --> targets.yaml:8:14
       |
     8 |     api_key: ${{ OPENAI_API_KEY }}
       |              ^^^^^^^^^^^^^^^^^^^^^

    hint: `gh secret set OPENAI_API_KEY --env run-evals -R acme/evals`, and in the `env:` of the workflow's step: `OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}`; a workflow that calls `runner.yml` passes it by name in `secrets:`
    ::error title=run-evals::target `gpt`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set%0A  --> targets.yaml:8:14%0A   |%0A 8 |     api_key: ${{ OPENAI_API_KEY }}%0A   |              ^^^^^^^^^^^^^^^^^^^^^%0A%0Ahint: `gh secret set OPENAI_API_KEY --env run-evals -R acme/evals`, and in the `env:` of the workflow's step: `OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}`; a workflow that calls `runner.yml` passes it by name in `secrets:`
    ");
    let own_workflow =
        in_actions().env("GITHUB_EVENT_NAME", "pull_request").fails(3, "eval suite.eval.yaml --target gpt");
    assert!(own_workflow.transcript.contains("`gh secret set OPENAI_API_KEY -R acme/evals`"));
}

#[test]
fn dispatch_and_collect() {
    let mistakes = Mistakes::new()
        .file("requests.jsonl", "{\"id\":\"a\",\"prompt\":\"hello\"}\n")
        .file("empty.jsonl", "")
        .fails(2, "dispatch")
        .fails(2, "dispatch suite.eval.yaml --requests requests.jsonl")
        .fails(3, "dispatch --requests suite.eval.yaml")
        .fails(3, "dispatch --requests requests.jsonl")
        .fails(3, "dispatch --requests empty.jsonl")
        .fails(3, "dispatch --requests missing.jsonl")
        .fails(2, "dispatch suite.eval.yaml --handover email")
        .fails(2, "dispatch suite.eval.yaml --no-wait")
        .fails(3, "dispatch --resume 20260102-030405-1a2b3c4d")
        .fails(2, "collect")
        .fails(2, "collect out/responses.jsonl")
        .fails(3, "collect 20260102-030405-1a2b3c4d");
    assert_snapshot!(mistakes.transcript, @r#"
    $ run-evals dispatch
    error: the following required arguments were not provided:
      <SUITE>

    Usage: run-evals dispatch [OPTIONS] <SUITE>
           run-evals dispatch [OPTIONS] --requests <FILE>
           run-evals dispatch [OPTIONS] --resume <BATCH>
           run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>

    For more information, try '--help'.

    $ run-evals dispatch suite.eval.yaml --requests requests.jsonl
    error: the argument '[SUITE]' cannot be used with '--requests <FILE>'

    Usage: run-evals dispatch [OPTIONS] <SUITE>
           run-evals dispatch [OPTIONS] --requests <FILE>
           run-evals dispatch [OPTIONS] --resume <BATCH>
           run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>

    For more information, try '--help'.

    $ run-evals dispatch --requests suite.eval.yaml
    error: invalid request: expected a JSON object
      --> suite.eval.yaml:1:1

    hint: one JSON object per line: {"id":…,"messages":[{"role":"user","content":"…"}]}

    $ run-evals dispatch --requests requests.jsonl
    error: invalid request: unknown field `prompt`, expected one of `id`, `messages`, `params`, `tools`, `files`, `metadata`
      --> requests.jsonl:1:18

    hint: the prompt belongs in `messages`, parameters in `params`; URLs, keys and settings for all requests belong in the target

    $ run-evals dispatch --requests empty.jsonl
    error: no request in `empty.jsonl`

    hint: one request per line: {"id":…,"messages":[{"role":"user","content":"…"}]}

    $ run-evals dispatch --requests missing.jsonl
    error: cannot read `missing.jsonl`: No such file or directory (os error 2)

    hint: `--requests` takes a file with one request per line: {"id":…,"messages":[…]}

    $ run-evals dispatch suite.eval.yaml --handover email
    error: invalid value 'email' for '--handover <HOW>'
      [possible values: auto, inline, artifact, branch]

    For more information, try '--help'.

    $ run-evals dispatch suite.eval.yaml --no-wait
    error: `--no-wait` is for runner repositories; `default` is called from here

    hint: remove `--no-wait`, or choose a target with `provider: github-actions`

    $ run-evals dispatch --resume 20260102-030405-1a2b3c4d
    error: no exchange at `.run-evals/exchange.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path

    $ run-evals collect
    error: the following required arguments were not provided:
      <BATCH>

    Usage: run-evals collect <BATCH>

    For more information, try '--help'.

    $ run-evals collect out/responses.jsonl
    error: invalid value 'out/responses.jsonl' for '<BATCH>': a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    For more information, try '--help'.

    $ run-evals collect 20260102-030405-1a2b3c4d
    error: no exchange at `.run-evals/exchange.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path; `--target NAME` finds a batch that another machine dispatched
    "#);
}

#[test]
fn run_and_adapter() {
    let mistakes = Mistakes::new()
        .fails(2, "run")
        .fails(3, "run --batch-id b1")
        .fails(2, "run --shard first")
        .fails(2, "adapter --target gpt")
        .fails(3, "adapter --target gpt --prompt-file missing.md --output-file out.json --id a");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals run
    error: expected `--batch-id ID`

    hint: without it, `run` works only as a step of a dispatched workflow

    $ run-evals run --batch-id b1
    error: no exchange at `.run-evals/exchange.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path

    $ run-evals run --shard first
    error: invalid value 'first' for '--shard <K>': expected the number of a shard, 0 or more

    For more information, try '--help'.

    $ run-evals adapter --target gpt
    the following required arguments were not provided: --prompt-file <FILE> --output-file <FILE> --id <ID> (hint: `run-evals adapter --help` shows how)

    $ run-evals adapter --target gpt --prompt-file missing.md --output-file out.json --id a
    cannot read the prompt file `missing.md`: No such file or directory (os error 2) (hint: AgentV writes it: pass `--prompt-file {PROMPT_FILE}`)
    ");
}

#[test]
fn report() {
    let mistakes = Mistakes::new();
    mistakes.workspace.run(&["eval", "suite.eval.yaml", "--output", "out", "-q"]).expect(0);
    let mistakes = mistakes
        .fails(3, "report missing")
        .fails(3, "report suite.eval.yaml")
        .fails(3, "report .")
        .fails(2, "report out --alpha 5")
        .fails(2, "report out --repo acme/evals")
        .fails(2, "report out --pr-comment --pr first")
        .fails(2, "report out --pr-comment")
        .fails(3, "report out --baseline missing")
        .fails(3, "report out --baseline main:evals");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals report missing
    error: no results: `missing` is neither a directory nor a run

    hint: `run-evals runs` lists the runs; `latest` is the newest

    $ run-evals report suite.eval.yaml
    error: no results: `suite.eval.yaml` has no `responses.jsonl`

    hint: pass the directory that `eval` printed, or the one given to `--output`

    $ run-evals report .
    error: no results: `.` has no `responses.jsonl`

    hint: pass the directory that `eval` printed, or the one given to `--output`

    $ run-evals report out --alpha 5
    error: invalid value '5' for '--alpha <LEVEL>': expected a level from 0.0001 to 0.5, for example `0.05`

    For more information, try '--help'.

    $ run-evals report out --repo acme/evals
    error: the following required arguments were not provided:
      --pr-comment

    Usage: run-evals report --pr-comment --repo <OWNER/NAME> <RESULTS>

    For more information, try '--help'.

    $ run-evals report out --pr-comment --pr first
    error: invalid value 'first' for '--pr <NUMBER>': expected a whole number, 1 or more

    For more information, try '--help'.

    $ run-evals report out --pr-comment
    error: the pull request for `--pr-comment` is unknown

    hint: pass it: `--repo <owner>/<name> --pr <number>`

    $ run-evals report out --baseline missing
    error: no baseline `missing`

    hint: a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory

    $ run-evals report out --baseline main:evals
    error: no baseline `main:evals`

    hint: `<ref>` must be known here (`git fetch` brings it) and `<folder>`, from the root of the repository, must have a `scores.jsonl`; a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory
    ");
}

#[test]
fn bundle() {
    let mistakes = Mistakes::new()
        .file("taken/notes.txt", "mine\n")
        .fails(2, "bundle suite.eval.yaml")
        .fails(3, "bundle missing.eval.yaml -o bundle")
        .fails(2, "bundle suite.eval.yaml -o taken")
        .fails(3, "bundle verify missing")
        .fails(3, "bundle verify taken")
        .fails(2, "bundle verify taken --sha256 1a2b3c");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals bundle suite.eval.yaml
    error: the following required arguments were not provided:
      --output <DIR>

    Usage: run-evals bundle --output <DIR> <SUITE>

    For more information, try '--help'.

    $ run-evals bundle missing.eval.yaml -o bundle
    error: cannot read the suite `missing.eval.yaml`: No such file or directory (os error 2)

    hint: check the path, which is relative to the working directory

    $ run-evals bundle suite.eval.yaml -o taken
    error: `[dir]/taken` exists and is not a bundle

    hint: choose a new directory with `-o`

    $ run-evals bundle verify missing
    error: `missing` is not a bundle: cannot read `manifest.json`: No such file or directory (os error 2)

    hint: `run-evals bundle SUITE -o DIR` creates one

    $ run-evals bundle verify taken
    error: `taken` is not a bundle: cannot read `manifest.json`: No such file or directory (os error 2)

    hint: `run-evals bundle SUITE -o DIR` creates one

    $ run-evals bundle verify taken --sha256 1a2b3c
    error: invalid value '1a2b3c' for '--sha256 <DIGEST>': a SHA-256 has 64 lower-case hexadecimal digits

    For more information, try '--help'.
    ");
}

#[test]
fn evaluate_and_rollouts() {
    let mistakes = Mistakes::new()
        .file("rows.jsonl", "{\"messages\":[]}\n")
        .fails(2, "evaluate")
        .fails(2, "evaluate My_Skill")
        .fails(3, "evaluate summarize")
        .fails(2, "evaluate summarize --replicates 1000")
        .fails(2, "evaluate summarize --commit-as me")
        .fails(2, "rollout run")
        .fails(2, "rollout run --dataset rows.jsonl")
        .fails(2, "rollout dispatch rows.jsonl")
        .fails(3, "rollout dispatch rows.jsonl --model-base-url https://traces.example.com")
        .fails(3, "rollout dispatch rows.jsonl --model-base-url traces.example.com --model m --target gpt");
    assert_snapshot!(mistakes.transcript, @r#"
    $ run-evals evaluate
    error: the following required arguments were not provided:
      <SKILL>

    Usage: run-evals evaluate <SKILL>

    For more information, try '--help'.

    $ run-evals evaluate My_Skill
    error: invalid value 'My_Skill' for '<SKILL>': the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`

    For more information, try '--help'.

    $ run-evals evaluate summarize
    error: `targets.yaml` is in the evaluated repository, so a commit could redirect the API keys

    hint: keep the targets file elsewhere and pass it with `--targets FILE`; passing this one trusts everyone who can write to the checked-out branch

    $ run-evals evaluate summarize --replicates 1000
    error: invalid value '1000' for '--replicates <N>': replicates: a whole number from 1 to 100

    For more information, try '--help'.

    $ run-evals evaluate summarize --commit-as me
    error: invalid value 'me' for '--commit-as <WHO>': expected a name and an address, for example `Eval Bot <bot@example.org>`

    For more information, try '--help'.

    $ run-evals rollout run
    error: the following required arguments were not provided:
      --dataset <FILE>

    Usage: run-evals rollout run --dataset <FILE>

    For more information, try '--help'.

    $ run-evals rollout run --dataset rows.jsonl
    error: no event: `GITHUB_EVENT_PATH` is not set

    hint: `rollout run` is a step of a workflow with `on: workflow_dispatch`

    $ run-evals rollout dispatch rows.jsonl
    error: the following required arguments were not provided:
      --model-base-url <URL>

    Usage: run-evals rollout dispatch --model-base-url <URL> <ROWS>

    For more information, try '--help'.

    $ run-evals rollout dispatch rows.jsonl --model-base-url https://traces.example.com
    error: no model: expected `model` in `completion_params`, or `--model NAME`
      --> rows.jsonl:1:1
       |
     1 | {"messages":[]}
       | ^^^^^^^^^^^^^^^

    $ run-evals rollout dispatch rows.jsonl --model-base-url traces.example.com --model m --target gpt
    error: `model_base_url` is not a URL: relative URL without a base

    hint: such as `https://traces.example.com`; the key belongs in `api_key`
    "#);
}

#[test]
fn serve() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port();
    let mistakes = Mistakes::new()
        .env("RUN_EVALS_SERVE_TOKEN", "a-token-of-at-least-32-characters")
        .fails(2, "serve")
        .fails(2, "serve --studio --listen 8080")
        .fails(2, "serve --studio --listen 0.0.0.0:8080")
        .fails(2, "serve --studio --tls-cert cert.pem")
        .fails(3, "serve --library missing")
        .fails(1, &format!("serve --studio --listen 127.0.0.1:{port}"));
    let transcript = mistakes.transcript.replace(&port.to_string(), "[port]");
    assert_snapshot!(transcript.replace(&(port + 1).to_string(), "[port + 1]"), @r"
    $ run-evals serve
    error: nothing to serve: no skill library

    hint: pass a clone: `--library DIR`; `--studio` serves the page alone, `--traces DIR` a trace gateway

    $ run-evals serve --studio --listen 8080
    error: invalid value '8080' for '--listen <ADDRESS>': expected an IP address and a port, for example `127.0.0.1:8080`

    For more information, try '--help'.

    $ run-evals serve --studio --listen 0.0.0.0:8080
    error: without TLS, clients of `0.0.0.0:8080` would send tokens in cleartext

    hint: pass `--tls-cert` and `--tls-key`, or `--behind-proxy` behind a TLS proxy, or listen on `127.0.0.1`

    $ run-evals serve --studio --tls-cert cert.pem
    error: the following required arguments were not provided:
      --tls-key <FILE>

    Usage: run-evals serve --tls-cert <FILE> --tls-key <FILE> --studio

    For more information, try '--help'.

    $ run-evals serve --library missing
    error: `missing` is not a git clone

    hint: `git clone URL missing` creates one

    $ run-evals serve --studio --listen 127.0.0.1:[port]
    error: cannot listen on `127.0.0.1:[port]`: Address already in use (os error 98)

    hint: another program uses port [port]: stop it, or choose another port, for example `--listen 127.0.0.1:[port + 1]`
    ");
    let no_token = Mistakes::new().fails(3, "serve --studio");
    assert_snapshot!(no_token.transcript, @r"
    $ run-evals serve --studio
    error: no token for clients

    hint: pass a file with `--auth-token-file`, or set `RUN_EVALS_SERVE_TOKEN`; generate one with `openssl rand -hex 32`
    ");
}

#[test]
fn trigger_and_sweep() {
    let mistakes = Mistakes::new()
        .fails(2, "trigger summarize")
        .fails(2, "trigger summarize --url https://evals.example.com");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals trigger summarize
    error: the following required arguments were not provided:
      --url <URL>

    Usage: run-evals trigger --url <URL> <SKILL>

    For more information, try '--help'.

    $ run-evals trigger summarize --url https://evals.example.com
    error: no token for the service

    hint: set `RUN_EVALS_SERVE_TOKEN`, or pass a file with `--auth-token-file`
    ");
    let with_token = Mistakes::new()
        .env("RUN_EVALS_SERVE_TOKEN", "secret")
        .fails(2, "trigger summarize --url evals.example.com")
        .fails(2, "trigger summarize --url http://evals.example.com")
        .fails(2, "trigger --url https://evals.example.com")
        .fails(2, "trigger --url https://evals.example.com --after main")
        .fails(2, "sweep --url https://evals.example.com")
        .fails(2, "sweep --url https://evals.example.com --repo skills")
        .fails(2, "sweep --url https://evals.example.com --since yesterday");
    assert_snapshot!(with_token.transcript, @r"
    $ run-evals trigger summarize --url evals.example.com
    error: the address of the service is not a URL

    hint: such as `https://evaluator.example.org`

    $ run-evals trigger summarize --url http://evals.example.com
    error: the address of the service must be `https`: over `http`, others on the network could read the token

    hint: such as `https://evaluator.example.org`

    $ run-evals trigger --url https://evals.example.com
    error: no skill and no push to evaluate

    hint: pass a skill, or a push with `--before` and `--after`

    $ run-evals trigger --url https://evals.example.com --after main
    error: `--after` is not a commit: `main`: a commit has 40 lower-case hexadecimal digits

    hint: pass a skill, or a push with `--before` and `--after`

    $ run-evals sweep --url https://evals.example.com
    error: no skill library

    hint: pass it with `--repo <owner>/<name>`

    $ run-evals sweep --url https://evals.example.com --repo skills
    error: `skills` is not a repository

    hint: write the repository as `<owner>/<name>`

    $ run-evals sweep --url https://evals.example.com --since yesterday
    error: invalid value 'yesterday' for '--since <DURATION>': expected a duration such as `90s`, `10m`, `1h` or `500ms`

    For more information, try '--help'.
    ");
}

#[test]
fn sync() {
    let mistakes = Mistakes::new()
        .file(
            "benchmarks.yaml",
            "benchmarks:\n  - id: refunds\n    path: refunds\n    source: { url: https://github.com/acme/refunds }\n",
        )
        .fails(2, "sync --registry benchmarks.yaml")
        .fails(3, "sync --registry benchmarks.yaml refund")
        .fails(3, "sync --registry benchmarks.yaml invoices")
        .fails(3, "sync --registry missing.yaml --all")
        .fails(2, "sync --offline");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals sync --registry benchmarks.yaml
    error: name the benchmarks to sync, or use `--all`

    hint: there are `refunds`

    $ run-evals sync --registry benchmarks.yaml refund
    error: no benchmark `refund` in `[dir]/benchmarks.yaml`

    hint: did you mean `refunds`?

    $ run-evals sync --registry benchmarks.yaml invoices
    error: no benchmark `invoices` in `[dir]/benchmarks.yaml`

    hint: there are `refunds`

    $ run-evals sync --registry missing.yaml --all
    error: cannot read the registry `[dir]/missing.yaml`: No such file or directory (os error 2)

    hint: `--registry FILE` names another

    $ run-evals sync --offline
    error: the following required arguments were not provided:
      --status

    Usage: run-evals sync --status --offline [ID]...

    For more information, try '--help'.
    ");
}

#[test]
fn init_and_completions() {
    let mistakes =
        Mistakes::new().fails(2, "init suite.eval.yaml").fails(2, "completions").fails(2, "completions tcsh");
    assert_snapshot!(mistakes.transcript, @r"
    $ run-evals init suite.eval.yaml
    error: `suite.eval.yaml` is a file, not a directory

    hint: pass the project directory, for example `run-evals init evals`

    $ run-evals completions
    error: the following required arguments were not provided:
      <SHELL>

    Usage: run-evals completions <SHELL>

    For more information, try '--help'.

    $ run-evals completions tcsh
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    ");
}

#[test]
fn inputs_of_the_action() {
    let mistakes = Mistakes::new()
        .step_fails(2, &[("mode", "evla")])
        .step_fails(2, &[("mode", "serve")])
        .step_fails(2, &[("mode", "eval"), ("suit", "suite.eval.yaml")])
        .step_fails(2, &[("mode", "collect"), ("suite", "suite.eval.yaml")])
        .step_fails(2, &[("mode", "eval"), ("suite", "suite.eval.yaml"), ("pr-comment", "yes")])
        .step_fails(2, &[("mode", "eval"), ("suite", "suite.eval.yaml"), ("threshold", "80")])
        .step_fails(2, &[("mode", "collect")]);
    assert_snapshot!(mistakes.transcript, @r"
    $ with: { mode: evla }
    error: unknown `mode: evla`, expected one of `eval`, `dispatch`, `collect`, `run`, `report`, `grade`, `bundle`, `evaluate`, `trigger`, `sweep`, `sync`, `rollout-run`, `rollout-dispatch`

    $ with: { mode: serve }
    error: unknown `mode: serve`, expected one of `eval`, `dispatch`, `collect`, `run`, `report`, `grade`, `bundle`, `evaluate`, `trigger`, `sweep`, `sync`, `rollout-run`, `rollout-dispatch`

    $ with: { mode: eval, suit: suite.eval.yaml }
    error: `mode: eval` has no input `suit`

    hint: did you mean `suite`?

    $ with: { mode: collect, suite: suite.eval.yaml }
    error: `mode: collect` has no input `suite`

    hint: it is an input of `mode: eval`, `mode: dispatch`, `mode: grade`, `mode: bundle`

    $ with: { mode: eval, suite: suite.eval.yaml, pr-comment: yes }
    error: input `pr-comment`: expected `true` or `false`, found `yes`

    $ with: { mode: eval, suite: suite.eval.yaml, threshold: 80 }
    error: invalid value '80' for '--threshold <SCORE>': expected a score from 0 to 1, for example `0.8`

    For more information, try '--help'.

    $ with: { mode: collect }
    error: `mode: collect` needs the input `batch-id`

    hint: set it under `with:` of the step
    ");
}
