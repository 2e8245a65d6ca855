//! The output file for AgentV's CLI provider: one line per test for a batch, one object for a single test.

use serde::Serialize;

use crate::model::{ErrorInfo, OutputMessage, Response};

/// The token counts that AgentV reads.
#[derive(Debug, Serialize)]
struct Usage {
    input: u64,
    output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
}

#[derive(Debug, Serialize)]
struct AgentvResponse<'a> {
    id: &'a str,
    output: &'a [OutputMessage],
    #[serde(skip_serializing_if = "Option::is_none")]
    token_usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    duration_ms: u64,
}

#[derive(Debug, Serialize)]
struct Failed<'a> {
    id: &'a str,
    text: String,
    error: &'a ErrorInfo,
}

/// The line of an answer; `None` if there is none.
pub fn answer_line(test_id: &str, response: &Response) -> Option<String> {
    let usage = |usage: crate::model::TokenUsage| Usage {
        input: usage.input,
        output: usage.output,
        cached: usage.cached,
    };
    let answer = AgentvResponse {
        id: test_id,
        output: response.output.as_deref().filter(|_| response.error.is_none())?,
        token_usage: response.token_usage.map(usage),
        cost_usd: response.cost_usd,
        duration_ms: response.duration_ms,
    };
    serde_json::to_string(&answer).ok()
}

/// The line of a failed test, for readers of the file: AgentV would treat its text as an answer.
pub fn failed_line(test_id: &str, why: &str, error: &ErrorInfo) -> String {
    serde_json::to_string(&Failed { id: test_id, text: format!("Error: {why}"), error }).unwrap_or_default()
}

/// The test that AgentV requests, from the name of the output file: `agentv-<test>-<milliseconds>-<random>.json`.
pub fn test_of_output_file(name: &str) -> Option<&str> {
    let (rest, random) = name.strip_prefix("agentv-")?.strip_suffix(".json")?.rsplit_once('-')?;
    let (test, time) = rest.rsplit_once('-')?;
    let is_random = random.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    (is_random && is_time && !test.is_empty()).then_some(test)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, TokenUsage};

    fn blank() -> Response {
        Response::blank("t".to_owned(), "gpt", Digest::of(b"t"))
    }

    #[test]
    fn an_answer_has_the_format_of_the_cli_provider() {
        let usage = TokenUsage { input: 10, output: 2, cached: Some(4), reasoning: Some(1) };
        let response = Response {
            output: Some(vec![OutputMessage::assistant("Paris.\n")]),
            token_usage: Some(usage),
            cost_usd: Some(0.5),
            duration_ms: 12,
            ..blank()
        };
        insta::assert_snapshot!(answer_line("t", &response).unwrap(), @r#"{"id":"t","output":[{"role":"assistant","content":"Paris.\n"}],"token_usage":{"input":10,"output":2,"cached":4},"cost_usd":0.5,"duration_ms":12}"#);
        assert_eq!(answer_line("t", &blank()), None);
    }

    #[test]
    fn a_failure_is_a_line_too() {
        insta::assert_snapshot!(failed_line("t", "stopped", &ErrorInfo::not_run("stopped")), @r#"{"id":"t","text":"Error: stopped","error":{"kind":"not_run","message":"stopped","retryable":true}}"#);
    }

    #[test]
    fn the_test_id_comes_from_the_file_name() {
        for (name, test) in [
            ("agentv-case-1-1763369000000-x1y2z3a.json", Some("case-1")),
            ("agentv-a b#2-1763369000000-.json", Some("a b#2")),
            ("agentv-batch-1763369000000-x1y2z3a.jsonl", None),
            ("agentv-1763369000000-x1y2z3a.json", None),
            ("agentv-a-now-x1y2z3a.json", None),
            ("answers.json", None),
        ] {
            assert_eq!(test_of_output_file(name), test, "{name}");
        }
    }
}
