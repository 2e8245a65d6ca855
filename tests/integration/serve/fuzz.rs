//! Any input: no 5xx, no panic, and a documented response.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::http;
use super::openapi::Description;
use super::service::{OURS, Service, bare_workspace, bearer, log};
use crate::support::until;

/// How many requests of each kind are sent.
const CASES: u32 = 400;

fn method() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"]).prop_map(str::to_owned),
        1 => "[A-Z]{1,10}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["/evaluate", "/jobs", "/health", "/jobs/x", "/"]).prop_map(str::to_owned),
        // A fragment after `#` is not part of a request.
        1 => "/jobs/[!-\"$-~]{1,40}",
        1 => "/[a-z%0-9/._?=&-]{0,60}",
        1 => "/jobs/(%[0-9a-fA-F]{2}){1,20}",
    ]
}

fn header() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "Authorization",
            "Content-Type",
            "X-Forwarded-For",
            "Accept",
            "Cookie",
            "Expect"
        ])
        .prop_map(str::to_owned),
        "[A-Za-z][A-Za-z0-9-]{0,20}",
    ];
    // Other framing is covered by another test.
    let name = name.prop_filter("not the framing", |name| {
        !["content-length", "transfer-encoding", "connection", "host", "upgrade", "te"]
            .contains(&name.to_ascii_lowercase().as_str())
    });
    (name, "[ -~]{0,60}")
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "\\PC{0,30}".prop_map(Into::into),
        prop::sample::select(vec!["../x", "--upload-pack=x", "a\0b", "HEAD", "\u{202e}"])
            .prop_map(Into::into),
    ];
    let key = prop_oneof![
        prop::sample::select(vec!["skill_name", "replicates", "git_sha"]).prop_map(str::to_owned),
        "\\PC{0,10}",
    ];
    leaf.prop_recursive(4, 32, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        json().prop_map(|value| value.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..300),
        Just(vec![b'['; 5_000]),
        Just(Vec::new()),
    ]
}

fn run<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    // Failures are reproducible.
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Config::default()
    };
    TestRunner::new(config).run(strategy, test).unwrap();
}

/// Checks that nothing failed inside, and that the service is alive and idle.
fn is_well(service: &Service, workspace: &crate::support::Workspace) {
    assert_eq!(service.get("/jobs").expect(200)["jobs"], serde_json::json!([]));
    until("it", || !service.is_busy());
    let panics: Vec<_> = log(workspace)
        .into_iter()
        .filter(|line| line["message"].as_str().is_some_and(|message| message.contains("panic")))
        .collect();
    assert!(panics.is_empty(), "{panics:?}");
}

#[test]
fn any_method_path_header_and_body() {
    let (workspace, description) = (bare_workspace(), Description::read());
    // With the studio, whose paths the API description omits, and without it.
    let (service, page_workspace) = (Service::bare(&workspace, &["--no-studio"]), bare_workspace());
    let with_page = Service::bare(&page_workspace, &[]);
    let token = bearer(OURS);
    let strategy = (method(), path(), prop::collection::vec(header(), 0..4), body());
    run(CASES, &strategy, |(method, path, headers, body)| {
        let mut all = vec![("Authorization", token.as_str()), ("Content-Type", "application/json")];
        all.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        // Two tokens count as none; that way would only measure throttling.
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|(name, _)| seen.insert(name.to_ascii_lowercase()));
        let request = http::request(&method, &path, &all, &body);
        let ask = |service: &Service| {
            http::send(&service.address, &request).ok_or_else(|| TestCaseError::fail("no answer"))
        };
        let (answer, page) = (ask(&service)?, ask(&with_page)?);
        for answer in [&answer, &page] {
            prop_assert!(answer.status < 500 || answer.status == 503, "{answer:?}");
        }
        if !answer.body.is_empty() && answer.header("content-type").is_some() {
            let problems = description.problems(&method, &path, &answer);
            prop_assert!(problems.is_empty(), "{problems:?}: {answer:?}");
        }
        Ok(())
    });
    is_well(&service, &workspace);
    is_well(&with_page, &page_workspace);
}

#[test]
fn any_job_request() {
    let (workspace, description) = (bare_workspace(), Description::read());
    let service = Service::bare(&workspace, &[]);
    run(CASES, &json(), |value| {
        let answer = service.submit(&value);
        prop_assert!(![500, 502, 504].contains(&answer.status), "{answer:?}");
        prop_assert!(answer.status >= 400, "nothing of this is an order: {answer:?}");
        let problems = description.problems("POST", "/evaluate", &answer);
        prop_assert!(problems.is_empty(), "{problems:?}: {answer:?}");
        Ok(())
    });
    is_well(&service, &workspace);
}

#[test]
fn any_bytes() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let piece = prop_oneof![
        prop::sample::select(vec![
            "GET ",
            "POST ",
            "/health",
            " HTTP/1.1",
            " HTTP/9.9",
            "\r\n",
            "\r\n\r\n",
            "Host: x\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Transfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
            "PRI * HTTP/2.0",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    run(CASES, &prop::collection::vec(piece, 1..12), |pieces| {
        let mut stream = std::net::TcpStream::connect(&service.address).unwrap();
        std::io::Write::write_all(&mut stream, &pieces.concat()).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).ok();
        if let Some(answer) = http::parse(&answer) {
            prop_assert!(answer.status < 500, "{answer:?}");
        }
        Ok(())
    });
    is_well(&service, &workspace);
}
