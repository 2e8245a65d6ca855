//! Access: tokens and their rotation, throttling of failures, and networks.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::service::{OURS, Service, bare_workspace, bearer, log};
use crate::support::until;

const NEXT: &str = "deadbeefdeadbeefdeadbeefdeadbeef";

fn status(service: &Service, authorization: &str) -> u16 {
    service.ask("GET", "/jobs", &[("Authorization", authorization)], b"").status
}

#[test]
fn every_route_but_health_needs_a_valid_token() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    assert_eq!(status(&service, &bearer(OURS)), 200);
    assert_eq!(status(&service, &format!("bearer  {OURS}")), 200);
    let answer = service.ask("GET", "/jobs", &[], b"");
    assert_eq!(answer.expect(401)["error"], "a valid token is needed: `Authorization: Bearer TOKEN`");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let wrong = [&OURS[1..], &format!("{OURS}0"), "", "x"];
    for token in wrong {
        assert_eq!(status(&service, &bearer(token)), 401, "{token}");
    }
    for authorization in [format!("Basic {OURS}"), OURS.to_owned(), "Bearer".to_owned()] {
        assert_eq!(status(&service, &authorization), 401, "{authorization}");
    }
    let twice = [("Authorization", bearer(OURS)), ("Authorization", bearer(NEXT))];
    let twice = twice.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(service.ask("GET", "/jobs", &twice, b"").status, 401, "two are none");
    for path in ["/jobs/job-x", "/jobs"] {
        assert_eq!(service.ask("GET", path, &[], b"").status, 401);
    }
    assert_eq!(service.ask("POST", "/evaluate", &[], b"").status, 401);
    let health = service.ask("GET", "/health", &[], b"").expect(200);
    assert_eq!(
        health,
        serde_json::json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "busy": false})
    );
}

/// The name that a workflow of a skill library may already use.
#[test]
fn the_token_may_be_in_either_variable() {
    let workspace = bare_workspace();
    let args =
        ["serve", "--no-publish", "--listen", "127.0.0.1:0", "--state", "state", "--library", "library"];
    for (ours, theirs) in [("", OURS), (OURS, NEXT)] {
        let mut command = workspace.command(&args);
        command.env("RUN_EVALS_SERVE_TOKEN", ours).env("MINDROUTER_EVAL_WEBHOOK_TOKEN", theirs);
        let service = Service::of(&mut command);
        assert_eq!([OURS, NEXT].map(|token| status(&service, &bearer(token))), [200, 401]);
    }
}

#[test]
fn tokens_are_rotated_without_downtime() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let statuses = |service: &Service| [OURS, NEXT].map(|token| status(service, &bearer(token)));
    assert_eq!(statuses(&service), [200, 401]);
    workspace.write_private("tokens", &format!("# the old one\n{OURS}\n# the new one\n{NEXT}\n"));
    service.signal(Signal::SIGHUP);
    until("it", || status(&service, &bearer(NEXT)) == 200);
    assert_eq!(statuses(&service), [200, 200]);
    workspace.write_private("tokens", NEXT);
    service.signal(Signal::SIGHUP);
    until("it", || status(&service, &bearer(OURS)) == 401);
    assert_eq!(statuses(&service), [401, 200]);
    // A mistake in the file does not lock out valid tokens.
    workspace.write_private("tokens", "short");
    service.signal(Signal::SIGHUP);
    until("it", || log(&workspace).iter().any(|line| line["level"] == "error"));
    assert_eq!(statuses(&service), [401, 200]);
    let told = log(&workspace).into_iter().find(|line| line["level"] == "error").unwrap();
    insta::assert_snapshot!(told["message"].as_str().unwrap(), @"keeping the old tokens: token 1 in `tokens` has 5 characters, at least 32 are needed");
}

#[test]
fn failed_logins_are_throttled_and_valid_tokens_never_are() {
    let workspace = bare_workspace().env("RUN_EVALS_CLOCK_FACTOR", "0.5");
    let service = Service::bare(&workspace, &[]);
    let timed = |token: &str| {
        let started = Instant::now();
        (status(&service, &bearer(token)), started.elapsed())
    };
    let waits: Vec<Duration> = (0..5).map(|_| timed(NEXT).1).collect();
    for (index, wait) in waits.iter().enumerate() {
        assert!(*wait >= Duration::from_millis(50 << index), "{waits:?}");
    }
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..40).map(|_| scope.spawn(|| timed(NEXT))).collect();
        // While invalid tokens wait, valid ones do not.
        let slowest = (0..20)
            .map(|_| timed(OURS))
            .inspect(|(status, _)| assert_eq!(*status, 200))
            .map(|(_, took)| took)
            .max();
        assert!(slowest.unwrap() < Duration::from_secs(2), "{slowest:?}");
        let statuses: Vec<u16> = guesses.into_iter().map(|guess| guess.join().unwrap().0).collect();
        assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&429), "those that wait at once are few: {statuses:?}");
    });
    let refusals: Vec<_> =
        log(&workspace).into_iter().filter(|line| line["message"] == "refused: wrong token").collect();
    assert!(refusals.len() >= 10 && refusals.len() < 20, "{}", refusals.len());
    assert!(
        refusals.iter().all(|line| line["peer"] == "127.0.0.1" && line["level"] == "warn"),
        "{refusals:?}"
    );
}

#[test]
fn behind_a_proxy_the_last_hop_is_the_client() {
    let workspace = bare_workspace();
    workspace.write("networks", "192.0.2.0/24\n");
    let service = Service::bare(&workspace, &["--behind-proxy", "--allow-from", "networks"]);
    let asked_by = |hops: &str| {
        let headers =
            [("Authorization", &*bearer(OURS)), ("X-Forwarded-For", hops)].map(|(n, v)| (n, v.to_owned()));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        service.ask("GET", "/jobs", &headers, b"").status
    };
    assert_eq!(asked_by("198.51.100.1, 192.0.2.7"), 200);
    assert_eq!(asked_by("192.0.2.7, 198.51.100.1"), 403, "anybody can write the hops before the last");
    assert_eq!(asked_by("nonsense"), 403);
    assert_eq!(service.ask("GET", "/health", &[], b"").expect(403)["error"], "this address may not connect");
    let lines = log(&workspace);
    assert!(
        lines.iter().any(|line| line["peer"] == "192.0.2.7" && line["message"] == "request"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line["peer"] == "198.51.100.1" && line["message"] == "refused: not on the list")
    );

    // The list is reloaded, too.
    workspace.write("networks", "192.0.2.0/24\n127.0.0.1\n");
    service.signal(Signal::SIGHUP);
    until("it", || service.ask("GET", "/health", &[], b"").status == 200);
    assert_eq!(asked_by("nonsense"), 403, "the proxy is on the list, who asks is not known");
    assert_eq!(asked_by("192.0.2.7, unix:"), 403);
    assert_eq!(asked_by("192.0.2.7"), 200);
    let told = "refused: the last hop of `X-Forwarded-For` is not an address";
    assert!(log(&workspace).iter().any(|line| line["message"] == told));
}

#[test]
fn rejected_connections_do_not_fill_the_log() {
    let workspace = bare_workspace();
    workspace.write("networks", "192.0.2.0/24\n");
    let service = Service::bare(&workspace, &["--allow-from", "networks"]);
    for _ in 0..100 {
        assert_eq!(service.ask("GET", "/health", &[], b"").status, 403);
    }
    let attempts: Vec<u64> = log(&workspace)
        .iter()
        .filter(|line| line["message"] == "refused: not on the list")
        .map(|line| line["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64]);
}

#[test]
fn without_a_proxy_forwarded_headers_are_ignored() {
    let workspace = bare_workspace();
    workspace.write("networks", "192.0.2.0/24\n");
    let service = Service::bare(&workspace, &["--allow-from", "networks"]);
    let headers = [("X-Forwarded-For", "192.0.2.7")];
    assert_eq!(service.ask("GET", "/health", &headers, b"").status, 403);
}
