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
    for (fault, failures) in [("429:2", 2), ("500:3", 3), ("hang:1", 1), ("trickle:1", 1)] {
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

#[test]
fn no_call_waits_for_a_refresh_that_it_does_not_need() {
    let vendors = MockVendors::start(&["--token-life", "4", "--exchange-delay", "1500", "--latency", "20"]);
    let (workspace, output) = dispatched(&vendors, "azure", "max_concurrency: 4", 800);
    output.expect(0);
    assert_answered(&vendors, &workspace, 800);
    assert!(vendors.counter("exchanges") >= 2, "no refresh");
    // While the second exchange is under way, calls continue with the current token: hundreds would fit into that time.
    let meanwhile = vendors.counter("calls_during_exchange");
    assert!(meanwhile > 20, "{meanwhile} calls during an exchange");
    assert_eq!(vendors.counter("rejected"), 0);
}

#[test]
fn a_stale_assertion_is_replaced_by_a_new_one() {
    for vendor in ["azure", "bedrock", "vertex", "openai"] {
        let vendors = MockVendors::start(&["--stale", "2"]);
        let (workspace, output) = dispatched(&vendors, vendor, "", 4);
        output.expect(0);
        assert_answered(&vendors, &workspace, 4);
        assert_eq!((vendors.counter("minted"), vendors.counter("exchanges")), (3, 3), "{vendor}");
    }
}

/// What an exchange answers must not reach a log as a command, a call as a header, or the memory without a bound.
#[test]
fn a_hostile_answer_of_an_exchange_is_an_error() {
    let token = |token: &str, expiry: &str| format!(r#"{{"access_token":"{token}","expires_in":{expiry}}}"#);
    let good = "oai-0123456789";
    let newline = token(r"oai-01234567\r\n::error::injected", "300");
    for (options, told) in [
        (["--exchange-answer", &newline], "a token with characters that no header may have"),
        (
            ["--exchange-answer", &token(r"oai\u0000-01234567", "300")],
            "a token with characters that no header may have",
        ),
        (["--exchange-answer", &token(good, "0")], "a token that has already expired"),
        (["--exchange-answer", &token(good, "-300")], "a token that has already expired"),
        (["--exchange-answer", r#"{"access_token":{"a":1}}"#], "no token"),
        (["--exchange-fault", "redirect:9"], "redirects are not followed; fix `token_url`"),
        (["--exchange-answer", "<!doctype html><title>Sign in</title>"], "no token"),
        (["--exchange-fault", "huge:9"], "is larger than 1 MiB"),
        (["--exchange-fault", "bomb:9"], "no token"),
    ] {
        let vendors = MockVendors::start(&options);
        let workspace = vendors.job().env("GITHUB_RUN_ID", "7");
        write_target(&workspace, &format!("{}\nmax_retries: 0", vendors.target("openai")));
        workspace.write_requests(2);
        let output = workspace.dispatch(&[]).expect(5);
        let error = error_of(&workspace);
        assert!(error.contains(told), "{options:?}: {error}");
        let injected = output.stderr.lines().any(|line| line.starts_with("::error::injected"));
        assert!(!injected && !output.stderr.contains("oai-01234567"), "{}", output.stderr);
        assert_eq!((vendors.counter("calls"), vendors.counter("redirected")), (0, 0), "{options:?}");
    }
    // Of duplicate keys the last one counts, and a life beyond all bounds is one of a day.
    let far = format!(
        r#"{{"access_token":"first-012345","access_token":"{good}","expires_in":18446744073709551615}}"#
    );
    let vendors = MockVendors::start(&["--exchange-answer", &far]);
    let (workspace, output) = dispatched(&vendors, "openai", "max_retries: 0", 1);
    output.expect(5);
    assert!(
        error_of(&workspace).starts_with("auth: Incorrect API key provided: Bearer ***"),
        "{}",
        error_of(&workspace)
    );
}

/// A vendor gets only a token that was issued for it.
#[test]
fn a_hostile_answer_of_the_identity_provider_is_sent_to_no_vendor() {
    let other = "GitHub issued an identity token for the audience \"https://other.example\", and not for";
    for (options, told) in [
        (["--claim", "aud=https://other.example"], other),
        (["--claim", "aud="], "for the audience \"\", and not for"),
        (["--mint-fault", "200:9"], "has no `value`"),
        (["--mint-fault", "redirect:9"], "redirects are not followed; fix `ACTIONS_ID_TOKEN_REQUEST_URL`"),
        (["--mint-fault", "huge:9"], "is larger than 1 MiB"),
    ] {
        for vendor in ["openai", "bedrock"] {
            let vendors = MockVendors::start(&options);
            let (workspace, output) = dispatched(&vendors, vendor, "max_retries: 0", 2);
            output.expect(5);
            let error = error_of(&workspace);
            assert!(error.contains(told), "{vendor} {options:?}: {error}");
            let counters = ["exchanges", "calls", "redirected"].map(|name| vendors.counter(name));
            assert_eq!(counters, [0, 0, 0], "{vendor} {options:?}");
        }
    }
}
