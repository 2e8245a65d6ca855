//! Lines of a replay fixture, format `agentv.replay_fixture.v1`, which AgentV reads strictly.

use serde::Serialize;

use crate::model::{Digest, OutputMessage, Response, TokenUsage};

const SCHEMA_VERSION: &str = "agentv.replay_fixture.v1";
const GENERATOR: &str = concat!("run-evals ", env!("CARGO_PKG_VERSION"));

/// The lookup keys of a fixture besides the test and the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaySuite {
    /// The suite's name.
    pub name: String,
    /// Its path relative to the git root; any checkout ends with it. Without one, only the name is compared.
    pub eval_path: Option<String>,
}

#[derive(Debug, Serialize)]
struct Fixture<'a> {
    schema_version: &'static str,
    suite: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_path: Option<&'a str>,
    test_id: &'a str,
    source_target: &'a str,
    attempt: u32,
    variant: Option<String>,
    source: ReplaySource<'a>,
    output: &'a [OutputMessage],
    #[serde(skip_serializing_if = "Option::is_none")]
    token_usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    duration_ms: u64,
}

#[derive(Debug, Serialize)]
struct ReplaySource<'a> {
    generator: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    request_sha256: Digest,
}

/// The line of an answer; `None` for a request without one, because the format has no failures and AgentV would grade an empty
/// answer. It reports an error for a test without a line.
///
/// `attempt` is always 0: AgentV uses it to count its own retries, also after a missing line, so the answer of another replicate
/// would replace a failure. It looks up every trial with the same key; the `variant` distinguishes replicates: `trial-2` for the
/// second one.
pub fn replay_fixture(
    suite: &ReplaySuite,
    source_target: &str,
    (test_id, replicate): (&str, u32),
    response: &Response,
) -> Option<String> {
    let fixture = Fixture {
        schema_version: SCHEMA_VERSION,
        suite: &suite.name,
        eval_path: suite.eval_path.as_deref(),
        test_id,
        source_target,
        attempt: 0,
        variant: (replicate > 1).then(|| format!("trial-{replicate}")),
        source: ReplaySource {
            generator: GENERATOR,
            model: response.model.as_deref(),
            request_sha256: response.request_sha256,
        },
        output: response.output.as_deref().filter(|_| response.error.is_none())?,
        token_usage: response.token_usage,
        cost_usd: response.cost_usd,
        duration_ms: response.duration_ms,
    };
    serde_json::to_string(&fixture).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorInfo;

    fn response(content: Option<&str>) -> Response {
        let blank = Response::blank("t".to_owned(), "gpt", Digest::of(b"t"));
        let usage = TokenUsage { input: 10, output: 2, cached: Some(4), reasoning: Some(1) };
        Response {
            output: content.map(|content| vec![OutputMessage::assistant(content)]),
            token_usage: Some(usage),
            cost_usd: Some(0.5),
            duration_ms: 12,
            model: Some("gpt-5".to_owned()),
            error: content.is_none().then(|| ErrorInfo::not_run("stopped")),
            ..blank
        }
    }

    #[test]
    fn a_line_has_agentvs_lookup_keys() {
        let suite =
            ReplaySuite { name: "demo".to_owned(), eval_path: Some("evals/demo.eval.yaml".to_owned()) };
        let line = replay_fixture(&suite, "cloud", ("t", 1), &response(Some("Paris."))).unwrap();
        let line = line.replace(env!("CARGO_PKG_VERSION"), "[version]");
        insta::assert_snapshot!(line, @r#"{"schema_version":"agentv.replay_fixture.v1","suite":"demo","eval_path":"evals/demo.eval.yaml","test_id":"t","source_target":"cloud","attempt":0,"variant":null,"source":{"generator":"run-evals [version]","model":"gpt-5","request_sha256":"e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8"},"output":[{"role":"assistant","content":"Paris."}],"token_usage":{"input":10,"output":2,"cached":4,"reasoning":1},"cost_usd":0.5,"duration_ms":12}"#);
        let second = replay_fixture(&suite, "cloud", ("t", 2), &response(Some("Paris."))).unwrap();
        assert!(second.contains(r#""attempt":0,"variant":"trial-2""#), "{second}");
        assert_eq!(replay_fixture(&suite, "cloud", ("t", 1), &response(None)), None);
    }
}
