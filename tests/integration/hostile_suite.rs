//! Untrusted suites: they send no credentials to a model, and need no more memory than disk space.

use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use crate::support::{Output, Workspace};

fn scene() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n");
    workspace
}

/// Evaluates a suite; a process that takes more than 4 GB or one minute is killed.
fn eval(workspace: &Workspace, suite: &str) -> Output {
    workspace.write("s.eval.yaml", suite);
    workspace.run_bounded(&["eval", "s.eval.yaml", "--target", "m", "--no-grade", "-q"])
}

fn attaching(file: &str) -> String {
    format!(
        "tests:\n  - id: a\n    criteria: x\n    input:\n      - role: user\n        content:\n          - {{type: file, value: {file}}}\n"
    )
}

#[test]
fn a_suite_cannot_attach_credentials() {
    let workspace = scene();
    let names =
        [".env", ".env.local", ".netrc", ".ssh/id_rsa", "server.key", ".aws/credentials", "kubeconfig"];
    for name in names {
        workspace.write(name, "own-secret");
        let output = eval(&workspace, &attaching(name)).expect(3);
        assert!(output.stderr.contains(name) && !output.stderr.contains("own-secret"), "{}", output.stderr);
    }
    // A link with a harmless name to the same file.
    symlink(".env", workspace.path("notes.txt")).unwrap();
    eval(&workspace, &attaching("notes.txt")).expect(3);
    eval(&workspace, "tests:\n  - {id: a, input: hi, input_files: [.env], criteria: x}\n").expect(3);
    assert_snapshot!(eval(&workspace, &attaching(".env")).stderr, @r"
    error: `.env` is an environment file and may contain secrets: a suite does not send credentials to a model
      --> s.eval.yaml:7:33
       |
     7 |           - {type: file, value: .env}
       |                                 ^^^^

    hint: attach a file without secrets, under another name such as `.env.example`
    ");
    let judge = "tests:\n  - {id: a, input: hi, criteria: x, assertions: [{type: llm-grader, prompt: file://.env}]}\n";
    workspace.write("s.eval.yaml", judge);
    let output = workspace.run(&["eval", "s.eval.yaml", "--target", "m", "-q"]).expect(3);
    assert!(output.stderr.contains("credentials"), "{}", output.stderr);
}

#[test]
fn a_suite_cannot_attach_state_of_git_or_run_evals() {
    let workspace = scene();
    workspace.write(".git/config", "own-secret");
    workspace.write(".run-evals/journal", "own-secret");
    symlink(".git", workspace.path("x")).unwrap();
    symlink(".git/config", workspace.path("notes.txt")).unwrap();
    for name in [".git/config", "evals/../.git/config", ".run-evals/journal", "x/config", "notes.txt"] {
        let output = eval(&workspace, &attaching(name)).expect(3);
        assert!(!output.stderr.contains("own-secret"), "{}", output.stderr);
        let judge = format!(
            "tests:\n  - {{id: a, input: hi, criteria: x, assertions: [{{type: llm-grader, prompt: file://{name}}}]}}\n"
        );
        workspace.write("s.eval.yaml", judge);
        let output = workspace.run(&["eval", "s.eval.yaml", "--target", "m", "-q"]).expect(3);
        assert!(output.stderr.contains("state of git"), "{}", output.stderr);
    }
    assert_snapshot!(eval(&workspace, &attaching("x/config")).stderr, @r"
    error: `x/config` is state of git or run-evals and may contain secrets: a suite does not send credentials to a model
      --> s.eval.yaml:7:33
       |
     7 |           - {type: file, value: x/config}
       |                                 ^^^^^^^^

    hint: attach a file without secrets, under another name such as `.env.example`
    ");
}

#[test]
fn examples_and_certificates_are_not_credentials() {
    let workspace = scene();
    workspace.write(".env.example", "KEY=\n");
    workspace.write("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    for name in [".env.example", "ca.pem"] {
        eval(&workspace, &attaching(name)).expect(0);
    }
}

#[test]
fn variables_cannot_multiply_the_size_of_a_suite() {
    let workspace = scene();
    let long = "v".repeat(100_000);
    let text = format!(
        "tests:\n  - id: a\n    criteria: x\n    vars: {{v: {long}}}\n    input: \"{}\"\n",
        "{{v}} ".repeat(100_000)
    );
    let output = eval(&workspace, &text).expect(3);
    let told: String =
        output.stderr.lines().map(|line| line.chars().take(120).collect::<String>() + "\n").collect();
    assert_snapshot!(told, @r#"
    error: the values of `vars` fill in more than 64 MiB of text
      --> s.eval.yaml:5:12
       |
     5 |     input: "{{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {{v}} {
       |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: use shorter values, or use them less often
    "#);
    // In the expected output, as a list, and as a value that is not text.
    let list = format!("[{}]", "\"{{v}}\", ".repeat(20_000));
    for (key, value) in
        [("expected_output", format!("\"{}\"", "{{v}} ".repeat(50_000))), ("input", format!("{{a: {list}}}"))]
    {
        let other = if key == "input" { "" } else { "    input: hi\n" };
        let text = format!(
            "tests:\n  - id: a\n    criteria: x\n    vars: {{v: [{long}]}}\n{other}    {key}: {value}\n"
        );
        workspace.write("s.eval.yaml", text);
        let graded = workspace.run_bounded(&["eval", "s.eval.yaml", "--target", "m", "-q"]).expect(3);
        assert!(graded.stderr.contains("64 MiB"), "{key}");
    }
}

#[test]
fn shared_input_cannot_multiply_the_size_of_a_suite() {
    let workspace = scene();
    let tests: String = (0..20_000).map(|i| format!("  - {{id: t{i}, criteria: x, input: hi}}\n")).collect();
    let text = format!("input: {}\ntests:\n{tests}", "w".repeat(400_000));
    let output = eval(&workspace, &text).expect(3);
    let told: String =
        output.stderr.lines().map(|line| line.chars().take(120).collect::<String>() + "\n").collect();
    assert_snapshot!(told, @r"
    error: the messages of the suite have more than 1 GiB of text
         --> s.eval.yaml:2687:37
          |
     2687 |   - {id: t2684, criteria: x, input: hi}
          |                                     ^^

    hint: split the suite, or attach long texts as files, which are sent once
    ");
}

#[test]
fn ordinary_variables_fit() {
    let workspace = scene();
    let tests: String = (0..500)
        .map(|i| {
            format!(
                "  - {{id: t{i}, criteria: x, vars: {{who: {}}}, input: 'hello {{{{ who }}}}'}}\n",
                "w".repeat(1000)
            )
        })
        .collect();
    eval(&workspace, &format!("input: 'you are {{{{ who }}}}'\ntests:\n{tests}")).expect(0);
}
