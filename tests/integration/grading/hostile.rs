//! Hostile suites and answers.

use std::time::{Duration, Instant};

use super::{scores, workspace};
use crate::support::until;

/// Whether a process with this id is alive.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A zombie counts as ended.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_command_that_forks_and_hangs_is_killed_with_all_its_processes() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: [sh, hang.sh] }\n      - { type: contains, value: x }\n",
    );
    workspace
        .write("hang.sh", "sleep 600 & echo $! > child\n(trap '' TERM INT; echo $$ > self; sleep 600)\n");
    let start = Instant::now();
    let output =
        workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--grader-timeout", "1s"]).expect(5);
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(
        output.stdout.contains("the command did not finish within 1 s and was killed"),
        "{}",
        output.stdout
    );
    assert_eq!(scores(&workspace), [("a".into(), "error".into(), 0.0)]);
    for file in ["child", "self"] {
        let pid = workspace.read(file);
        until(&format!("{file} is alive"), || !is_alive(&pid));
    }
}

#[test]
fn background_processes_of_a_command_are_killed() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'sleep 600 & echo $! > child; echo fine' }\n",
    );
    let start = Instant::now();
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert!(start.elapsed() < Duration::from_secs(15), "it was waited for");
    let pid = workspace.read("child");
    until("the child is alive", || !is_alive(&pid));
}

#[test]
fn a_command_with_endless_output_is_killed() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'head -c 100000000 /dev/zero' }\n  \
         - id: b\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; head -c 100000000 /dev/zero >&2; echo fine' }\n",
    );
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(
        output.stdout.contains("the command printed more than 1024 KiB and was killed"),
        "{}",
        output.stdout
    );
    assert_eq!(scores(&workspace), [("a".into(), "error".into(), 0.0), ("b".into(), "passed".into(), 1.0)]);
    assert!(workspace.read("out/scores.jsonl").len() < 20_000);
}

#[test]
fn a_missing_command_is_an_error_of_its_row() {
    let workspace = workspace(
        "tests:\n  - { id: a, input: x, assertions: [{ type: code-grader, command: [./no-such-program] }] }\n",
    );
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(output.stdout.contains("cannot start `./no-such-program`"), "{}", output.stdout);
}

#[test]
fn a_pattern_that_never_terminates_is_an_error_of_its_row() {
    let suite = "tests:\n  - id: a\n    input: '{{ long }}'\n    vars: { long: LONG }\n    assertions: [{ type: regex, value: '^(a+)+$' }]\n";
    let workspace = workspace(&suite.replace("LONG", &format!("{}b", "a".repeat(5000))));
    let start = Instant::now();
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(
        output.stdout.contains("! a  not graded: regex-^(a+)+$: the pattern takes more than"),
        "{}",
        output.stdout
    );
}

#[test]
fn an_answer_of_ten_megabytes_is_graded() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: icontains, value: NEEDLE }\n      - { type: regex, value: 'needle$' }\n      \
         - { type: regex, value: '(?=.*needle)', flags: s }\n      - { type: is-json }\n      \
         - { type: code-grader, command: 'path=$(sed -n ''s/.*\"output_path\": \"\\(.*\\)\",*$/\\1/p''); test $(wc -c < \"$path\") -gt 10000000' }\n",
    );
    workspace.write("targets.yaml", "targets:\n  - { name: default, provider: mock, script: s.jsonl }\n");
    let line = serde_json::json!({"id": "a", "response": format!("{}needle", "hay ".repeat(2_500_000))});
    workspace.write("s.jsonl", format!("{line}\n"));
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert_eq!(scores(&workspace), [("a".into(), "passed".into(), 0.8)]);
}

#[test]
fn an_answer_cannot_inject_workflow_commands() {
    let workspace = workspace(
        "tests:\n  - { id: a, input: '::error::x', assertions: [{ type: code-grader, command: 'cat >&2; exit 3' }] }\n",
    );
    let mut command = workspace.command(&["eval", "s.eval.yaml", "--output", "out"]);
    let output = command.env("GITHUB_ACTIONS", "true").output().unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!printed.lines().any(|line| line.trim_start().starts_with("::error::x")), "{printed}");
}

#[test]
fn an_interrupt_kills_the_command_and_keeps_the_answers() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'echo $$ > self; sleep 600' }\n",
    );
    let mut eval = workspace.command(&["eval", "s.eval.yaml", "--output", "out", "-q"]);
    let mut eval =
        eval.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the command runs", || {
        std::fs::read_to_string(workspace.path("self")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(eval.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(eval.wait().unwrap().code(), Some(5));
    assert_eq!(workspace.rows("out/responses.jsonl").len(), 1);
    assert!(!workspace.path("out/scores.jsonl").exists());
    let command = workspace.read("self");
    until("the command is alive", || !is_alive(&command));
}
