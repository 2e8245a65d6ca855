//! One signal ends a command at once, and its effect on git is not reported as an error.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::Workspace;

/// Ends a command while one of its git processes hangs.
fn ended_by(signal: Signal) -> (Option<i32>, String) {
    let workspace = Workspace::new();
    workspace.write_target("http://127.0.0.1:9/v1", "");
    workspace.write_requests(1);
    let path = workspace
        .path_with_git("case \"$*\" in *init*) touch \"$HOME/begun\"; sleep 60 & wait; exit 1;; esac");
    let workspace = workspace.env("PATH", &path);
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out"];
    let child = workspace.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_mins(1);
    while !workspace.path("begun").exists() {
        assert!(Instant::now() < until, "git was never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_signal_is_not_reported_as_an_error_of_git() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        for _ in 0..5 {
            let (ended, stderr) = ended_by(signal);
            assert_eq!((ended, stderr.as_str()), (Some(code), ""), "{signal}");
        }
    }
}
