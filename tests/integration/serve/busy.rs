//! One job at a time: whoever comes second hears so, and does not wait for git.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http;
use super::service::{OURS, Service, bearer, order_headers, wait_for};
use crate::evaluate::stage::{SKILL, Stage, git};

/// A git server that takes connections and never answers, until it is told to close them.
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
fn of_200_orders_at_once_one_gets_the_place_and_the_others_do_not_wait_for_git() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let blocked = Blocked::new();
    git(&stage.workspace.path("library"), &["remote", "set-url", "origin", &blocked.url()]);
    let service = Service::start(&stage, &["--no-publish"]);
    let body = json!({"skill_name": SKILL}).to_string();
    let token = bearer(OURS);
    let request = http::request("POST", "/evaluate", &order_headers(&token), body.as_bytes());

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
        assert_eq!((&body["busy"], &body["current_job"]["skill"]), (&json!(true), &json!(SKILL)));
        assert!(body["current_job"]["started_at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    }
    println!("199 of 200 orders were answered 409, the slowest after {slowest:?}, while git was blocked");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert!(answers.try_recv().is_err(), "the one with the place still waits for git");
    assert!(service.is_busy());

    // Git is let go: the order is refused, and the place is free.
    drop(blocked);
    let (answer, _) = answers.recv_timeout(Duration::from_mins(2)).unwrap();
    let reason = answer.unwrap().expect(503)["error"].as_str().unwrap().to_owned();
    assert!(reason.contains("meadow/skills.git"), "{reason}");
    wait_for(|| !service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
}

#[test]
fn whoever_goes_away_before_git_has_answered_starts_nothing() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let blocked = Blocked::new();
    git(&stage.workspace.path("library"), &["remote", "set-url", "origin", &blocked.url()]);
    let service = Service::start(&stage, &["--no-publish"]);
    let body = json!({"skill_name": SKILL}).to_string();
    let request = http::request("POST", "/evaluate", &order_headers(&bearer(OURS)), body.as_bytes());
    let mut stream = std::net::TcpStream::connect(&service.address).unwrap();
    std::io::Write::write_all(&mut stream, &request).unwrap();
    wait_for(|| service.is_busy());
    drop(stream);
    drop(blocked);
    wait_for(|| !service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
    assert_eq!(llm.counter("requests"), 0);
}
