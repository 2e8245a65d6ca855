//! A mock server: the example `mock_llm`, on a free port, stopped with the test.

use std::collections::BTreeMap;

use super::example::ExampleServer;

/// A running server.
pub(crate) struct MockLlm(ExampleServer);

impl MockLlm {
    pub(crate) fn start(options: &[&str]) -> Self {
        let options = [&["--exit-with-stdin", "--record"], options].concat();
        Self(ExampleServer::start("mock_llm", &options))
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.0.address)
    }

    /// The address of the counters.
    pub(crate) fn counters_url(&self) -> String {
        format!("http://{}/counters", self.0.address)
    }

    /// `requests`, `ok`, `s429`, `s5xx`, `dropped`, …
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.0.counter(name)
    }

    /// How often each message was answered.
    pub(crate) fn served(&self) -> BTreeMap<String, u64> {
        self.0.served()
    }
}
