//! Leftovers of killed processes in an exchange do not block the next one, and git does not outlive its command.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::Workspace;

const BINARY: &str = env!("CARGO_BIN_EXE_run-evals");

const EXCHANGE: &str = ".run-evals/exchange.git";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - {name: llm, provider: mock, response: hi}\n");
    workspace.write_requests(3);
    workspace
}

#[test]
fn locks_of_killed_git_processes_do_not_stop_a_resume() {
    for lock in [
        "refs/heads/eval-results/b.lock",
        "refs/heads/eval-batch/b.lock",
        "HEAD.lock",
        "packed-refs.lock",
        "shallow.lock",
        "index.lock",
        "gc.pid",
    ] {
        for age in [Duration::ZERO, Duration::from_mins(1)] {
            let workspace = workspace();
            // An exchange in which another batch is done.
            workspace.dispatch(&["--batch-id", "a"]).expect(0);
            let lock = workspace.path(EXCHANGE).join(lock);
            fs::create_dir_all(lock.parent().unwrap()).unwrap();
            File::create(&lock).unwrap().set_modified(SystemTime::now() - age).unwrap();
            workspace.dispatch(&["--batch-id", "b"]).expect(0);
            assert!(!lock.exists() || age.is_zero(), "{}", lock.display());
        }
    }
}

#[test]
fn a_lock_of_a_live_command_is_left_alone() {
    let workspace = workspace();
    workspace.dispatch(&["--batch-id", "a"]).expect(0);
    let lock = workspace.path(EXCHANGE).join("refs/heads/eval-results/b.lock");
    File::create(&lock).unwrap().set_modified(SystemTime::now() - Duration::from_mins(1)).unwrap();
    // As a command holds it while git changes the exchange.
    let held = File::create(workspace.path(EXCHANGE).join("run-evals.lock")).unwrap();
    held.lock_shared().unwrap();
    workspace.dispatch(&["--batch-id", "b"]).expect(1);
    assert!(lock.exists());
    drop(held);
    workspace.dispatch(&["--batch-id", "b"]).expect(0);
}

#[test]
fn unfinished_packs_and_repositories_are_removed() {
    let workspace = workspace();
    workspace.dispatch(&["--batch-id", "a"]).expect(0);
    let (pack, object) = ("objects/pack/tmp_pack_x1", "objects/ab/tmp_obj_x1");
    let old = SystemTime::now() - Duration::from_hours(1);
    for name in [pack, object] {
        workspace.write(&format!("{EXCHANGE}/{name}"), "x");
        File::options()
            .write(true)
            .open(workspace.path(EXCHANGE).join(name))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    let young = "objects/pack/tmp_pack_x2";
    workspace.write(&format!("{EXCHANGE}/{young}"), "x");
    workspace.dispatch(&["--batch-id", "b"]).expect(0);
    for name in [pack, object] {
        assert!(!workspace.path(EXCHANGE).join(name).exists(), "{name}");
    }
    assert!(workspace.path(EXCHANGE).join(young).exists());

    fs::remove_dir_all(workspace.path(EXCHANGE)).unwrap();
    let unfinished = workspace.path(".run-evals/.git-init-abc");
    fs::create_dir_all(unfinished.join("repository")).unwrap();
    File::open(&unfinished).unwrap().set_modified(old).unwrap();
    workspace.dispatch(&["--batch-id", "c"]).expect(0);
    assert!(!unfinished.exists());
}

/// `sync` whose server has accepted the connection and does not respond, started by the command `starter`.
fn waiting_sync(starter: &[&str]) -> (Workspace, Child, TcpStream) {
    let workspace = Workspace::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/o/r.git", listener.local_addr().unwrap());
    workspace.write(
        ".agentv/benchmarks.yaml",
        format!(
            "benchmarks:\n  - id: one\n    path: ../clones/one\n    source: {{ url: \"{url}\", ref: main }}\n"
        ),
    );
    let mut command = Command::new(starter[0]);
    workspace.like(command.args(&starter[1..]).args([BINARY, "sync", "one"]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(connection.read(&mut [0; 1024]).unwrap() > 0);
    (workspace, child, connection)
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn git_ends_with_the_command_that_started_it() {
    for signal in ["TERM", "INT", "HUP", "QUIT", "KILL"] {
        // The tests themselves may have been started with ignored signals, as by nohup.
        let (_workspace, mut child, mut connection) = waiting_sync(&["env", "--default-signal"]);
        send(&format!("-{signal}"), &child);
        // The server does not respond; only a git that ends closes the connection.
        let closed = connection.read(&mut [0; 1024]);
        assert!(matches!(closed, Ok(0)), "{signal}: git lives on: {closed:?}");
        child.wait().unwrap();
    }
}

#[test]
fn a_command_started_with_nohup_survives_a_hangup() {
    let (_workspace, mut child, mut connection) = waiting_sync(&["nohup"]);
    send("-HUP", &child);
    connection.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(connection.read(&mut [0; 1024]).is_err(), "the hangup ended git");
    assert!(child.try_wait().unwrap().is_none(), "the hangup ended the command");
    child.kill().unwrap();
    child.wait().unwrap();
}
