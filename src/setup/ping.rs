//! `doctor --ping`: one small request through the whole path.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::engine::report::Output;
use crate::engine::{ExecutionOptions, Input, Observer, Plan, RemoteOptions, RunLimits};
use crate::exchange::LocalExchange;
use crate::github::Access;
use crate::model::{ErrorKind, Finding, Level, Response, printable};
use crate::util::WorkDir;
use crate::util::figures;

/// The request's text.
const PROMPT: &str = "Reply with the word OK.";
/// Enough for a reasoning model.
pub const PING_TOKENS: u32 = 64;

/// Bytes of the prompt.
pub const PING_BYTES: usize = PROMPT.len();

/// What to ping.
#[derive(Debug)]
pub struct Ping {
    pub targets_file: Option<PathBuf>,
    pub target: String,
    pub github: Access,
}

impl Ping {
    /// Sends the request and waits. Nothing of it is kept, here or on GitHub.
    pub async fn send(self, observer: Arc<dyn Observer>) -> anyhow::Result<Finding> {
        let dir = WorkDir::new().context("cannot create a temporary directory")?;
        let requests = dir.path().join("requests.jsonl");
        let request = serde_json::json!({
            "id": "ping",
            "messages": [{"role": "user", "content": PROMPT}],
            "params": {"max_tokens": PING_TOKENS},
        });
        std::fs::write(&requests, format!("{request}\n")).context("cannot write the request")?;
        let out = dir.path().join("out");
        let plan = Plan::read(
            ExecutionOptions {
                tests: crate::engine::TestChoice::default(),
                input: Input::Requests(requests),
                targets_file: self.targets_file,
                targets: vec![self.target],
                batch_id: None,
                limits: RunLimits { max_requests: Some(1), ..RunLimits::default() },
                github: self.github,
                remote: RemoteOptions {
                    delete_results: true,
                    allow_public: true,
                    ..RemoteOptions::default()
                },
            },
            Arc::clone(&observer),
        )?;
        let batches = plan.batches()?;
        let exchange = LocalExchange::open_or_create(&dir.path().join("exchange.git"))?;
        let output = Output::open(Some(out.clone()))?;
        let mut execution = plan.execution(exchange);
        let batches = execution.store(&plan, batches)?;
        let submitted = execution.submit(batches).await?;
        execution.finish(submitted, output, Some(&plan)).await?;
        let rows =
            std::fs::read_to_string(out.join("responses.jsonl")).context("cannot read the response")?;
        let row: Response = serde_json::from_str(rows.trim()).context("cannot read the response")?;
        let mut finding = finding(&row, execution.reason());
        if let Some(identity) = execution.accepted_identity().filter(|_| row.error.is_none()) {
            finding.text = format!("{}\n{identity}", finding.text);
        }
        execution.clean_up().await;
        Ok(finding)
    }
}

fn finding(row: &Response, reason: Option<&str>) -> Finding {
    if let Some(error) = &row.error {
        // A provider's own error is more useful than the conclusion of the workflow run.
        let reason = reason.filter(|_| error.kind == ErrorKind::NotRun);
        let text = format!("ping: {}", printable(reason.unwrap_or(&error.message)));
        let hint = if error.kind == ErrorKind::Auth {
            "check the key of the runner's target, or the vendor's rule for the identity of its job (docs/keyless.md)"
        } else {
            "`run-evals doctor` checks everything that can be read"
        };
        return Finding::new(Level::Error, text).hint(hint);
    }
    let model = row.model.as_deref().map(|model| format!("`{}` ", printable(model))).unwrap_or_default();
    let cost = row.cost_usd.map(|cost| format!(", {}", figures::dollars(cost))).unwrap_or_default();
    Finding::ok(format!("ping: {model}answered in {}{cost}", figures::milliseconds(row.duration_ms)))
}
