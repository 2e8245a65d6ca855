//! Suites and answers that mean harm.

use std::time::{Duration, Instant};

use super::{scores, workspace};

/// Whether a process with this id is alive.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // One that has ended and waits for its parent is as good as gone.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_that_forks_and_hangs_is_ended_with_all_its_processes() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: [sh, hang.sh] }\n      - { type: contains, value: x }\n",
    );
    workspace
        .write("hang.sh", "sleep 600 & echo $! > child\n(trap '' TERM INT; echo $$ > self; sleep 600)\n");
    let start = Instant::now();
    let output =
        workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q", "--grader-timeout", "1s"]).expect(5);
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(output.stdout.contains("the command did not end within 1 s, and was ended"), "{}", output.stdout);
    assert_eq!(scores(&workspace), [("a".into(), "error".into(), 0.0)]);
    for file in ["child", "self"] {
        let pid = workspace.read(file);
        wait_for(&format!("{file} is alive"), || !is_alive(&pid));
    }
}

#[test]
fn what_a_command_leaves_behind_is_ended_too() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'sleep 600 & echo $! > child; echo fine' }\n",
    );
    let start = Instant::now();
    workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(0);
    assert!(start.elapsed() < Duration::from_secs(15), "it was waited for");
    let pid = workspace.read("child");
    wait_for("the child is alive", || !is_alive(&pid));
}

#[test]
fn a_command_that_prints_without_end_is_ended() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'head -c 100000000 /dev/zero' }\n  \
         - id: b\n    input: x\n    assertions:\n      - { type: code-grader, command: 'cat > /dev/null; head -c 100000000 /dev/zero >&2; echo fine' }\n",
    );
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(
        output.stdout.contains("the command printed more than 1024 KiB, and was ended"),
        "{}",
        output.stdout
    );
    assert_eq!(scores(&workspace), [("a".into(), "error".into(), 0.0), ("b".into(), "passed".into(), 1.0)]);
    assert!(workspace.read("out/scores.jsonl").len() < 20_000);
}

#[test]
fn a_command_that_does_not_exist_is_an_error_of_the_row() {
    let workspace = workspace(
        "tests:\n  - { id: a, input: x, assertions: [{ type: code-grader, command: [./no-such-program] }] }\n",
    );
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(output.stdout.contains("cannot start `./no-such-program`"), "{}", output.stdout);
}

#[test]
fn a_pattern_that_would_never_end_is_an_error_of_the_row() {
    let suite = "tests:\n  - id: a\n    input: '{{ long }}'\n    vars: { long: LONG }\n    assertions: [{ type: regex, value: '^(a+)+$' }]\n";
    let workspace = workspace(&suite.replace("LONG", &format!("{}b", "a".repeat(5000))));
    let start = Instant::now();
    let output = workspace.run(&["eval", "s.eval.yaml", "--output", "out", "-q"]).expect(5);
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(
        output.stdout.contains("not graded, first `a`: regex-^(a+)+$: the pattern takes more than"),
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
fn an_answer_cannot_give_orders_to_actions() {
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
fn an_interrupted_command_is_ended_and_the_answers_are_kept() {
    let workspace = workspace(
        "tests:\n  - id: a\n    input: x\n    assertions:\n      - { type: code-grader, command: 'echo $$ > self; sleep 600' }\n",
    );
    let mut eval = workspace.command(&["eval", "s.eval.yaml", "--output", "out", "-q"]);
    let mut eval =
        eval.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for("the command runs", || {
        std::fs::read_to_string(workspace.path("self")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(eval.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(eval.wait().unwrap().code(), Some(5));
    assert_eq!(workspace.rows("out/responses.jsonl").len(), 1);
    assert!(!workspace.path("out/scores.jsonl").exists());
    let command = workspace.read("self");
    wait_for("the command is alive", || !is_alive(&command));
}
