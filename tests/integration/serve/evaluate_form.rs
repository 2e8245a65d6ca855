//! The form that requests an evaluation: it starts one or shows an error, and rejects other sites.

use super::service::{OURS, Service};
use crate::evaluate::stage::{SKILL, Stage};
use crate::studio::visitor::Visitor;

#[test]
fn the_form_orders_an_evaluation_and_a_busy_service_says_so() {
    let stage = Stage::new();
    let _llm = stage.gateway(&["--latency-ms", "150"]);
    let service = Service::start(&stage, &["--max-concurrency", "2", "--report-failures", "none"]);
    let mut visitor = Visitor::new(&service.address);
    visitor.sign_in(OURS).expect(303);
    let csrf = visitor.csrf();
    let fields = [("csrf", csrf.as_str()), ("skill_name", SKILL), ("replicates", "2"), ("git_sha", "")];
    for headers in [[("Sec-Fetch-Site", "cross-site")], [("Origin", "http://evil.example")]] {
        visitor.post("/studio/jobs", &headers, &fields).expect(403);
    }
    visitor.post("/studio/jobs", &[], &fields[1..]).expect(403);
    assert!(
        service.get("/jobs").expect(200)["jobs"].as_array().unwrap().is_empty(),
        "a refused form ordered"
    );

    let answer = visitor.post("/studio/jobs", &[], &fields).expect(303);
    let place = answer.header("location").unwrap().to_owned();
    let id = place.strip_prefix("/studio/jobs/").unwrap().to_owned();
    assert!(visitor.get(&place).expect(200).body.contains(SKILL));
    let busy = visitor.post("/studio/jobs", &[], &fields).expect(409).body;
    assert!(busy.contains("<b>Not started:</b>") && busy.contains(&format!("href=\"{place}\"")), "{busy}");
    assert!(busy.contains(&format!("name=\"skill_name\" list=\"skills\" value=\"{SKILL}\"")), "{busy}");
    service.ended(&id, "completed");
    assert_eq!(service.get("/jobs").expect(200)["jobs"].as_array().unwrap().len(), 1);
}
