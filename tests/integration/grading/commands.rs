//! Grader commands: their environment, and where they may run.

use super::{scores, workspace};

#[test]
fn a_command_sees_no_key_unless_it_is_named() {
    let suite = "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; env' }\n";
    let workspace = workspace(suite)
        .env("MY_PAT", "value-of-a-secret")
        .env("OPENAI_API_KEY", "sk-1234567890")
        .env("TZ", "UTC");
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    let seen = workspace.read("out/scores.jsonl");
    assert!(seen.contains("TZ=UTC") && seen.contains("PATH="), "{seen}");
    for hidden in ["value-of-a-secret", "sk-1234567890", "MY_PAT"] {
        assert!(!seen.contains(hidden), "{hidden} in {seen}");
    }
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--grader-env", "MY_PAT"]).expect(0);
    assert!(workspace.read("out/scores.jsonl").contains("MY_PAT=value-of-a-secret"));
}

#[test]
fn a_command_has_no_relative_folder_in_its_path() {
    let suite =
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: [env] }\n";
    let path = format!(".::bin:{}:", std::env::var("PATH").unwrap());
    let workspace = workspace(suite).env("PATH", &path);
    workspace.write_program("env", "#!/bin/sh\necho a program of the suite\n");
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    let seen = workspace.read("out/scores.jsonl");
    let (_, path) = seen.split_once("PATH=").unwrap_or_else(|| panic!("{seen}"));
    let path = path.split(['\\', '"']).next().unwrap();
    assert!(path.split(':').all(|folder| folder.starts_with('/')), "{path}");
}

#[test]
fn a_command_is_refused_in_our_container() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'touch was-here' }\n",
    );
    let run = |more: &[&str]| {
        let mut command =
            workspace.command(&[&["eval", "s.eval.yaml", "--output", "out", "-q"], more].concat());
        command.env("GITHUB_ACTIONS", "true").env("RUN_EVALS_IMAGE", "1").output().unwrap()
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(3));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("the suite runs a command") && message.contains("s.eval.yaml:5:"), "{message}");
    assert!(!workspace.path("was-here").exists() && !workspace.path(".run-evals").exists());
    assert_eq!(run(&["--allow-commands"]).status.code(), Some(0));
    assert!(workspace.path("was-here").exists());
}

#[test]
fn a_command_runs_once_even_with_llm_graders_in_between() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; echo ran >> log' }\n      \
         - { type: llm-grader, prompt: Good? }\n",
    );
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: default, provider: mock, response: '{\"score\": 0.5}' }\n",
    );
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(4);
    assert_eq!(scores(&workspace), [("a".into(), "failed".into(), 0.75)]);
    assert_eq!(workspace.read("log"), "ran\n");
}

#[test]
fn a_prompt_can_be_the_output_of_a_command() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    criteria: c\n    assertions:\n      - { type: llm-grader, prompt: { command: [sh, ask.sh] } }\n",
    );
    workspace.write("ask.sh", "grep -q '\"answer\": \"x\"' && echo '{\"score\": 0.9}'\n");
    // The model echoes its prompt, so it returns the score that the command printed.
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert_eq!(scores(&workspace), [("a".into(), "passed".into(), 0.9)]);
}

/// A suite with an assertion of a type that `.agentv` defines, and a `bun` that prints what it sees.
fn custom_type() -> crate::support::Workspace {
    let workspace = workspace("tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: my-own }\n");
    workspace.write(".agentv/assertions/my-own.ts", "");
    workspace.write_program("bin/bun", "#!/bin/sh\ncat > /dev/null; touch was-here; echo \"$@\"; env\n");
    workspace
}

#[test]
fn a_custom_assertion_is_a_command_of_the_suite() {
    let workspace = custom_type();
    let path = format!("{}:{}", workspace.path("bin").display(), std::env::var("PATH").unwrap());
    let run = |more: &[&str], container: bool| {
        let args = ["eval", "s.eval.yaml", "--output", "out", "-q"];
        let mut command = workspace.command(&[&args[..], more].concat());
        command.env("PATH", &path).env("OPENAI_API_KEY", "sk-1234567890");
        if container {
            command.env("GITHUB_ACTIONS", "true").env("RUN_EVALS_IMAGE", "1");
        }
        command.output().unwrap()
    };
    let refused = run(&[], true);
    assert_eq!(refused.status.code(), Some(3));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("the suite runs a command") && message.contains("s.eval.yaml:5:"), "{message}");
    assert!(!workspace.path("was-here").exists() && !workspace.path(".run-evals").exists());

    assert_eq!(run(&["--allow-commands"], true).status.code(), Some(0));
    assert!(workspace.path("was-here").exists());
    assert_eq!(run(&[], false).status.code(), Some(0));
    let row = &workspace.rows("out/scores.jsonl")[0]["scores"][0];
    assert_eq!((row["name"].as_str(), row["type"].as_str()), (Some("my-own"), Some("my-own")));
    let seen = row["assertions"][0]["evidence"].as_str().unwrap();
    let file = workspace.path(".agentv/assertions/my-own.ts");
    assert!(seen.starts_with(&format!("run {}\n", file.display())), "{seen}");
    assert!(!seen.contains("sk-1234567890"), "{seen}");
}

#[test]
fn a_custom_assertion_comes_from_the_repository_of_the_suite() {
    let workspace = custom_type();
    let path = format!("{}:{}", workspace.path("bin").display(), std::env::var("PATH").unwrap());
    std::fs::create_dir_all(workspace.path("repo/.git")).unwrap();
    for file in ["s.eval.yaml", "targets.yaml"] {
        workspace.write(&format!("repo/{file}"), workspace.read(file));
    }
    let refused = || {
        let mut command = workspace.command(&["eval", "s.eval.yaml", "--output", "out", "-q"]);
        let output = command.current_dir(workspace.path("repo")).env("PATH", &path).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    // The file is above the git root.
    let message = refused();
    assert!(message.contains("unknown grader `my-own`"), "{message}");
    // Nor does a link lead out.
    let outside = workspace.path(".agentv/assertions/my-own.ts");
    std::fs::create_dir_all(workspace.path("repo/.agentv/assertions")).unwrap();
    std::os::unix::fs::symlink(outside, workspace.path("repo/.agentv/assertions/my-own.ts")).unwrap();
    let message = refused();
    assert!(message.contains("the file of `my-own` is outside the roots"), "{message}");
    assert!(!workspace.path("repo/was-here").exists());
}

#[test]
fn a_custom_assertion_needs_bun() {
    let workspace = custom_type().env("PATH", "/nowhere");
    insta::assert_snapshot!(workspace.run(&["eval", "s.eval.yaml", "--output", "out"]).expect(3).stderr, @r"
    error: `my-own` is defined in `.agentv/assertions/my-own.ts`, which runs with `bun`: not found
      --> s.eval.yaml:5:17
       |
     5 |       - { type: my-own }
       |                 ^^^^^^

    hint: install bun (https://bun.sh), or use a `code-grader` with your own command
    ");
}
