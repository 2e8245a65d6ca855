//! The servers of the tests are examples of this package.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A running server, stopped with the test. It also ends when its stdin closes, so that even a killed test leaves none behind.
pub(super) struct ExampleServer {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
}

impl ExampleServer {
    /// A server that prints its URL when it listens.
    pub(super) fn start(name: &'static str, options: &[&str]) -> Self {
        let mut command = Command::new(example(name));
        let mut child =
            command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        Self { child, address }
    }

    /// One of its counters.
    pub(super) fn counter(&self, name: &str) -> u64 {
        let counters: serde_json::Value = serde_json::from_str(&self.get("/counters")).unwrap();
        counters[name].as_u64().unwrap_or_else(|| panic!("no counter `{name}` in {counters}"))
    }

    /// How often each message was answered.
    pub(super) fn served(&self) -> BTreeMap<String, u64> {
        serde_json::from_str(&self.get("/served")).unwrap()
    }

    /// The body of a page.
    pub(super) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for ExampleServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The executable of an example. `cargo test` builds the examples, a narrower command does not: then it is built here, once.
pub(super) fn example(name: &'static str) -> PathBuf {
    static BUILT: LazyLock<Mutex<BTreeMap<&str, PathBuf>>> = LazyLock::new(Mutex::default);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let profile_dir = Path::new(env!("CARGO_BIN_EXE_run-evals")).parent().unwrap();
    let profile = if profile_dir.ends_with("release") { "release" } else { "dev" };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", name, "--profile", profile]);
    // With this variable, libtest prints times, and cargo would rebuild everything.
    assert!(build.env_remove("RUSTC_BOOTSTRAP").status().unwrap().success());
    profile_dir.join("examples").join(name)
}
