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
        let has_fix = ["hint: ", "tip: ", "Usage: ", "for example", "[possible values: ", "expected "];
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
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
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
        .fails(3, "targets check --target gtp --offline");
    assert_snapshot!(mistakes.transcript, @"");
    let nothing = Mistakes { workspace: Workspace::new(), transcript: String::new() }
        .file("suite.eval.yaml", SUITE)
        .fails(3, "eval suite.eval.yaml")
        .fails(3, "targets check")
        .fails(2, "eval")
        .fails(2, "targets chekc");
    assert_snapshot!(nothing.transcript, @"");
}

#[test]
fn a_missing_key_in_a_workflow() {
    let in_actions = || Mistakes::new().env("GITHUB_ACTIONS", "true").env("GITHUB_REPOSITORY", "acme/evals");
    let runner = in_actions()
        .env("GITHUB_EVENT_NAME", "workflow_dispatch")
        .fails(3, "eval suite.eval.yaml --target gpt");
    assert_snapshot!(runner.transcript, @"");
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
        .fails(3, "dispatch suite.eval.yaml --no-wait")
        .fails(3, "dispatch --resume 20260102-030405-1a2b3c4d")
        .fails(2, "collect")
        .fails(2, "collect out/responses.jsonl")
        .fails(3, "collect 20260102-030405-1a2b3c4d");
    assert_snapshot!(mistakes.transcript, @"");
}

#[test]
fn run_and_adapter() {
    let mistakes = Mistakes::new()
        .fails(2, "run")
        .fails(3, "run --batch-id b1")
        .fails(2, "run --shard first")
        .fails(2, "adapter --target gpt")
        .fails(3, "adapter --target gpt --prompt-file missing.md --output-file out.json --id a");
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
}

#[test]
fn bundle() {
    let mistakes = Mistakes::new()
        .file("taken/notes.txt", "mine\n")
        .fails(2, "bundle suite.eval.yaml")
        .fails(3, "bundle missing.eval.yaml -o bundle")
        .fails(3, "bundle suite.eval.yaml -o taken")
        .fails(2, "bundle suite.eval.yaml --check --archive")
        .fails(3, "bundle verify missing")
        .fails(3, "bundle verify taken")
        .fails(2, "bundle verify taken --sha256 1a2b3c");
    assert_snapshot!(mistakes.transcript, @"");
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
        .fails(3, "rollout run --dataset rows.jsonl")
        .fails(2, "rollout dispatch rows.jsonl")
        .fails(3, "rollout dispatch rows.jsonl --model-base-url https://traces.example.com")
        .fails(3, "rollout dispatch rows.jsonl --model-base-url traces.example.com --model m --target gpt");
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(transcript.replace(&(port + 1).to_string(), "[port + 1]"), @"");
    let no_token = Mistakes::new().fails(2, "serve --studio");
    assert_snapshot!(no_token.transcript, @"");
}

#[test]
fn trigger_and_sweep() {
    let mistakes = Mistakes::new()
        .fails(2, "trigger summarize")
        .fails(2, "trigger summarize --url https://evals.example.com");
    assert_snapshot!(mistakes.transcript, @"");
    let with_token = Mistakes::new()
        .env("RUN_EVALS_SERVE_TOKEN", "secret")
        .fails(2, "trigger summarize --url evals.example.com")
        .fails(2, "trigger summarize --url http://evals.example.com")
        .fails(2, "trigger --url https://evals.example.com")
        .fails(2, "trigger --url https://evals.example.com --after main")
        .fails(2, "sweep --url https://evals.example.com")
        .fails(2, "sweep --url https://evals.example.com --repo skills")
        .fails(2, "sweep --url https://evals.example.com --since yesterday");
    assert_snapshot!(with_token.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
}

#[test]
fn init_and_completions() {
    let mistakes =
        Mistakes::new().fails(1, "init suite.eval.yaml").fails(2, "completions").fails(2, "completions tcsh");
    assert_snapshot!(mistakes.transcript, @"");
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
    assert_snapshot!(mistakes.transcript, @"");
}
