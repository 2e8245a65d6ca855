//! A file per skill, through the service: pull requests of different skills merge in any order.

use serde_json::json;

use super::service::Service;
use crate::evaluate::merged::{SKILLS, merge_in_any_order, split_library};

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn six_skills_evaluated_by_the_service_merge_in_any_order() {
    let (stage, llm) = split_library();
    let base = stage.commit("main");
    let service = Service::start(&stage, &["--report-failures", "none"]);
    for skill in SKILLS {
        let order = json!({"skill_name": skill, "replicates": 1});
        let id = service.submit(&order).expect(202)["job_id"].as_str().unwrap().to_owned();
        assert!(service.ended(&id, "completed")["pull_request"].is_string());
    }
    let orders = merge_in_any_order(&stage, &base);
    println!("50 rounds of 6 merges, {orders} orders, 0 conflicts, {} calls", llm.counter("ok"));
}
