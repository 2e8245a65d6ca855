//! What a call costs without a stored key: the token that it carries, and the signature of AWS.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::client;
use crate::measure::measure;
use crate::scenarios::Bench;
use crate::server::{self, Server};

const ROUNDS: usize = 3;
const CONCURRENCY: usize = 64;
/// CPU per call with a short-lived token, next to a static key.
const MOST: f64 = 1.1;

/// Runs each kind of credentials in turns, and prints the medians of the CPU time per call.
pub(crate) fn compare(bench: &Bench, name: &str) -> Result<()> {
    let vendors = Server::start(&server::build("mock_vendors")?, "")?;
    // Renewed twice a second: after a few seconds as many tokens are redacted as in a job that has run for hours.
    let hasty = Server::start(&server::build("mock_vendors")?, "--token-life 1")?;
    let llm = Server::start(bench.server(), "--exit-with-stdin")?;
    let (vendors, hasty, base) = (vendors.address(), hasty.address(), llm.base_url());
    let at_llm = format!("provider: openai\nbase_url: {base}");
    let auth = |vendors: &str| {
        format!(
            "{at_llm}\nauth: {{ github_oidc: {{ identity_provider_id: idp_mock, service_account_id: sa_mock, \
             token_url: \"http://{vendors}/openai/oauth/token\" }} }}"
        )
    };
    let profile = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.mock";
    let bedrock =
        format!("provider: bedrock\nmodel: {profile}\nregion: us-east-1\nbase_url: http://{vendors}/bedrock");
    let targets = [
        ("static key", vendors, format!("{at_llm}\napi_key: ${{{{ MOCK_KEY }}}}")),
        ("exchanged token", vendors, auth(vendors)),
        ("renewed tokens", hasty, auth(hasty)),
        ("bearer key", vendors, format!("{bedrock}\napi_key: ${{{{ BEDROCK_KEY }}}}")),
        (
            "signature",
            vendors,
            format!(
                "{bedrock}\naccess_key_id: ${{{{ AWS_KEY_ID }}}}\nsecret_access_key: ${{{{ AWS_SECRET_KEY }}}}"
            ),
        ),
    ];
    let mut medians = Vec::new();
    let count = bench.count(20_000);
    let mut costs = targets.each_ref().map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, vendors, lines), costs) in targets.iter().zip(&mut costs) {
            costs.push(cpu_per_call(bench, lines, vendors, count)?);
        }
    }
    for ((what, ..), costs) in targets.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let median = costs[ROUNDS / 2];
        medians.push(median);
        writeln!(std::io::stdout(), "{name:<17} {what:<16} CPU {median:>7.1} µs/req, median of {ROUNDS}")?;
    }
    let verdict = |ratio: f64| if ratio <= MOST { "met" } else { "MISSED" };
    let [token, renewed] = [medians[1], medians[2]].map(|cost| cost / medians[0]);
    let signature = medians[4] - medians[3];
    writeln!(
        std::io::stdout(),
        "{name:<17} token/static {token:.3} (goal {MOST}: {}), renewed {renewed:.3} ({}), a signature costs {signature:.1} µs",
        verdict(token),
        verdict(renewed)
    )?;
    Ok(())
}

/// Microseconds of CPU time for each call of a target with these lines.
fn cpu_per_call(bench: &Bench, lines: &str, vendors: &str, count: usize) -> Result<f64> {
    let directory = bench.new_directory()?;
    let requests = directory.path().join("requests.jsonl");
    client::write_requests(&requests, count)?;
    let program = env!("CARGO_BIN_EXE_run-evals").as_ref();
    let mut command: Command = client::dispatch_to(program, directory.path(), lines, &requests, CONCURRENCY)?;
    command
        .env("GITHUB_ACTIONS", "true")
        .env("ACTIONS_ID_TOKEN_REQUEST_URL", format!("http://{vendors}/github/token?api-version=2.0"))
        .env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ghs-request-token-0123456789abcdef")
        .env("BEDROCK_KEY", "static-bedrock-api-key")
        .env("AWS_KEY_ID", "AKIDSTATIC00000000")
        .env("AWS_SECRET_KEY", "static-secret-access-key-0123456789")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let measured = measure(&mut command)?;
    let (answered, checked) = client::check(&directory.path().join("output/responses.jsonl"), count, true);
    checked.with_context(|| format!("{answered} of {count} answered"))?;
    ensure!(measured.status.success(), "run-evals failed: {}", measured.status);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(measured.cpu.as_secs_f64() * 1e6 / count as f64)
}
