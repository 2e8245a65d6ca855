//! Wrong responses, before and after the effect of a request.

use std::collections::BTreeMap;

use super::{DISPATCHES, REPO, Sim, dispatch};
use crate::support::github::{Fault, What, Wrong};

const DISPATCH: &str = "POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches";

fn answer(route: &str, after: bool, answer: Wrong) -> What {
    What::Answer { route: route.to_owned(), after, answer }
}

fn status(status: u16, body: &str, headers: &[(&str, &str)]) -> Wrong {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Wrong::Status { status, body: body.to_owned(), headers }
}

#[test]
fn a_dispatch_can_start_a_run_and_report_something_else() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    sim.github.fault(answer(
        DISPATCH,
        true,
        status(500, r#"{"message":"Failed to run workflow dispatch"}"#, &[]),
    ));
    assert_eq!(client.post(DISPATCHES, &dispatch("b0", 1)).message(), "500 Failed to run workflow dispatch");
    sim.github.fault(answer(DISPATCH, true, status(502, "<html>Unicorn!</html>", &[])));
    let html = client.post(DISPATCHES, &dispatch("b1", 1));
    assert_eq!((html.status, html.headers["content-type"].as_str()), (502, "text/html; charset=utf-8"));
    sim.github.fault(answer(DISPATCH, true, Wrong::Torn));
    assert!(client.try_post(DISPATCHES, &dispatch("b2", 1)).is_err());
    sim.github.fault(answer(DISPATCH, true, Wrong::Dropped));
    assert!(client.try_post(DISPATCHES, &dispatch("b3", 1)).is_err());
    sim.github.fault(What::NoRunDetails);
    assert_eq!(client.post(DISPATCHES, &dispatch("b4", 1)).status, 204);
    sim.github.fault(What::OldGhes);
    assert_eq!(
        client.post(DISPATCHES, &dispatch("b5", 1)).message(),
        "422 \"return_run_details\" is not a permitted key."
    );
    sim.github.fault(answer(DISPATCH, false, status(503, "", &[])));
    assert_eq!(client.post(DISPATCHES, &dispatch("b6", 1)).status, 503);
    let runs = sim.github.until(|runs| runs.iter().all(|run| run.status == "completed"));
    let batches: Vec<&str> = runs.iter().map(|run| run.inputs["batch_id"].as_str()).collect();
    assert_eq!(batches, ["b0", "b1", "b2", "b3", "b4"]);
}

#[test]
fn a_hanging_response_is_held_until_the_client_gives_up() {
    let sim = Sim::new("exit 0");
    sim.github.fault(answer(DISPATCH, true, Wrong::Hang));
    let http =
        reqwest::Client::builder().timeout(std::time::Duration::from_secs(2)).no_proxy().build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("{}{DISPATCHES}", sim.github.urls().api_url);
    let token = crate::support::github::TOKEN;
    let request =
        http.post(url).header("user-agent", "test").bearer_auth(token).body(dispatch("b1", 1).to_string());
    let result = runtime.block_on(async { request.send().await });
    assert!(result.unwrap_err().is_timeout());
    sim.github.finished_run();
}

#[test]
fn rate_limits_can_be_simulated() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    let path = format!("/repos/{REPO}");
    let route = "GET /repos/{owner}/{repo}";
    let message = r#"{"message":"You have exceeded a secondary rate limit."}"#;
    sim.github.fault(answer(route, false, status(429, message, &[("retry-after", "1")])));
    let limited = client.get(&path);
    assert_eq!((limited.status, limited.headers["retry-after"].as_str()), (429, "1"));
    let fault =
        Fault { what: answer("GET /repos/*", false, status(403, message, &[])), times: Some(2), skip: 1 };
    let fault = sim.github.add_fault(&fault);
    let statuses: Vec<u16> = (0..4).map(|_| client.get(&path).status).collect();
    assert_eq!((statuses, sim.github.struck(fault)), (vec![200, 403, 403, 200], 2));
    sim.github.fault(What::RateLimitUsedUp { seconds: 4 });
    let empty = client.get(&path);
    assert_eq!((empty.status, empty.headers["x-ratelimit-remaining"].as_str()), (403, "0"));
    assert!(empty.json["message"].as_str().unwrap().starts_with("API rate limit exceeded"));
    assert_eq!(client.get(&path).status, 403, "until it is reset");
    assert_eq!(client.get("/rate_limit").status, 200, "which is free");
    sim.github.until(|_| client.get(&path).status == 200);
    let late = answer(route, false, Wrong::Late { ms: 200 });
    sim.github.add_fault(&Fault { what: late, times: None, skip: 0 });
    let start = std::time::Instant::now();
    assert_eq!((client.get(&path).status, start.elapsed().as_millis() >= 200), (200, true));
    sim.github.clear_faults();
}

#[test]
fn a_new_run_can_be_invisible_at_first() {
    let sim = Sim::new("exit 0");
    sim.github.fault(What::RunInvisible { seconds: 2.0 });
    let id = sim.dispatch("b1", 1);
    let client = sim.client();
    let path = format!("/repos/{REPO}/actions/runs");
    assert_eq!(client.get(&format!("{path}/{id}")).status, 404);
    assert_eq!(client.get(&path).json["total_count"], 0);
    sim.github.until(|_| client.get(&format!("{path}/{id}")).status == 200);
    assert_eq!(client.get(&path).json["workflow_runs"][0]["id"], id);
    sim.finished(id);
}
