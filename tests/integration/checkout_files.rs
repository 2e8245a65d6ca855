//! Devices, pipes and links to them in a checkout: no command reads them, blocks on them or runs out of memory.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::support::{Output, Workspace};

const SUITE: &str = "tests:\n  - {id: a, input: hi, criteria: x}\n";
const EVAL: [&str; 6] = ["eval", "s.eval.yaml", "--target", "m", "--no-grade", "-q"];
const CHECK: [&str; 3] = ["bundle", "s.eval.yaml", "--check"];

fn scene() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n");
    workspace.write("s.eval.yaml", SUITE);
    workspace
}

/// The same, in a repository with one commit.
fn checkout() -> Workspace {
    let workspace = scene();
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        let mut git = Command::new("git");
        workspace.like(git.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(words));
        assert!(git.status().unwrap().success(), "git {words:?}");
    }
    workspace
}

/// What a checkout can contain in place of a file.
#[derive(Debug, Clone, Copy)]
enum Odd {
    Zeros,
    Pipe,
}

fn place(workspace: &Workspace, name: &str, odd: Odd) {
    let path = workspace.path(name);
    let _ = std::fs::remove_file(&path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match odd {
        Odd::Zeros => symlink("/dev/zero", path).unwrap(),
        Odd::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
    }
}

/// The output of a command that ends by itself.
fn run(workspace: &Workspace, args: &[&str]) -> Output {
    let output = workspace.run_bounded(args);
    assert!(matches!(output.code, Some(0..=5)), "{args:?} ended with {:?}: {}", output.code, output.stderr);
    output
}

#[test]
fn files_beside_a_suite_must_be_regular_files() {
    let mut told = String::new();
    for odd in [Odd::Zeros, Odd::Pipe] {
        for name in [".env", "s.eval.yaml"] {
            let workspace = scene();
            place(&workspace, name, odd);
            for args in [&EVAL[..], &CHECK] {
                let output = run(&workspace, args).expect(3);
                assert!(output.stderr.contains(name), "{}", output.stderr);
                told.push_str(output.stderr.lines().next().unwrap());
                told.push('\n');
            }
        }
    }
    assert_snapshot!(told, @r"
    error: cannot read `.env`: it is a device, expected a regular file
    error: cannot read `.env`: it is a device, expected a regular file
    error: cannot read the suite `s.eval.yaml`: it is a device, expected a regular file
    error: cannot read `s.eval.yaml`: it is a device, expected a regular file
    error: cannot read `.env`: it is a named pipe, expected a regular file
    error: cannot read `.env`: it is a named pipe, expected a regular file
    error: cannot read the suite `s.eval.yaml`: it is a named pipe, expected a regular file
    error: cannot read `s.eval.yaml`: it is a named pipe, expected a regular file
    ");
}

#[test]
fn files_named_by_a_suite_must_be_regular_files() {
    let cases = [
        ("cases.yaml", "tests: cases.yaml\n"),
        ("cases.jsonl", "tests: [file://cases.jsonl]\n"),
        ("one/case.yaml", "tests: one\n"),
        ("notes.md", "tests:\n  - {id: a, input: hi, input_files: [notes.md], criteria: x}\n"),
        (
            "judge.md",
            "tests:\n  - {id: a, input: hi, criteria: x, assertions: [{type: llm-grader, prompt: file://judge.md}]}\n",
        ),
        ("inc.yaml", "assertions: [{include: ./inc.yaml}]\ntests:\n  - {id: a, input: hi, criteria: x}\n"),
    ];
    for odd in [Odd::Zeros, Odd::Pipe] {
        for (name, suite) in cases {
            let workspace = scene();
            workspace.write("s.eval.yaml", suite);
            place(&workspace, name, odd);
            let output = run(&workspace, &["eval", "s.eval.yaml", "--target", "m", "-q"]);
            assert_eq!(output.code, Some(3), "{name} {odd:?}: {}", output.stderr);
            run(&workspace, &CHECK);
        }
    }
}

/// A link in a checkout can lead to the environment of the command, and a message would quote it.
#[test]
fn files_about_processes_are_not_read() {
    let mut told = String::new();
    for (name, suite) in [
        ("s.eval.yaml", SUITE),
        ("targets.yaml", SUITE),
        (".env", SUITE),
        ("cases.jsonl", "tests: [file://cases.jsonl]\n"),
    ] {
        let workspace = scene();
        workspace.write("s.eval.yaml", suite);
        let _ = std::fs::remove_file(workspace.path(name));
        symlink("/proc/self/environ", workspace.path(name)).unwrap();
        told.push_str(run(&workspace, &EVAL).expect(3).stderr.lines().next().unwrap());
        told.push('\n');
    }
    assert_snapshot!(told, @r"
    error: cannot read the suite `s.eval.yaml`: it is information about a process, expected a regular file
    error: cannot read `targets.yaml`: it is information about a process, expected a regular file
    error: cannot read `.env`: it is information about a process, expected a regular file
    error: cannot read `cases.jsonl`: it is information about a process, expected a regular file
    ");
}

/// A message about a test file quotes its lines.
#[test]
fn a_test_file_cannot_be_a_link_to_credentials() {
    for secret in [".netrc", ".git/config", ".env.production"] {
        let workspace = checkout();
        workspace.write(secret, "machine example.com password own-secret\n");
        symlink(secret, workspace.path("cases.jsonl")).unwrap();
        workspace.write("s.eval.yaml", "tests: [file://cases.jsonl]\n");
        let stderr = run(&workspace, &EVAL).expect(3).stderr;
        assert!(!stderr.contains("own-secret"), "{stderr}");
        assert!(stderr.contains("a suite does not send credentials to a model"), "{stderr}");
    }
}

#[test]
fn files_of_evaluations_must_be_regular_files() {
    let workspace = scene();
    place(&workspace, ".run-evals/evaluate/evaluations/b1.json", Odd::Pipe);
    let args = ["evaluate", "letters", "--batch-id", "b1", "--targets", "targets.yaml"];
    assert_snapshot!(run(&workspace, &args).expect(3).stderr, @r"
    error: `.run-evals/evaluate/evaluations/b1.json` is neither a file nor a directory, expected a file or a directory: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals/evaluate/evaluations/b1.json'`
    ");
}

#[test]
fn files_read_by_bundle_must_be_regular_files() {
    let script = "tests:\n  - {id: a, input: hi, criteria: x, assertions: [{type: code-grader, command: [bun, run, go]}]}\n";
    for odd in [Odd::Zeros, Odd::Pipe] {
        for name in ["package.json", "manifest.json", "eval.yaml", ".gitignore", ".gitattributes"] {
            let workspace = checkout();
            workspace.write("s.eval.yaml", script);
            place(&workspace, name, odd);
            run(&workspace, &CHECK);
            run(&workspace, &["bundle", "s.eval.yaml", "-o", "out", "-q"]);
            run(&workspace, &EVAL);
        }
        // A directory that looks like a bundle.
        for name in ["manifest.json", "eval.yaml", "targets.yaml"] {
            let workspace = scene();
            run(&workspace, &["bundle", "s.eval.yaml", "-o", "out", "-q"]).expect(0);
            place(&workspace, &format!("out/{name}"), odd);
            run(&workspace, &["bundle", "verify", "out"]).expect(3);
            run(&workspace, &["bundle", "s.eval.yaml", "-o", "out", "-q"]);
            run(&workspace, &["eval", "out", "-q", "--no-grade"]).expect(3);
            run(&workspace, &["eval", "out/eval.yaml", "-q", "--no-grade"]);
        }
    }
}

#[test]
fn files_of_a_repository_must_be_regular_files() {
    let names = [
        ".git/config",
        ".git/HEAD",
        ".git/index",
        ".git/packed-refs",
        ".git/shallow",
        ".git/info/exclude",
        ".git/info/attributes",
        ".git/refs/heads/main",
        ".git/refs/heads/master",
    ];
    let mut told = String::new();
    for odd in [Odd::Zeros, Odd::Pipe] {
        for name in names {
            let workspace = checkout();
            place(&workspace, name, odd);
            let output = run(&workspace, &CHECK);
            assert_eq!(output.code, Some(3), "{name} {odd:?}: {}", output.stderr);
            let root = workspace.root().canonicalize().unwrap();
            told.push_str(
                &output.stderr.lines().next().unwrap().replace(&format!("{}/", root.display()), ""),
            );
            told.push('\n');
            run(&workspace, &[&EVAL[..], &["--baseline", "main"]].concat());
        }
    }
    assert_snapshot!(told, @r"
    error: cannot read `.git/config`: it is a device, expected a regular file
    error: cannot read `.git/HEAD`: it is a device, expected a regular file
    error: cannot read `.git/index`: it is a device, expected a regular file
    error: cannot read `.git/packed-refs`: it is a device, expected a regular file
    error: cannot read `.git/shallow`: it is a device, expected a regular file
    error: cannot read `.git/info/exclude`: it is a device, expected a regular file
    error: cannot read `.git/info/attributes`: it is a device, expected a regular file
    error: cannot read `.git/refs/heads/main`: it is a device, expected a regular file
    error: cannot read `.git/refs/heads/master`: it is a device, expected a regular file
    error: cannot read `.git/config`: it is a named pipe, expected a regular file
    error: cannot read `.git/HEAD`: it is a named pipe, expected a regular file
    error: cannot read `.git/index`: it is a named pipe, expected a regular file
    error: cannot read `.git/packed-refs`: it is a named pipe, expected a regular file
    error: cannot read `.git/shallow`: it is a named pipe, expected a regular file
    error: cannot read `.git/info/exclude`: it is a named pipe, expected a regular file
    error: cannot read `.git/info/attributes`: it is a named pipe, expected a regular file
    error: cannot read `.git/refs/heads/main`: it is a named pipe, expected a regular file
    error: cannot read `.git/refs/heads/master`: it is a named pipe, expected a regular file
    ");
}

/// A repository without special files works as before.
#[test]
fn links_to_regular_files_are_accepted() {
    let workspace = checkout();
    for name in [".env", "s.eval.yaml"] {
        let kept = format!("kept{name}");
        workspace.write(&kept, if name == ".env" { "A=b\n" } else { SUITE });
        let _ = std::fs::remove_file(workspace.path(name));
        symlink(Path::new(&kept), workspace.path(name)).unwrap();
    }
    run(&workspace, &CHECK).expect(0);
    run(&workspace, &EVAL).expect(0);
}

#[test]
fn files_of_results_must_be_regular_files() {
    let mut told = std::collections::BTreeSet::new();
    for odd in [Odd::Zeros, Odd::Pipe] {
        for name in
            ["responses.jsonl", "scores.jsonl", "requests.jsonl", "tests.jsonl", "summary.json", "run.json"]
        {
            let workspace = scene();
            workspace.run(&["eval", "s.eval.yaml", "--target", "m", "-o", "out", "-q", "--fail-on", "never"]);
            assert!(workspace.path("out/run.json").exists());
            place(&workspace, &format!("out/{name}"), odd);
            let again = ["grade", "out", "--suite", "s.eval.yaml", "-o", "other", "-q"];
            for args in
                [&again[..], &["report", "out"], &["open", "out"], &["report", "out", "--html", "r.html"]]
            {
                let output = run(&workspace, args);
                if output.code == Some(3) || output.code == Some(1) {
                    told.insert(format!(
                        "{} {name}: {}",
                        args[0],
                        output.stderr.lines().next().unwrap_or_default()
                    ));
                }
            }
        }
    }
    let told: Vec<String> = told.into_iter().collect();
    assert_snapshot!(told.join("\n"), @r"
    grade responses.jsonl: error: cannot read `out/responses.jsonl`
    grade run.json: error: no run: `out` has no readable `run.json`
    report summary.json: error: cannot read `out/summary.json`: it is a device, expected a regular file
    report summary.json: error: cannot read `out/summary.json`: it is a named pipe, expected a regular file
    ");
}
