//! Scores in the form in which ours and AgentV's are compared: everything except texts and times.

use serde_json::{Value, json};

/// The compared suites, with the options for AgentV: it uses a suite's threshold only for its exit code.
pub(crate) const SUITES: [(&str, &[&str]); 3] =
    [("suite", &[]), ("defaults", &["--threshold", "0.6"]), ("tools", &[])];

/// A row of our `scores.jsonl`.
pub(crate) fn of_ours(row: &Value) -> Value {
    comparable(row, row["status"].as_str().unwrap())
}

/// Whether our row equals AgentV's. AgentV lists no graders if a test has only criteria.
pub(crate) fn is_same(ours: &Value, agentv: &Value) -> bool {
    let mut ours = ours.clone();
    if agentv["graders"].is_null() && ours["graders"].as_array().is_some_and(|graders| graders.len() == 1) {
        ours["graders"] = Value::Null;
    }
    ours == *agentv
}

/// A row with its status.
pub(crate) fn comparable(row: &Value, status: &str) -> Value {
    let graders =
        row["scores"].as_array().map(|scores| scores.iter().map(|score| grader(score, true)).collect());
    let graders: Value = graders.unwrap_or(Value::Null);
    json!({"test_id": row["test_id"], "status": status, "score": rounded(&row["score"]), "graders": graders})
}

fn grader(score: &Value, is_top: bool) -> Value {
    let list = |key: &str| score[key].as_array().cloned().unwrap_or_default();
    let passed: Vec<Value> = list("assertions").iter().map(|check| check["passed"].clone()).collect();
    let members: Vec<Value> = list("scores").iter().map(|score| grader(score, false)).collect();
    let mut out = json!({"name": score["name"], "type": score["type"], "score": rounded(&score["score"])});
    out["verdict"] = score["verdict"].clone();
    out["passed"] = passed.into();
    if !members.is_empty() {
        out["members"] = members.into();
    }
    // Members have a weight only if they are averaged.
    if is_top {
        out["weight"] = rounded(&score["weight"]);
    }
    out
}

fn rounded(number: &Value) -> Value {
    const DIGITS: f64 = 1e9;
    json!((number.as_f64().unwrap() * DIGITS).round() / DIGITS)
}
