//! A mock server: the example `mock_llm`, on a free port, stopped with the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::example;

/// A running server. It also ends when its stdin closes, so that even a killed test leaves none behind.
pub(crate) struct MockLlm {
    child: Child,
    address: String,
}

impl MockLlm {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(example("mock_llm"))
            .args(["--exit-with-stdin", "--record"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mock_llm starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        Self { child, address }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The address of the counters.
    pub(crate) fn counters_url(&self) -> String {
        format!("http://{}/counters", self.address)
    }

    /// `requests`, `ok`, `s429`, `s5xx`, `dropped`, …
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters: serde_json::Value = serde_json::from_str(&self.get("/counters")).unwrap();
        counters[name].as_u64().unwrap_or_else(|| panic!("no counter `{name}` in {counters}"))
    }

    /// How often each message was answered.
    pub(crate) fn served(&self) -> BTreeMap<String, u64> {
        serde_json::from_str(&self.get("/served")).unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
