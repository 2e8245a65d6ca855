//! Signing in, session lifetime, and signing out.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::scene::{Scene, TOKEN};
use crate::support::until;

const SCREENS: [&str; 7] = [
    "/studio/benchmarks",
    "/studio/jobs",
    "/studio/jobs/job-1",
    "/studio/leaderboard",
    "/studio/runs",
    "/studio/runs/0~a",
    "/studio/nothing",
];

#[test]
fn every_screen_requires_sign_in_and_redirects_back() {
    let (scene, studio) = start();
    let stranger = studio.stranger();
    for path in SCREENS {
        let answer = stranger.get(path).expect(303);
        let next = path.replace('/', "%2F");
        assert_eq!(answer.header("location").unwrap(), format!("/studio/login?next={next}"));
    }
    for path in ["/studio/live/benchmarks", "/studio/live/jobs"] {
        assert_eq!(stranger.get(path).expect(401).body, r#"{"error":"signed out"}"#);
    }
    assert_eq!(stranger.get("/").expect(303).header("location"), Some("/studio"));
    let page = stranger.get("/studio/login?next=%2Fstudio%2Fjobs").expect(200);
    assert!(page.body.contains(r#"name="next" value="/studio/jobs""#), "{}", page.body);
    let answer =
        stranger.post("/studio/login", &[], &[("token", TOKEN), ("next", "/studio/jobs")]).expect(303);
    assert_eq!(answer.header("location"), Some("/studio/jobs"));
    for next in
        ["//evil.example/", "https://evil.example/studio/", "/studio\\..\\x", "javascript:alert(1)", ""]
    {
        let answer = stranger.post("/studio/login", &[], &[("token", TOKEN), ("next", next)]).expect(303);
        assert_eq!(answer.header("location"), Some("/studio/benchmarks"), "{next}");
    }
    drop(scene);
}

#[test]
fn the_cookie_is_only_for_the_studio() {
    let (_scene, studio) = start();
    let answer = studio.stranger().sign_in(TOKEN).expect(303);
    let cookie = answer.header("set-cookie").unwrap();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert!(value.starts_with("run-evals=") && !value.contains(TOKEN), "{value}");
    assert_eq!(attributes, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    let visitor = studio.visitor();
    visitor.get("/studio/jobs").expect(200);
    // It opens the studio, not the API.
    visitor.get("/jobs").expect(401);
}

#[test]
fn with_tls_the_cookie_is_secure() {
    let scene = Scene::new();
    let studio = scene.start(&["--behind-proxy"]);
    let answer = studio.stranger().sign_in(TOKEN).expect(303);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-run-evals="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
}

#[test]
fn wrong_tokens_are_throttled_and_never_echoed() {
    let (scene, studio) = start();
    let wrong = "deadbeefdeadbeefdeadbeefdeadbeef";
    let mut times = Vec::new();
    for _ in 0..4 {
        let begin = Instant::now();
        let answer = studio.stranger().sign_in(wrong).expect(401);
        times.push(begin.elapsed().as_millis());
        assert!(answer.body.contains("This token is not valid."), "{}", answer.body);
        assert!(!answer.body.contains(wrong) && answer.header("set-cookie").is_none());
    }
    // 100 and 800 ms, times the clock factor of the tests.
    assert!(times[0] >= 5 && times[3] >= 40, "{times:?}");
    let log: String = std::fs::read_dir(scene.workspace.path("state/log"))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(log.contains("refused: wrong token"), "{log}");
    for text in [log, studio.stderr()] {
        assert!(!text.contains(wrong) && !text.contains(TOKEN), "{text}");
    }
}

#[test]
fn signing_out_invalidates_every_copy_of_the_cookie() {
    let (_scene, studio) = start();
    let (visitor, other) = (studio.visitor(), studio.visitor());
    let copy = visitor.clone();
    let answer = visitor.press("/studio/logout").expect(303);
    assert_eq!(answer.header("location"), Some("/studio/login"));
    assert!(
        answer.header("set-cookie").unwrap().starts_with("run-evals=; Path=/; Max-Age=0;"),
        "{}",
        answer.head
    );
    copy.get("/studio/jobs").expect(303);
    other.get("/studio/jobs").expect(200);
}

#[test]
fn a_session_ends_with_its_token() {
    let (scene, studio) = start();
    let visitor = studio.visitor();
    let fresh = "0123456789abcdef0123456789abcdef";
    let reload = |text: &str| {
        scene.write_tokens(text);
        studio.signal(Signal::SIGHUP);
    };
    // Adding a second token does not affect existing sessions.
    reload(&format!("{fresh}\n{TOKEN}\n"));
    until("the new token opens", || studio.stranger().sign_in(fresh).status == 303);
    visitor.get("/studio/jobs").expect(200);
    reload(fresh);
    until("the session is over", || visitor.get("/studio/jobs").status == 303);
}

/// Removing a token ends its sessions, and no others.
#[test]
fn a_session_is_independent_of_other_tokens() {
    let other = "0123456789abcdef0123456789abcdef";
    for (gone, left) in [(TOKEN, other), (other, TOKEN)] {
        let scene = Scene::new();
        scene.write_tokens(&format!("{TOKEN}\n{other}\n"));
        let studio = scene.start(&[]);
        let visitors = [gone, left].map(|token| {
            let mut visitor = studio.stranger();
            visitor.sign_in(token).expect(303);
            visitor.get("/studio/jobs").expect(200);
            visitor
        });
        scene.write_tokens(left);
        studio.signal(Signal::SIGHUP);
        let [out, still_in] = visitors;
        until("the token is gone", || studio.stranger().sign_in(gone).status == 401);
        out.get("/studio/jobs").expect(303);
        still_in.get("/studio/jobs").expect(200);
    }
}

#[test]
fn a_trace_token_opens_no_page() {
    let scene = Scene::new();
    let theirs = "0123456789abcdef0123456789abcdef";
    scene.write_tokens(theirs);
    std::fs::rename(scene.workspace.path("tokens"), scene.workspace.path("more")).unwrap();
    scene.write_tokens(TOKEN);
    scene.workspace.write_target("http://127.0.0.1:9/v1", "");
    let more = ["--traces", "traces", "--trace-upstream", "llm", "--traces-token-file", "more"];
    let studio = scene.start(&more);
    studio.stranger().sign_in(theirs).expect(401);
    let mut visitor = studio.stranger();
    visitor.sign_in(TOKEN).expect(303);
    visitor.get("/studio/jobs").expect(200);
}

fn start() -> (Scene, super::scene::Studio) {
    let scene = Scene::new();
    let studio = scene.start(&[]);
    (scene, studio)
}
