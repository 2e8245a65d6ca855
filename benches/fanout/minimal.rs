//! The simplest loop that could do the work: a fixed number of slots, and every wait inside its slot.
//!
//! It runs in a separate process, a hidden subcommand of the benchmark, so that it is measured like the program.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The first argument that chooses this loop; then follow the base URL, the requests, the output and the slots.
pub(crate) const SUBCOMMAND: &str = "--minimal";

/// The wait after a broken answer: the first one of the program's own defaults.
const PAUSE: Duration = Duration::from_millis(500);

const MOST_ATTEMPTS: usize = 100;

/// Answers every line of the requests file.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let [base_url, requests, output, slots] = arguments else {
        bail!("`{SUBCOMMAND}` needs a base URL, a requests file, an output file and a number of slots");
    };
    // One thread is the harder baseline to beat: a second one doubles the CPU time of this loop.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(format!("{base_url}/chat/completions"), requests, output, slots.parse()?))
}

async fn run(url: String, requests: &str, output: &str, slots: usize) -> Result<()> {
    let client = Client::builder().no_proxy().build()?;
    let url: Arc<str> = url.into();
    let mut output = BufWriter::new(File::create(output)?);
    let mut tasks = JoinSet::new();
    for line in BufReader::new(File::open(requests)?).lines() {
        if tasks.len() == slots
            && let Some(row) = tasks.join_next().await
        {
            writeln!(output, "{}", row??)?;
        }
        tasks.spawn(ask(client.clone(), Arc::clone(&url), line?));
    }
    while let Some(row) = tasks.join_next().await {
        writeln!(output, "{}", row??)?;
    }
    Ok(output.flush()?)
}

/// Repeats one request until it is answered; the result is a row like those of the program, as far as they are checked.
async fn ask(client: Client, url: Arc<str>, line: String) -> Result<Value> {
    let mut request: Value = serde_json::from_str(&line)?;
    let body = json!({"model": "mock-model", "messages": request["messages"].take()}).to_string();
    for _ in 0..MOST_ATTEMPTS {
        let sent =
            client.post(&*url).header(CONTENT_TYPE, "application/json").body(body.clone()).send().await;
        let pause = match sent {
            Ok(answer) if answer.status() == StatusCode::OK => {
                if let Ok(bytes) = answer.bytes().await {
                    let mut answer: Value = serde_json::from_slice(&bytes)?;
                    let message = answer["choices"][0]["message"].take();
                    return Ok(json!({"id": request["id"].take(), "output": [message]}));
                }
                PAUSE
            }
            Ok(answer) if answer.status() == StatusCode::TOO_MANY_REQUESTS => {
                let seconds = answer.headers().get(RETRY_AFTER).context("a 429 without `Retry-After`")?;
                Duration::from_secs(seconds.to_str()?.parse()?)
            }
            Ok(answer) if answer.status().is_client_error() => bail!("status {}", answer.status()),
            Ok(_) | Err(_) => PAUSE,
        };
        tokio::time::sleep(pause).await;
    }
    bail!("no answer in {MOST_ATTEMPTS} attempts")
}
