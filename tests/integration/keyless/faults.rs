//! Tokens that expire and exchanges that fail: nothing is lost, and nothing is paid twice.

use super::{assert_answered, dispatched, error_of, write_target};
use crate::support::MockVendors;

#[test]
fn a_token_that_expires_with_256_calls_in_flight_costs_one_exchange() {
    for vendor in ["openai", "bedrock"] {
        // The runner widens its window with the first answers.
        let vendors = MockVendors::start(&["--revoke-from", "200", "--revoke-at", "256"]);
        let (workspace, output) = dispatched(&vendors, vendor, "max_concurrency: 256", 600);
        output.expect(0);
        assert_answered(&vendors, &workspace, 600);
        assert_eq!(vendors.counter("rejected"), 256, "{vendor}");
        assert_eq!(vendors.counter("exchanges"), 2, "{vendor}: one at the start, one for all rejected calls");
        assert_eq!(vendors.counter("minted"), 2, "{vendor}");
        let rows = workspace.rows("out/responses.jsonl");
        assert!(
            rows.iter().all(|row| row["attempts"] == 1),
            "{vendor}: a renewed token is not another attempt"
        );
    }
}

#[test]
fn a_token_is_replaced_before_it_expires() {
    let vendors = MockVendors::start(&["--token-life", "3", "--latency", "100"]);
    let (workspace, output) = dispatched(&vendors, "azure", "max_concurrency: 4", 200);
    output.expect(0);
    assert_answered(&vendors, &workspace, 200);
    assert_eq!(vendors.counter("rejected"), 0, "no call was made with an expired token");
    let exchanges = vendors.counter("exchanges");
    assert!((3..=8).contains(&exchanges), "{exchanges} exchanges in about five seconds");
}

#[test]
fn a_passing_failure_of_the_exchange_is_retried_with_a_new_assertion() {
    for (fault, failures) in [("429:2", 2), ("500:3", 3), ("hang:1", 1)] {
        let vendors = MockVendors::start(&["--exchange-fault", fault]);
        let (workspace, output) = dispatched(&vendors, "anthropic", "", 10);
        output.expect(0);
        assert_answered(&vendors, &workspace, 10);
        assert_eq!(vendors.counter("exchanges"), failures + 1, "{fault}");
        assert_eq!(vendors.counter("minted"), failures + 1, "{fault}");
    }
    let vendors = MockVendors::start(&["--mint-fault", "500:2"]);
    let (workspace, output) = dispatched(&vendors, "openai", "", 10);
    output.expect(0);
    assert_answered(&vendors, &workspace, 10);
    assert_eq!(vendors.counter("exchanges"), 1);
}

#[test]
fn an_exchange_that_never_succeeds_calls_no_model_and_a_second_run_does() {
    let vendors = MockVendors::start(&["--exchange-fault", "500:20"]);
    let workspace = vendors.job();
    write_target(&workspace, &format!("{}\nmax_retries: 1\nmax_concurrency: 4", vendors.target("openai")));
    workspace.write_requests(4);
    workspace.dispatch(&["--batch-id", "rerun"]).expect(5);
    insta::assert_snapshot!(
        error_of(&workspace),
        @"server: the token exchange with OpenAI failed: it returned 500 temporarily_unavailable: try again later"
    );
    assert_eq!((vendors.counter("calls"), vendors.counter("exchanges")), (0, 10));
    // The re-run of the job is another process with the same batch.
    workspace.dispatch(&["--batch-id", "rerun"]).expect(5);
    workspace.dispatch(&["--batch-id", "rerun"]).expect(0);
    assert_answered(&vendors, &workspace, 4);
}

#[test]
fn a_rerun_of_the_job_calls_only_what_is_missing() {
    let vendors = MockVendors::start(&[]);
    let workspace = vendors.job();
    write_target(&workspace, &vendors.target("anthropic"));
    workspace.write_requests(12);
    workspace.dispatch(&["--batch-id", "rerun", "--max-requests", "5"]).expect(5);
    assert_eq!(vendors.counter("ok"), 5);
    workspace.dispatch(&["--batch-id", "rerun"]).expect(0);
    assert_answered(&vendors, &workspace, 12);
    assert_eq!(vendors.counter("exchanges"), 2, "one in each process");
}
