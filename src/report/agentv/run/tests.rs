use super::*;
use crate::model::{
    Check, ErrorInfo, ErrorKind, GraderScore, GraderVerdict, OutputMessage, ScoreError, ScoreStatus,
};

fn response(id: &str, content: &str) -> Response {
    Response {
        output: Some(vec![OutputMessage::assistant(content)]),
        token_usage: Some(TokenUsage { input: 10, output: 2, ..TokenUsage::default() }),
        cost_usd: Some(0.25),
        duration_ms: 1500,
        ..Response::blank(id.to_owned(), "gpt", Digest::of(id.as_bytes()))
    }
}

fn score(test: &str, replicate: u32, status: ScoreStatus, score: f64) -> ScoreRow {
    let passed = status == ScoreStatus::Passed;
    let check = Check { text: "Output contains \"Paris\"".to_owned(), passed, evidence: None };
    let grader = GraderScore {
        name: "contains-Paris".to_owned(),
        kind: "contains".to_owned(),
        score,
        weight: 1.0,
        verdict: if passed { GraderVerdict::Pass } else { GraderVerdict::Fail },
        required: false,
        assertions: vec![check],
        reasoning: None,
        scores: Vec::new(),
        error: None,
    };
    let error = ErrorInfo {
        kind: ErrorKind::BadRequest,
        message: "no such parameter".to_owned(),
        status: Some(400),
        retryable: false,
    };
    let is_error = status == ScoreStatus::Error;
    ScoreRow {
        id: crate::model::request_id(test, replicate),
        test_id: test.to_owned(),
        replicate,
        target: "gpt".to_owned(),
        status,
        score,
        threshold: 0.8,
        scores: if is_error || status == ScoreStatus::Skipped { Vec::new() } else { vec![grader] },
        error: is_error.then_some(ScoreError::Call(error)),
    }
}

/// The files of a run with every kind of result.
fn files() -> BTreeMap<String, String> {
    let responses = [
        response("right", "Paris."),
        response("wrong", "Rome."),
        response("../twice", "Paris."),
        response("../twice#2", "Rome."),
        response("ungraded", "Paris."),
    ];
    let scores = [
        score("right", 1, ScoreStatus::Passed, 1.0),
        score("wrong", 1, ScoreStatus::Failed, 0.0),
        score("lost", 1, ScoreStatus::Error, 0.0),
        score("../twice", 1, ScoreStatus::Passed, 1.0),
        score("../twice", 2, ScoreStatus::Failed, 0.0),
        score("ungraded", 1, ScoreStatus::Skipped, 0.0),
    ];
    let target = AgentvTarget { name: "cloud", responses: &responses, scores: &scores };
    render_run(&AgentvRun {
        suite: "capitals",
        eval_file: "evals/capitals.eval.yaml",
        timestamp: "2026-11-17T08:00:00.5Z".parse().unwrap(),
        targets: vec![target],
    })
    .unwrap()
}

#[test]
fn every_graded_test_is_one_row() {
    let files = files();
    insta::assert_snapshot!(files["index.jsonl"], @r#"
    {"timestamp":"2026-11-17T08:00:00.500Z","test_id":"right","suite":"capitals","score":1.0,"target":"cloud","token_usage":{"input":10,"output":2},"cost_usd":0.25,"duration_ms":1500,"scores":[{"name":"contains-Paris","type":"contains","score":1.0,"weight":1.0,"verdict":"pass","assertions":[{"text":"Output contains \"Paris\"","passed":true}]}],"execution_status":"ok","artifact_dir":"cloud/right","grading_path":"cloud/right/grading.json","output_path":"cloud/right/outputs/answer.md","answer_path":"cloud/right/outputs/answer.md"}
    {"timestamp":"2026-11-17T08:00:00.500Z","test_id":"wrong","suite":"capitals","score":0.0,"target":"cloud","token_usage":{"input":10,"output":2},"cost_usd":0.25,"duration_ms":1500,"scores":[{"name":"contains-Paris","type":"contains","score":0.0,"weight":1.0,"verdict":"fail","assertions":[{"text":"Output contains \"Paris\"","passed":false}]}],"execution_status":"quality_failure","artifact_dir":"cloud/wrong","grading_path":"cloud/wrong/grading.json","output_path":"cloud/wrong/outputs/answer.md","answer_path":"cloud/wrong/outputs/answer.md"}
    {"timestamp":"2026-11-17T08:00:00.500Z","test_id":"lost","suite":"capitals","score":0.0,"target":"cloud","scores":[],"execution_status":"execution_error","error":"bad_request (HTTP 400): no such parameter","failure_stage":"agent","failure_reason_code":"provider_error","artifact_dir":"cloud/lost","grading_path":"cloud/lost/grading.json","output_path":"cloud/lost/outputs/answer.md","answer_path":"cloud/lost/outputs/answer.md"}
    {"timestamp":"2026-11-17T08:00:00.500Z","test_id":"../twice","suite":"capitals","score":0.5,"target":"cloud","token_usage":{"input":20,"output":4},"cost_usd":0.5,"duration_ms":3000,"scores":[{"name":"contains-Paris","type":"contains","score":0.5,"weight":1.0,"verdict":"fail","assertions":[{"text":"Output contains \"Paris\"","passed":true},{"text":"Output contains \"Paris\"","passed":false}]}],"execution_status":"quality_failure","artifact_dir":"cloud/_.._twice-739cf206","grading_path":"cloud/_.._twice-739cf206/grading.json","output_path":"cloud/_.._twice-739cf206/outputs/answer.md","answer_path":"cloud/_.._twice-739cf206/outputs/answer.md"}
    "#);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    benchmark.json
    cloud/_.._twice-739cf206/grading.json
    cloud/_.._twice-739cf206/outputs/answer.md
    cloud/lost/grading.json
    cloud/lost/outputs/answer.md
    cloud/right/grading.json
    cloud/right/outputs/answer.md
    cloud/wrong/grading.json
    cloud/wrong/outputs/answer.md
    index.jsonl
    timing.json
    ");
}

#[test]
fn the_rows_are_summed_up() {
    let files = files();
    insta::assert_snapshot!(files["benchmark.json"], @r#"
    {
      "metadata": {
        "eval_file": "evals/capitals.eval.yaml",
        "timestamp": "2026-11-17T08:00:00.500Z",
        "targets": [
          "cloud"
        ],
        "tests_run": [
          "../twice",
          "lost",
          "right",
          "wrong"
        ],
        "planned_test_count": 4
      },
      "run_summary": {
        "cloud": {
          "pass_rate": {
            "mean": 0.333,
            "stddev": 0.471
          },
          "time_seconds": {
            "mean": 2.0,
            "stddev": 0.707
          },
          "tokens": {
            "mean": 16.0,
            "stddev": 5.657
          },
          "cost_usd": {
            "mean": 0.333,
            "stddev": 0.118
          }
        }
      },
      "per_grader_summary": {
        "contains-Paris:contains": {
          "mean": 0.5,
          "stddev": 0.408
        }
      },
      "notes": [
        "1 test(s) had execution errors and are excluded from quality pass_rate",
        "1 test(s) are not graded by the suite and have no row"
      ]
    }
    "#);
    insta::assert_snapshot!(files["timing.json"], @r#"
    {
      "total_tokens": 48,
      "duration_ms": 6000,
      "total_duration_seconds": 6.0,
      "token_usage": {
        "input": 40,
        "output": 8,
        "reasoning": 0
      }
    }
    "#);
}

#[test]
fn the_input_of_the_graders_is_next_to_the_answer() {
    let files = files();
    assert_eq!(files["cloud/right/outputs/answer.md"], "Paris.");
    insta::assert_snapshot!(files["cloud/right/grading.json"], @r#"
    {
      "assertions": [
        {
          "text": "Output contains \"Paris\"",
          "passed": true,
          "evidence": ""
        }
      ],
      "summary": {
        "passed": 1,
        "failed": 0,
        "total": 1,
        "pass_rate": 1.0
      },
      "execution_metrics": {
        "tool_calls": {},
        "total_tool_calls": 0,
        "errors_encountered": 0
      },
      "graders": [
        {
          "name": "contains-Paris",
          "type": "contains",
          "score": 1.0,
          "weight": 1.0,
          "verdict": "pass",
          "assertions": [
            {
              "text": "Output contains \"Paris\"",
              "passed": true
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn no_name_leaves_the_directory() {
    for (name, file) in
        [("a-b_c.1", "a-b_c.1"), ("..", "_..-"), ("a/b", "_a_b-"), ("", "_-"), (".git", "_.git-")]
    {
        let made = file_name(name);
        assert!(made.starts_with(file), "{made}");
        assert!(!made.contains('/') && !made.starts_with('.'), "{made}");
    }
    assert_ne!(file_name("a/b"), file_name("a_b"));
    assert_ne!(file_name("a/b"), file_name("a:b"));
}
