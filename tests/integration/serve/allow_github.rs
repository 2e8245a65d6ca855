//! `--allow-github-actions`: the list of GitHub's meta API opens what it names, and nothing that goes wrong with it opens more.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use serde_json::json;

use super::service::{Service, bare_workspace, log};
use crate::support::{Workspace, until};

/// GitHub's meta API: what it answers, and the tags that it was asked with.
#[derive(Clone)]
struct Meta {
    url: String,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl Meta {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let meta = Self { url, answer: Arc::new(Mutex::new((500, String::new()))), asked: Arc::default() };
        let of_thread = meta.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                assert!(head[0].starts_with("GET /meta "), "{head:?}");
                let tag =
                    head.iter().find_map(|line| line.strip_prefix("if-none-match: ")).map(str::to_owned);
                let (mut status, mut body) = of_thread.answer.lock().unwrap().clone();
                if tag.as_deref() == Some(&etag(&body)) && status == 200 {
                    (status, body) = (304, String::new());
                }
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} Said\r\nETag: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    etag(&body),
                    body.len()
                );
                of_thread.asked.lock().unwrap().push(tag);
            }
        });
        meta
    }

    fn says(&self, status: u16, body: &str) {
        *self.answer.lock().unwrap() = (status, body.to_owned());
    }

    fn lists(&self, networks: &[&str]) {
        self.says(200, &json!({"hooks": ["192.0.2.0/24"], "actions": networks}).to_string());
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// Lets the service refresh its list, and waits until it has asked.
    fn refresh(&self, service: &Service) {
        let before = self.count();
        service.signal(Signal::SIGHUP);
        until("the question", || self.count() > before);
    }
}

fn etag(body: &str) -> String {
    format!("\"{}\"", body.len())
}

fn start(workspace: &Workspace, meta: &Meta, more: &[&str]) -> Service {
    let args = [&["--allow-github-actions", "--github-api-url", &meta.url], more].concat();
    Service::bare(workspace, &args)
}

fn health(service: &Service) -> u16 {
    service.ask("GET", "/health", &[], b"").status
}

fn problems(workspace: &Workspace) -> Vec<String> {
    let lines = log(workspace).into_iter().filter(|line| line["level"] == "error");
    lines.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_last_good_list_stays_whatever_github_answers() {
    let (workspace, meta) = (bare_workspace(), Meta::start());
    // Without a list no address may connect, instead of all.
    let service = start(&workspace, &meta, &[]);
    assert_eq!(health(&service), 403);
    meta.lists(&["127.0.0.0/8", "2001:db8::/32"]);
    meta.refresh(&service);
    until("access", || health(&service) == 200);
    // The same list is not sent again.
    meta.refresh(&service);
    assert!(meta.asked.lock().unwrap().last().unwrap().is_some(), "it is asked by its tag");
    let large = "x".repeat(5 << 20);
    let bad: [(u16, &str); 7] = [
        (503, "down"),
        (200, "no JSON"),
        (200, r#"{"hooks": []}"#),
        (200, r#"{"actions": []}"#),
        (200, r#"{"actions": ["127.0.0.0/8", "0.0.0.0/0"]}"#),
        (200, r#"{"actions": ["127.0.0.0/8", 7]}"#),
        (200, &large),
    ];
    let before = problems(&workspace).len();
    for (index, (status, body)) in bad.into_iter().enumerate() {
        meta.says(status, body);
        meta.refresh(&service);
        until("the problem in the log", || problems(&workspace).len() == before + index + 1);
        assert_eq!(health(&service), 200);
    }
    insta::assert_snapshot!(problems(&workspace).join("\n"), @r"
    the networks of GitHub Actions are unknown; none is allowed: GitHub returned 500
    keeping the last good networks of GitHub Actions: GitHub returned 503
    keeping the last good networks of GitHub Actions: the response is not JSON
    keeping the last good networks of GitHub Actions: the response has no list `actions`
    keeping the last good networks of GitHub Actions: the list `actions` is empty
    keeping the last good networks of GitHub Actions: `0.0.0.0/0` is too wide to be a GitHub network
    keeping the last good networks of GitHub Actions: `` is not a network: no address
    keeping the last good networks of GitHub Actions: the response is larger than 4 MiB
    ");
    // A restart keeps it as well.
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    meta.says(500, "");
    let service = start(&workspace, &meta, &[]);
    assert_eq!(health(&service), 200);
    // A network that GitHub gives up is closed.
    meta.lists(&["198.51.100.0/24"]);
    meta.refresh(&service);
    until("no access", || health(&service) == 403);
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
    // A damaged list, or another server's, is ignored.
    meta.says(500, "");
    let kept = workspace.read("state/github-networks.json");
    workspace.write("state/github-networks.json", kept.replace("198.51.100.0/24", "127.0.0.0/8"));
    let service = start(&workspace, &meta, &[]);
    assert_eq!(health(&service), 403);
}

#[test]
fn networks_of_the_operator_are_allowed_beside_those_of_github() {
    let (workspace, meta) = (bare_workspace(), Meta::start());
    workspace.write("networks", "127.0.0.0/8\n");
    let service = start(&workspace, &meta, &["--allow-from", "networks"]);
    assert_eq!(health(&service), 200, "GitHub is down, and the operator's own networks are open");
}
