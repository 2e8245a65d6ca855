//! Command graders: their input, and how their output is read.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::row::Case;
use super::{Ask, GraderCall, GraderReply, Input, Pending, failed, judged, scored, share};
use crate::model::{Block, Check, CodeGrader, Content, Grader, GraderScore, GraderVerdict, Message, Role};

/// An answer whose JSON is longer is passed in a file.
const LONGEST_OUTPUT: usize = 50_000;

#[derive(Deserialize)]
struct CommandOutput {
    #[serde(default)]
    score: Option<Value>,
    #[serde(default)]
    assertions: Option<Value>,
    #[serde(default)]
    verdict: Option<Value>,
}

/// Runs a command and reads its grade.
pub(super) fn grade(
    grader: &Grader,
    code: &CodeGrader,
    case: &Case<'_>,
    place: &str,
    ask: &mut Ask<'_>,
) -> Result<GraderScore, Pending> {
    let config = if code.config.is_empty() { Value::Null } else { Value::Object(code.config.clone()) };
    let need = GraderCall::Command { argv: code.argv.clone(), cwd: &code.cwd, input: input(case, config) };
    let (code, stdout, stderr) = match ask(place, need).ok_or(Pending)? {
        GraderReply::Ended { code, stdout, stderr } => (code, stdout, stderr),
        GraderReply::Failed(error) => return Ok(failed(grader, error)),
        GraderReply::Text(_) => return Ok(failed(grader, "the command did not run")),
    };
    let stdout = super::text::trimmed(&stdout);
    let looks_like_json = stdout.starts_with(['{', '[']);
    if code != 0 && (looks_like_json || !stderr.trim().is_empty()) {
        return Ok(judged(grader, 0.0, GraderVerdict::Fail, vec![exited(code, stderr.trim())]));
    }
    let Ok(Value::Object(printed)) = serde_json::from_str::<Value>(stdout) else {
        // Without JSON the exit code is the grade.
        return Ok(scored(grader, if code == 0 { 1.0 } else { 0.0 }, vec![exited(code, stdout)]));
    };
    let checks = checks(printed.get("assertions"));
    let passed = checks.iter().filter(|check| check.passed).count();
    let score = printed.get("score").and_then(Value::as_f64).unwrap_or_else(|| share(passed, checks.len()));
    let reasoning = printed.get("reasoning").and_then(Value::as_str).map(ToOwned::to_owned);
    Ok(GraderScore { reasoning, ..scored(grader, super::clamped(score), checks) })
}

/// A grade from the exit code, with the output as evidence.
fn exited(code: i32, printed: &str) -> Check {
    let evidence = match (code, printed) {
        (0, "") => None,
        (0, printed) => Some(printed.to_owned()),
        (code, "") => Some(format!("exit code {code}")),
        (code, printed) => Some(format!("exit code {code}: {printed}")),
    };
    Check { text: "the command exits with 0".to_owned(), passed: code == 0, evidence }
}

/// Reads the output of a command that combines several grades.
pub(super) fn joined(grader: &Grader, stdout: &str) -> GraderScore {
    let printed = serde_json::from_str::<CommandOutput>(stdout).ok();
    let (score, assertions, verdict) =
        printed.map_or((None, None, None), |printed| (printed.score, printed.assertions, printed.verdict));
    let score = super::clamped(score.as_ref().and_then(Value::as_f64).unwrap_or(0.0));
    let verdict = match verdict.as_ref().and_then(Value::as_str) {
        Some("pass") => GraderVerdict::Pass,
        Some("fail") => GraderVerdict::Fail,
        _ => super::verdict(score),
    };
    judged(grader, score, verdict, checks(assertions.as_ref()))
}

/// The output of a command, if its exit code is 0.
pub(super) fn printed(given: GraderReply) -> Result<String, String> {
    match given {
        GraderReply::Ended { code: 0, stdout, .. } => Ok(super::text::trimmed(&stdout).to_owned()),
        GraderReply::Ended { code, stderr, .. } if stderr.trim().is_empty() => {
            Err(format!("exit code {code}"))
        }
        GraderReply::Ended { code, stderr, .. } => Err(format!("exit code {code}: {}", stderr.trim())),
        GraderReply::Failed(error) => Err(error),
        GraderReply::Text(_) => Err("it did not run".to_owned()),
    }
}

/// The checks in a grade; those without a text are left out.
fn checks(value: Option<&Value>) -> Vec<Check> {
    let one = |check: &Value| {
        let truthy = match &check["passed"] {
            Value::Bool(flag) => *flag,
            Value::Null => false,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(_) | Value::Object(_) => true,
        };
        let evidence = check["evidence"].as_str().map(ToOwned::to_owned);
        Some(Check { text: check["text"].as_str()?.to_owned(), passed: truthy, evidence })
    };
    value.and_then(Value::as_array).map(|checks| checks.iter().filter_map(one).collect()).unwrap_or_default()
}

/// The input of a grader, with AgentV's keys.
fn input(case: &Case<'_>, config: Value) -> Input {
    let mut json = common(case);
    let as_json = Value::from(case.answer).to_string();
    let is_long = as_json.encode_utf16().count() > LONGEST_OUTPUT;
    json.insert("output".to_owned(), if is_long { Value::Null } else { Value::from(case.answer) });
    json.insert("trace_summary".to_owned(), Value::Object(trace_summary(case)));
    json.insert("token_usage".to_owned(), json!(case.taken.tokens));
    json.insert("cost_usd".to_owned(), json!(case.taken.cost_usd));
    json.insert("duration_ms".to_owned(), json!(case.taken.duration_ms));
    for key in ["start_time", "end_time"] {
        json.insert(key.to_owned(), Value::Null);
    }
    json.insert("config".to_owned(), config);
    Input { json: snake_case(Value::Object(json)), long_output: is_long.then_some(as_json) }
}

/// The input of a prompt command.
pub(super) fn prompt_input(case: &Case<'_>, config: Option<&Value>) -> Input {
    let mut json = common(case);
    json.insert("output".to_owned(), Value::from(case.answer));
    json.insert("answer".to_owned(), Value::from(case.answer));
    json.insert("config".to_owned(), config.cloned().unwrap_or(Value::Null));
    Input { json: snake_case(Value::Object(json)), long_output: None }
}

/// The input of a command that combines several grades.
pub(super) fn join_input(scores: &[GraderScore]) -> Input {
    Input { json: json!({"results": results(scores)}), long_output: None }
}

/// Grades by grader name.
pub(super) fn results(scores: &[GraderScore]) -> Map<String, Value> {
    let one = |score: &GraderScore| {
        json!({
            "score": score.score,
            "verdict": score.verdict,
            "assertions": score.assertions,
            "expectedAspectCount": score.assertions.len().max(1),
        })
    };
    scores.iter().map(|score| (score.name.clone(), one(score))).collect()
}

fn common(case: &Case<'_>) -> Map<String, Value> {
    let grading = &case.test.grading;
    let input: Vec<Value> = case.test.messages.iter().map(message).collect();
    let files: Vec<&str> = case.test.files.iter().map(|file| file.name.as_str()).collect();
    let messages: Vec<Value> =
        input.iter().cloned().chain(case.turns.iter().map(|turn| json!(turn))).collect();
    let mut trace = trace_summary(case);
    trace.insert("messages".to_owned(), Value::from(messages.clone()));
    let mut map = Map::new();
    map.insert("criteria".to_owned(), Value::from(grading.criteria.as_str()));
    map.insert("expected_output".to_owned(), Value::from(grading.expected.clone()));
    map.insert("messages".to_owned(), Value::from(messages));
    map.insert("input_files".to_owned(), json!(files));
    map.insert("input".to_owned(), Value::from(input));
    map.insert("metadata".to_owned(), grading.metadata.clone().unwrap_or(Value::Null));
    map.insert("trace".to_owned(), Value::Object(trace));
    for key in ["file_changes", "workspace_path"] {
        map.insert(key.to_owned(), Value::Null);
    }
    map
}

/// A summary of the tool calls.
fn trace_summary(case: &Case<'_>) -> Map<String, Value> {
    let calls = case.tool_calls();
    let (mut counts, mut durations) = (Map::new(), Map::new());
    for call in &calls {
        let count = counts.get(&call.tool).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(call.tool.clone(), Value::from(count + 1));
        if let Some(took) = call.duration_ms {
            let list = durations.entry(call.tool.clone()).or_insert_with(|| json!([]));
            list.as_array_mut().into_iter().for_each(|list| list.push(Value::from(took)));
        }
    }
    let mut summary = Map::new();
    summary.insert("event_count".to_owned(), Value::from(calls.len()));
    summary.insert("tool_calls".to_owned(), Value::Object(counts));
    summary.insert("error_count".to_owned(), Value::from(0));
    summary.insert("llm_call_count".to_owned(), Value::from(1));
    if !durations.is_empty() {
        summary.insert("tool_durations".to_owned(), Value::Object(durations));
    }
    summary
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = match &message.content {
        Content::Text(text) => Value::from(text.as_str()),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                Block::Text { text } => json!({"type": "text", "value": text}),
                Block::File { name, .. } => json!({"type": "file", "path": name}),
                Block::Image { name, .. } => json!({"type": "image", "path": name}),
            })
            .collect(),
    };
    json!({"role": role, "content": content})
}

/// Converts every key to snake case, at any depth, except those that start with a capital letter.
fn snake_case(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(snake_case).collect(),
        Value::Object(map) => {
            let key = |key: String| {
                if key.starts_with(|c: char| c.is_ascii_uppercase()) {
                    return key;
                }
                let mut out = String::with_capacity(key.len());
                for c in key.chars() {
                    if c.is_ascii_uppercase() {
                        out.push('_');
                    }
                    out.push(c.to_ascii_lowercase());
                }
                out
            };
            map.into_iter().map(|(name, value)| (key(name), snake_case(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_snake_case() {
        let value = json!({"riskLevel": {"subKey": [{"aB": 1}]}, "Read": {"x": 1}, "plain": "camelCase"});
        assert_eq!(
            snake_case(value),
            json!({"risk_level": {"sub_key": [{"a_b": 1}]}, "Read": {"x": 1}, "plain": "camelCase"})
        );
    }
}
