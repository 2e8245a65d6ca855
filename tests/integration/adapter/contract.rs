//! The command contract of AgentV's version 5: a login shell in a process group of its own, which is asked to end and then made to.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::stage::Calls;
use crate::remote::stage::Stage;

/// Starts a call as AgentV 5 does.
fn start(calls: &Calls, id: &str, message: &str, more: &[&str]) -> (Child, std::path::PathBuf) {
    let (command, output) = calls.command(id, message, more);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\"'\"'"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let mut shell = Command::new("/bin/sh");
    // More than one command, so that the shell stays: only some replace themselves by the last one.
    shell.args(["-lc", &format!("{}; exit $?", words.join(" "))]).process_group(0).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let dir = command.get_current_dir().unwrap();
    let child = shell.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (child.spawn().unwrap(), output)
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_call_through_a_login_shell_is_answered() {
    let calls = Calls::new();
    let (mut child, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    assert!(child.wait().unwrap().success(), "{}", stderr(&mut child));
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    assert_eq!(row["output"][0]["content"], "message 0");
    assert!(row["duration_ms"].is_u64() && row["token_usage"]["input"].is_u64());
}

#[test]
fn a_failure_is_the_error_key_and_an_exit_code() {
    let calls = Calls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"));
    let (mut child, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    assert!(!child.wait().unwrap().success());
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    let line = row["error"].as_str().unwrap();
    assert!(line.contains("Bad credentials"), "{line}");
    assert_eq!(stderr(&mut child).trim_end(), line);
}

#[test]
fn a_group_that_is_asked_to_end_does_so_in_time_and_another_call_leads() {
    let calls = Calls::with_llm(&["--latency-ms", "2000"]);
    let more = ["--workers", "2", "--window", "10m"];
    let (mut leader, _) = start(&calls, "c0", "message 0", &more);
    calls.until("waiting", 1);
    let (mut other, output) = start(&calls, "c1", "message 1", &more);
    Stage::until("the calls to the model", || calls.stage.llm.counter("in_flight") == 2);
    let asked = Instant::now();
    killpg(Pid::from_raw(i32::try_from(leader.id()).unwrap()), Signal::SIGTERM).unwrap();
    leader.wait().unwrap();
    // AgentV would kill it now.
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(other.wait().unwrap().success(), "{}", stderr(&mut other));
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    assert_eq!(row["output"][0]["content"], "message 1");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(2);
}

#[test]
fn a_call_whose_shell_is_killed_ends_too() {
    // AgentV 4 kills the shell alone.
    let calls = Calls::with_llm(&["--latency-ms", "2000"]);
    let (mut shell, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    Stage::until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
    assert!(!output.exists(), "nobody would read or remove it");
}
