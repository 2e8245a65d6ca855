//! The mock servers of `examples`, each in its own process.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::measure;

/// A running server; it ends when this is dropped, and also when the benchmark itself dies.
pub(crate) struct Server {
    process: Child,
    address: String,
}

/// What the server counted.
#[derive(Debug, Deserialize)]
pub(crate) struct Counters {
    /// Answers with status 200.
    pub(crate) ok: u64,
    /// Refusals.
    pub(crate) s429: u64,
    /// Microseconds between arrival and answer, summed over `ok`.
    pub(crate) held_us: u64,
}

impl Server {
    /// Starts the program with these options on a free port.
    pub(crate) fn start(program: &PathBuf, options: &str) -> Result<Self> {
        let mut process = Command::new(program)
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the mock server")?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("the mock server has no stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim_end().strip_prefix("listening on http://");
        let address = address.context("the mock server does not say where it listens")?.to_owned();
        Ok(Self { process, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The base URL of the API.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What it counted so far.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(b"GET /counters HTTP/1.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("the mock server does not answer")?;
        Ok(serde_json::from_str(body)?)
    }

    /// The CPU time that it used so far; none where the system does not tell.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        measure::cpu_of_running(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Failing means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Builds the example in the profile of this executable (a no-op if it is up to date) and returns its path.
pub(crate) fn build(example: &str) -> Result<PathBuf> {
    let executable = env::current_exe()?;
    let directory = executable.ancestors().nth(2).context("the benchmark is not in `target`")?;
    let profile = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let profile = if profile == "debug" { "dev" } else { profile };
    let target = directory.parent().context("the benchmark is not in `target`")?;
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--example", example, "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cannot build the example `{example}`");
    Ok(directory.join("examples").join(example).with_extension(env::consts::EXE_EXTENSION))
}
