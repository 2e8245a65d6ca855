//! One service job at a time: a second request gets a busy response without waiting for git.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http;
use super::service::{OURS, Service, bearer, job_headers};
use crate::evaluate::stage::{SKILL, Stage, git};
use crate::support::until;

/// A git server that accepts connections and does not respond until it is closed.
struct Blocked {
    listener: TcpListener,
}

impl Blocked {
    fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}/meadow/skills.git", self.listener.local_addr().unwrap())
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn one_of_200_concurrent_requests_is_accepted_and_the_others_do_not_wait_for_git() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let blocked = Blocked::new();
    git(&stage.workspace.path("library"), &["remote", "set-url", "origin", &blocked.url()]);
    let service = Service::start(&stage, &["--no-publish"]);
    let body = json!({"skill_name": SKILL}).to_string();
    let token = bearer(OURS);
    let request = http::request("POST", "/evaluate", &job_headers(&token), body.as_bytes());

    let (sender, answers) = std::sync::mpsc::channel();
    for _ in 0..200 {
        let (sender, address, request) = (sender.clone(), service.address.clone(), request.clone());
        std::thread::spawn(move || {
            let started = Instant::now();
            let answer = http::send(&address, &request);
            let _ = sender.send((answer, started.elapsed()));
        });
    }
    let refused: Vec<_> = (0..199).map(|_| answers.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    let slowest = refused.iter().map(|(_, took)| *took).max().unwrap();
    for (answer, _) in &refused {
        let body = answer.as_ref().expect("an answer").expect(409);
        let started_at = &body["current_job"]["started_at"];
        assert!(started_at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        // This, and nothing else.
        assert_eq!(body, json!({"busy": true, "current_job": {"skill": SKILL, "started_at": started_at}}));
    }
    println!("199 of 200 orders were answered 409, the slowest after {slowest:?}, while git was blocked");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert!(answers.try_recv().is_err(), "the one with the place still waits for git");
    assert!(service.is_busy());

    // Git is released: the request fails, and the service is free again.
    drop(blocked);
    let (answer, _) = answers.recv_timeout(Duration::from_mins(2)).unwrap();
    let reason = answer.unwrap().expect(503)["error"].as_str().unwrap().to_owned();
    assert!(reason.contains("meadow/skills.git"), "{reason}");
    until("it", || !service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
}

#[test]
fn disconnecting_before_git_responds_cancels_the_request() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let blocked = Blocked::new();
    git(&stage.workspace.path("library"), &["remote", "set-url", "origin", &blocked.url()]);
    let service = Service::start(&stage, &["--no-publish"]);
    let body = json!({"skill_name": SKILL}).to_string();
    let request = http::request("POST", "/evaluate", &job_headers(&bearer(OURS)), body.as_bytes());
    let mut stream = std::net::TcpStream::connect(&service.address).unwrap();
    std::io::Write::write_all(&mut stream, &request).unwrap();
    until("it", || service.is_busy());
    drop(stream);
    drop(blocked);
    until("it", || !service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
    assert_eq!(llm.counter("requests"), 0);
}
