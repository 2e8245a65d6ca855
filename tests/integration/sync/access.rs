//! Over smart HTTP, from a server that requires authentication.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::Bench;
use crate::support::Workspace;
use crate::support::github::{Fault, MockGithub, NewRepo, What, Wrong};

const SECRET: &str = "github_pat_benchmarks_0001";

struct Private {
    github: MockGithub,
    bench: Bench,
}

/// A private repository, and a benchmark that comes from it.
fn private(env: impl Fn(Workspace, &MockGithub) -> Workspace) -> Private {
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "o/bench".into(), private: true, ..NewRepo::default() });
    github.token(SECRET, "reader", "o/bench", &[("contents", "read")]);
    github.put_file("o/bench", "README.md", "one\n");
    github.put_file("o/bench", "cases/a.yaml", "a: 1\n");
    let workspace = env(Workspace::new(), &github);
    let bench = Bench { workspace };
    bench.register(&format!("url: {}/o/bench.git, ref: main", github.urls().server_url));
    Private { github, bench }
}

impl Private {
    /// Checks that the clone has what the server has.
    fn check(&self) {
        let seen = self.bench.seen();
        assert_eq!(seen.head, self.github.git("o/bench", &["rev-parse", "main"]));
        assert_eq!((seen.branch.as_str(), seen.status.as_str()), ("main", ""));
        let listed = self.github.git("o/bench", &["ls-tree", "-r", "--name-only", "main"]);
        let names: Vec<String> = seen.files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, listed.lines().collect::<Vec<_>>());
        for (name, (_, content)) in &seen.files {
            let there = self.github.git("o/bench", &["show", &format!("main:{}", name.display())]);
            assert_eq!(String::from_utf8_lossy(content).trim(), there.trim());
        }
    }

    /// Checks that the token is in no file and was not printed.
    fn check_secret(&self, printed: &str) {
        assert!(!printed.contains(SECRET), "{printed}");
        let encoded = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            format!("x-access-token:{SECRET}"),
        );
        for (path, content) in self.bench.workspace.tree() {
            let text = String::from_utf8_lossy(content.as_deref().unwrap_or_default()).into_owned();
            let is_own = path.ends_with(".gitconfig");
            assert!(is_own || !text.contains(SECRET) && !text.contains(&encoded), "{}", path.display());
        }
    }
}

#[test]
fn a_token_for_the_server_opens_its_repositories() {
    let private = private(|workspace, github| {
        workspace.env("GITHUB_SERVER_URL", &github.urls().server_url).env("GH_ENTERPRISE_TOKEN", SECRET)
    });
    let first = private.bench.sync(&["-vv"]).expect(0);
    private.check();
    private.github.put_file("o/bench", "cases/b.yaml", "b: 1\n");
    private.github.put_file("o/bench", "README.md", "two\n");
    let second = private.bench.sync(&["--format", "json"]).expect(0);
    private.check();
    let status = private.bench.workspace.run(&["sync", "--status"]).expect(0);
    private.check_secret(&[first.stderr, first.stdout, second.stderr, second.stdout, status.stdout].concat());
}

#[test]
fn gits_credential_helpers_are_used() {
    let private = private(|workspace, _| {
        let helper = format!(
            "[credential]\n\thelper = \"!f() {{ test \\\"$1\\\" = get && printf 'username=x\\\\npassword={SECRET}\\\\n'; }}; f\"\n"
        );
        workspace.write(".gitconfig", helper);
        workspace
    });
    let output = private.bench.sync(&[]).expect(0);
    private.check();
    private.check_secret(&output.stderr);
}

#[test]
fn without_a_valid_token_access_is_denied() {
    for token in [None, Some("github_pat_wrong_token")] {
        let private = private(|workspace, github| {
            let workspace = workspace.env("GITHUB_SERVER_URL", &github.urls().server_url);
            token.map_or(Workspace::new(), |token| workspace.env("GITHUB_ENTERPRISE_TOKEN", token))
        });
        let output = private.bench.sync(&[]).expect(1);
        let told = output.stderr.replace(&private.github.urls().server_url, "[server]");
        insta::allow_duplicates! {
            insta::assert_snapshot!(told.trim_end(), @r"
            error: one: `[server]/o/bench.git` refused access

            hint: give git a credential helper for this host (`gh auth setup-git`, `git config --global credential.helper …`); for GitHub, set `GITHUB_TOKEN` to a token that may read it (`Contents: read`)
            ");
        }
        assert!(!private.bench.clone().exists());
    }
}

#[test]
fn a_missing_repository_and_an_unreachable_server() {
    let private = private(|workspace, github| {
        workspace.env("GITHUB_SERVER_URL", &github.urls().server_url).env("GH_ENTERPRISE_TOKEN", SECRET)
    });
    private.bench.sync(&[]).expect(0);
    private.github.token("github_pat_other_0002", "other", "o/other", &[("contents", "read")]);
    let before = super::whole(&private.bench.clone());
    private.bench.register(&format!("url: {}/o/nothing, ref: main", private.github.urls().server_url));
    let told = private
        .bench
        .sync(&["--reset"])
        .expect(1)
        .stderr
        .replace(&private.github.urls().server_url, "[server]");
    assert!(
        told.contains("no repository found at `[server]/o/nothing`, or not accessible with this token"),
        "{told}"
    );
    // A port without a server.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    private.bench.register(&format!("url: 'http://127.0.0.1:{port}/o/bench', ref: main"));
    let told = private.bench.sync(&["--reset"]).expect(1).stderr;
    assert!(told.contains("cannot be reached: fatal: unable to access"), "{told}");
    assert!(told.contains("hint: run-evals sync one"), "{told}");
    assert_eq!(super::whole(&private.bench.clone()), before);
}

#[test]
fn the_token_is_sent_to_no_other_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        String::from_utf8(head).unwrap()
    });
    let bench = Bench {
        workspace: Workspace::new()
            .env("GITHUB_TOKEN", SECRET)
            .env("GH_ENTERPRISE_TOKEN", SECRET)
            .env("INPUT_TOKEN", SECRET)
            .env("GITHUB_SERVER_URL", "https://github.example.com"),
    };
    bench.register(&format!("url: 'http://{address}/github.com/o/r', ref: main"));
    bench.sync(&[]).expect(1);
    let head = heard.join().unwrap();
    assert!(
        head.starts_with("GET /github.com/o/r/info/refs") && !head.to_lowercase().contains("authorization"),
        "{head}"
    );
}

#[test]
fn one_failed_response_does_not_end_a_sync() {
    let limit = |status| Wrong::Status { status, body: "slow down".to_owned(), headers: BTreeMap::new() };
    let faults: [fn() -> Wrong; 3] = [
        || Wrong::Dropped,
        || Wrong::Torn,
        || Wrong::Status { status: 502, body: "<html></html>".to_owned(), headers: BTreeMap::new() },
    ];
    let mut answers: Vec<Wrong> = faults.iter().map(|fault| fault()).collect();
    answers.extend([403, 429].map(limit));
    for answer in answers {
        for position in 0.. {
            let private = private(|workspace, github| {
                workspace
                    .env("GITHUB_SERVER_URL", &github.urls().server_url)
                    .env("GH_ENTERPRISE_TOKEN", SECRET)
            });
            let what = What::AnyAnswer { after: false, answer: answer.clone() };
            let fault = private.github.add_fault(&Fault { what, times: Some(1), skip: position });
            private.bench.sync(&[]).expect(0);
            private.check();
            let struck = private.github.struck(fault);
            private.github.forget_violations();
            if struck == 0 {
                assert!(position > 1, "no request failed");
                break;
            }
        }
    }
}

#[test]
fn a_refusal_without_a_reason_may_be_a_rate_limit() {
    let private = private(|workspace, github| {
        workspace.env("GITHUB_SERVER_URL", &github.urls().server_url).env("GH_ENTERPRISE_TOKEN", SECRET)
    });
    let answer = Wrong::Status { status: 403, body: "slow down".to_owned(), headers: BTreeMap::new() };
    let what = What::AnyAnswer { after: false, answer };
    private.github.add_fault(&Fault { what, times: None, skip: 0 });
    let printed = private.bench.sync(&[]).expect(1);
    private.github.forget_violations();
    let printed = format!("{}{}", printed.stdout, printed.stderr);
    assert!(printed.contains("refused without a reason"), "{printed}");
    assert!(printed.contains("it may be a rate limit"), "{printed}");
    assert!(!printed.contains("does not let us in"), "{printed}");
}
