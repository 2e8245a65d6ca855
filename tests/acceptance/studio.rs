//! The studio in a real browser: signing in, watching a sync, charts that show the file, other sites without
//! access, and accessibility.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::evaluate::stage::{SKILL, Stage};
use crate::studio_scene::{Scene, Studio, TOKEN, job};
use crate::support::{Came, Results};

const SCREENS: [(&str, &str); 8] = [
    ("benchmarks", "/studio/benchmarks"),
    ("jobs", "/studio/jobs"),
    ("job", "/studio/jobs/job-20261117t120001z-00000001"),
    ("job-failed", "/studio/jobs/job-20261117t120002z-00000002"),
    ("leaderboard", "/studio/leaderboard"),
    ("leaderboard-skill", "/studio/leaderboard?skill=letters"),
    ("runs", "/studio/runs"),
    ("missing", "/studio/nothing"),
];

/// Benchmarks of every kind, jobs, runs and a leaderboard.
fn scene() -> (Scene, Value) {
    let scene = Scene::new();
    for name in ["refunds", "contracts"] {
        scene.upstream(name);
    }
    scene.registry(&[
        ("refunds", "Refund decisions", true),
        ("contracts", "Contract clauses", true),
        ("notes", "Notes <b>&", false),
    ]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let board = scene.leaderboard(
        &names(&["invoices", "letters"]),
        &names(&["meadow/quill-large", "meadow/quill-small", "harbor/anchor"]),
        7,
    );
    let models = json!([{"model": "meadow/quill-large", "accuracy": 0.9, "interval": [0.85, 0.94], "reproducibility": 0.8, "schema_valid": 1.0}]);
    scene.jobs(&[
        job(1, "letters", &json!({"state": "completed", "summary": {"models": models}, "pull_request": "https://github.com/o/r/pull/4", "warnings": ["`meadow/quill-retired` is not served"]})),
        job(2, "invoices", &json!({"state": "failed", "reason": "`components/invoices/prompt.md` has no `## Prompt`\nhint: the text for the model stands under that heading"})),
        job(3, "letters", &json!({"state": "running", "progress": {"done": 3, "total": 12}})),
    ]);
    let evil = "<script>document.title = 'obeyed'; alert(1)</script><img src=x onerror=alert(1)>";
    Results::new("planets")
        .test("mars", &[Came::To(1.0, evil)])
        .test("venus", &[Came::To(0.0, "hot")])
        .write(&scene.workspace, "runs/nightly");
    (scene, board)
}

fn sign_in(browser: &Browser, studio: &Studio) {
    browser.visit(&format!("http://{}/studio/benchmarks", studio.address));
    browser.until("return document.activeElement.id === 'token'");
    browser.press(&format!("{TOKEN}\u{e007}"));
    browser.until("return location.pathname === '/studio/benchmarks' && document.readyState === 'complete'");
}

fn text(browser: &Browser, selector: &str) -> String {
    let script = format!("return document.querySelector({selector:?}).innerText");
    browser.script(&script).as_str().unwrap().to_owned()
}

#[test]
fn a_sync_is_started_and_watched_to_its_end() {
    let (scene, _) = scene();
    let studio = scene.start(&[]);
    let browser = Browser::start();
    browser.look(1280, "light");

    // A wrong token first.
    browser.visit(&format!("http://{}/studio/benchmarks", studio.address));
    browser.press("deadbeefdeadbeefdeadbeefdeadbeef\u{e007}");
    browser.until("return !!document.querySelector('[role=alert]')");
    assert_eq!(text(&browser, "[role=alert]"), "This token is not valid.");
    let refusal = browser.console();
    assert!(refusal.iter().all(|line| line.contains("401")), "{refusal:?}");
    browser.press(&format!("{TOKEN}\u{e007}"));
    browser.until("return location.pathname === '/studio/benchmarks'");
    assert_eq!(browser.script("return document.cookie"), "", "a script sees no cookie");

    let card = "[data-row=refunds]";
    browser.until("return document.querySelector('[data-row=refunds] .badge').textContent === 'Out of sync'");
    assert_eq!(browser.script("return document.querySelectorAll('form[data-press]').length"), 2);
    // While another process holds the lock of the clone, a sync waits: there is something to watch.
    std::fs::create_dir_all(scene.workspace.path("benchmarks")).unwrap();
    let lock = std::fs::File::create(scene.workspace.path("benchmarks/.refunds.sync.lock")).unwrap();
    lock.lock().unwrap();
    browser.script("document.querySelector('[data-row=refunds] button').focus()");
    browser.press("\u{e007}");
    browser.until("return document.querySelector('[data-row=refunds] .badge').textContent === 'Syncing'");
    browser.until(
        "return document.querySelector('[data-row=refunds] [data-field=step]').textContent === 'Waiting'",
    );
    assert_eq!(
        browser.script("return document.querySelector('[data-row=refunds] progress').checkVisibility()"),
        true
    );
    assert_eq!(
        browser.script("return document.activeElement.getAttribute('aria-disabled')"),
        "true",
        "the focus stays on the button"
    );
    browser.until("return document.getElementById('said').textContent === 'Refund decisions: Syncing'");
    drop(lock);
    browser.until("return document.querySelector('[data-row=refunds] .badge').textContent === 'Synced'");
    let first = head(&scene, "refunds");
    assert_eq!(text(&browser, &format!("{card} [data-field=commit]")), first[..12]);
    browser.until("return document.getElementById('said').textContent === 'Refund decisions: Synced'");

    let second = scene.commit("refunds", "second");
    browser.click("[data-row=refunds] button");
    browser.until(&format!(
        "return document.querySelector('[data-row=refunds] [data-field=commit]').textContent === '{}'",
        &second[..12]
    ));
    browser.until("return document.querySelector('[data-row=refunds] .badge').textContent === 'Synced'");
    assert!(text(&browser, &format!("{card} [data-field=done]")).starts_with(&format!(
        "Updated from {} to {}",
        &first[..7],
        &second[..7]
    )));
    assert_eq!(scene.workspace.read("benchmarks/refunds/EVAL.yaml"), "second");

    // A failed sync shows the reason and the fix.
    scene.workspace.write("benchmarks/contracts/mine.txt", "no clone");
    browser.click("[data-row=contracts] button");
    browser.until(
        "return document.querySelector('[data-row=contracts] [data-field=failed]').textContent === 'Failed'",
    );
    let told = text(&browser, "[data-row=contracts] .problem");
    assert!(
        told.starts_with("Not synced: ")
            && told.contains("benchmarks/contracts")
            && told.contains("\nmv ")
            && told.contains("run-evals sync contracts --registry "),
        "{told}"
    );
    browser.until(
        "return document.getElementById('said').textContent.startsWith('Contract clauses: Unknown. ')",
    );
    assert_eq!(browser.console(), Vec::<String>::new());

    // A service that stops is reported, and found again.
    let address = studio.address.clone();
    drop(studio);
    browser.script("document.dispatchEvent(new Event('visibilitychange'))");
    browser.until(
        "return document.getElementById('lost').textContent === 'The service does not answer. Trying again.'",
    );
    let again = scene.start_at(&address, &[]);
    browser.until("return document.getElementById('lost').textContent === 'You are signed out. Reload to sign in again.'");
    sign_in(&browser, &again);
    browser.click("header form button");
    browser.until("return location.pathname === '/studio/login'");
}

fn head(scene: &Scene, name: &str) -> String {
    let dir = scene.workspace.path(&format!("benchmarks/{name}"));
    let output =
        std::process::Command::new("git").args(["rev-parse", "HEAD"]).current_dir(dir).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_job_appears_runs_and_ends_on_the_open_page() {
    let stage = Stage::new();
    let _llm = stage.gateway(&["--latency-ms", "150"]);
    stage.workspace.write_private("tokens", TOKEN);
    let api = stage.github.urls().api_url.clone();
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--auth-token-file",
        "tokens",
        "--state",
        "state",
        "--library",
        "library",
    ];
    let more = [
        "--datasets",
        "datasets",
        "--token-file",
        "token.txt",
        "--github-api-url",
        &api,
        "--max-concurrency",
        "2",
    ];
    let studio = Studio::spawn(&stage.workspace, &[&args[..], &more[..]].concat());
    let order = |replicates: u32| {
        let headers = [("Authorization", &*format!("Bearer {TOKEN}")), ("Content-Type", "application/json")];
        let body = json!({"skill_name": SKILL, "replicates": replicates}).to_string();
        let answer = studio.stranger().send("POST", "/evaluate", &headers, &body).expect(202);
        serde_json::from_str::<Value>(&answer.body).unwrap()["job_id"].as_str().unwrap().to_owned()
    };
    let browser = Browser::start();
    browser.look(1280, "light");
    sign_in(&browser, &studio);
    browser.visit(&format!("http://{}/studio/jobs", studio.address));
    assert!(text(&browser, ".empty").contains("request an evaluation"));
    let first = order(1);
    browser.visit(&format!("http://{}/studio/jobs", studio.address));
    let badge = |job: &str| format!("document.querySelector('[data-row=\"{job}\"] .badge')?.textContent");
    browser.until(&format!("return {} === 'Completed'", badge(&first)));

    // The second one appears by itself, and its progress moves.
    let second = order(4);
    browser.until(&format!("return {} === 'Running'", badge(&second)));
    assert_eq!(
        browser.script("return document.querySelector('.rows').firstElementChild.dataset.row"),
        second.as_str()
    );
    let done = format!(
        "Number(document.querySelector('[data-row=\"{second}\"] [data-field=step]').textContent.split(' of ')[0])"
    );
    browser.until(&format!("return {done} > 0"));
    let seen = browser.script(&format!("return {done}")).as_f64().unwrap();
    browser.until(&format!("return {done} > {seen}"));
    browser.click(&format!("[data-row=\"{second}\"] a"));
    browser.until("return document.querySelector('h1')?.innerText === 'grant-letter-extraction' && !!document.querySelector('.going:not([hidden]) progress')");
    let over = || {
        let headers = [("Authorization", &*format!("Bearer {TOKEN}"))];
        let answer = studio.stranger().send("GET", &format!("/jobs/{second}"), &headers, "").expect(200);
        let job: Value = serde_json::from_str(&answer.body).unwrap();
        assert_ne!(job["state"], "failed", "{job:#}");
        job["state"] == "completed"
    };
    let start = Instant::now();
    while !over() {
        assert!(start.elapsed() < Duration::from_mins(5), "the job does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    browser.until("return document.querySelector('.badge').textContent === 'Completed' && !!document.getElementById('outcome')");
    let told = text(&browser, "main");
    assert!(told.contains("meadow/quill-large") && told.contains("Pull request: http"), "{told}");
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn everything_works_without_javascript() {
    let (scene, _) = scene();
    let studio = scene.start(&[]);
    let browser = Browser::start();
    browser.without_scripts();
    browser.visit(&format!("http://{}/studio/benchmarks", studio.address));
    browser.click("#token");
    browser.press(&format!("{TOKEN}\u{e007}"));
    browser.until_shown("[data-row=refunds] button");
    browser.click("[data-row=refunds] button");
    let start = Instant::now();
    while browser.text("[data-row=refunds] .badge") != "Synced" {
        assert!(start.elapsed() < Duration::from_mins(1), "{}", browser.text("[data-row=refunds]"));
        browser.visit(&format!("http://{}/studio/benchmarks", studio.address));
    }
    assert_eq!(browser.text("[data-row=refunds] [data-field=commit]"), head(&scene, "refunds")[..12]);
    browser.visit(&format!("http://{}/studio/leaderboard", studio.address));
    browser.click(".matrix tbody th a");
    browser.until_shown("#over-time svg");
}

#[test]
fn another_site_has_no_effect() {
    let (scene, _) = scene();
    let studio = scene.start(&[]);
    let browser = Browser::start();
    sign_in(&browser, &studio);
    let csrf =
        browser.script("return document.querySelector('[name=csrf]').value").as_str().unwrap().to_owned();
    // Even with the token of the form, which it cannot know, a page of another origin has no effect: another port is another
    // origin, another name of this machine even another site.
    for host in ["127.0.0.1", "localhost"] {
        let evil = evil_site(&studio.address, &csrf);
        browser.visit(&format!("http://{host}:{}/", evil.port()));
        browser.until("return document.readyState === 'complete' && !!document.forms[0]");
        assert!(browser.script("return document.title") == "evil");
        let read = browser.script_async(&format!(
            "const done = arguments[0]; fetch('http://{}/studio/benchmarks', {{credentials: 'include'}}).then(() => done('read'), () => done('refused'))",
            studio.address
        ));
        assert_eq!(read, "refused", "{host}");
        browser.script("document.forms[0].submit()");
        browser.until("return location.pathname !== '/' && document.readyState === 'complete'");
        let seen =
            browser.script("return location.pathname + ' ' + document.title").as_str().unwrap().to_owned();
        let refused = [
            "/studio/benchmarks/refunds/sync Refused · run-evals studio",
            "/studio/login Sign in · run-evals studio",
        ];
        assert!(refused.contains(&seen.as_str()), "{host}: {seen}");
    }
    assert!(!scene.workspace.path("benchmarks/refunds").exists(), "a forged form has synced");
    // It cannot embed the page in a frame, either.
    browser.visit(&format!("http://{}/studio/benchmarks", studio.address));
    browser.until("return !!document.querySelector('[data-row=refunds]')");
}

/// A site with a form that posts to the service.
fn evil_site(target: &str, csrf: &str) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = format!(
        "<!doctype html><title>evil</title><link rel=icon href=data:,><form method=post action=\"http://{target}/studio/benchmarks/refunds/sync\"><input name=csrf value=\"{csrf}\"></form>"
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}

#[test]
fn the_charts_show_the_values_of_the_file() {
    let (scene, board) = scene();
    let studio = scene.start(&[]);
    let browser = Browser::start();
    browser.look(1280, "light");
    sign_in(&browser, &studio);
    browser.visit(&format!("http://{}/studio/leaderboard?skill=letters", studio.address));
    let file: Value = serde_json::from_str(&scene.workspace.read("library/leaderboard.json")).unwrap();
    assert_eq!(file["entries"].as_array().unwrap().len(), board["entries"].as_array().unwrap().len());
    let mut expected: Vec<(String, String, String)> = file["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["skill"] == "letters")
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            (text("model"), text("prompt_commit"), entry["accuracy"]["score"].to_string())
        })
        .collect();
    let drawn = browser.script(
        "return Array.from(document.querySelectorAll('#over-time .point'), (point) => [point.dataset.model, point.dataset.commit, point.dataset.accuracy])",
    );
    let mut drawn: Vec<(String, String, String)> = serde_json::from_value(drawn).unwrap();
    expected.sort();
    drawn.sort();
    assert_eq!(drawn, expected);
    // The points are where their values say: one scale for all of them, and later commits further right.
    let places = browser.script(
        "return Array.from(document.querySelectorAll('#over-time .point'), (point) => {
           const use = point.querySelector('use');
           return [Number(point.dataset.accuracy), use.y.baseVal.value, use.x.baseVal.value];
         })",
    );
    let places: Vec<(f64, f64, f64)> = serde_json::from_value(places).unwrap();
    let highest = places.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let lowest = places.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let scale = (lowest.1 - highest.1) / (highest.0 - lowest.0);
    for (value, y, _) in &places {
        let at = highest.1 + (highest.0 - value) * scale;
        assert!((at - y).abs() < 0.2, "{value} stands at {y}, not at {at}");
    }
    let columns: std::collections::BTreeSet<String> =
        places.iter().map(|(_, _, x)| format!("{x:.0}")).collect();
    assert_eq!(columns.len(), 7);
    let newest =
        browser.script("return document.querySelector('#over-time table tbody th code').textContent");
    let head =
        crate::studio_scene::git(&scene.workspace.path("library"), &["rev-parse", "--short=7", "HEAD"]);
    assert_eq!(newest, head.as_str(), "the newest commit is the first line of the table");

    // The newest entry of each model is in the table below.
    let now = browser.script("return Array.from(document.querySelectorAll('.entries tr[data-model]:not(.earlier)'), (row) => [row.dataset.model, row.querySelector('.share b').textContent])");
    let mut now: Vec<(String, String)> = serde_json::from_value(now).unwrap();
    now.sort();
    let newest = crate::studio_scene::git(&scene.workspace.path("library"), &["rev-parse", "HEAD"]);
    let of_file: Vec<(String, String)> = expected
        .iter()
        .filter(|(_, commit, _)| *commit == newest)
        .map(|(model, _, score)| (model.clone(), format!("{:.1} %", score.parse::<f64>().unwrap() * 100.0)))
        .collect();
    assert_eq!(now, of_file);
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn pages_are_accessible_and_untrusted_text_is_inert() {
    let (scene, _) = scene();
    let studio = scene.start(&[]);
    let browser = Browser::start();
    let axe =
        std::fs::read_to_string(std::env::var("RUN_EVALS_AXE").expect("`RUN_EVALS_AXE` names axe.min.js"))
            .unwrap();
    let shots = std::env::var_os("RUN_EVALS_SHOTS").map(PathBuf::from);
    let url = |path: &str| format!("http://{}{path}", studio.address);
    browser.look(1280, "light");
    browser.visit(&url("/studio/login"));
    check(&browser, &axe, "login", shots.as_ref());
    sign_in(&browser, &studio);
    browser.click("[data-row=refunds] button");
    scene.workspace.write("benchmarks/contracts/mine.txt", "no clone");
    browser.click("[data-row=contracts] button");
    browser.until(
        "return document.querySelector('[data-row=contracts] [data-field=failed]').textContent === 'Failed'",
    );
    browser.until("return document.querySelector('[data-row=refunds] .badge').textContent === 'Synced'");
    for (name, path) in SCREENS {
        browser.visit(&url(path));
        browser.until("return document.readyState === 'complete'");
        check(&browser, &axe, name, shots.as_ref());
        let size = browser
            .script("return performance.getEntriesByType('navigation')[0].decodedBodySize")
            .as_u64()
            .unwrap();
        assert!(size > 0 && size < 200_000, "{path}: {size} bytes");
        let asked = browser.script("return performance.getEntriesByType('resource').every((one) => new URL(one.name).origin === location.origin)");
        assert_eq!(asked, true, "{path}");
        let console: Vec<String> = browser
            .console()
            .into_iter()
            .filter(|line| !(name == "missing" && line.contains("404")))
            .collect();
        assert_eq!(console, Vec::<String>::new(), "{path}");
    }
    by_keyboard(&browser, &url("/studio/benchmarks"));
    browser.visit(&url("/studio/runs"));
    browser.click(".row a.name");
    browser.until_shown("iframe.report");
    let framed = browser.script("return document.querySelector('iframe.report').src");
    browser.click(".crumbs a");
    browser.until("return location.pathname === '/studio/runs'");
    browser.visit(framed.as_str().unwrap());
    browser.until("return document.getElementById('count')?.textContent === '2 of 2 tests'");
    browser.script("for (const button of document.querySelectorAll('td button')) button.click()");
    browser.until("return document.body.textContent.includes('onerror=alert(1)')");
    assert_eq!(browser.script("return document.title"), "planets");
    assert!(!browser.has_dialog());
    assert_eq!(
        browser.script("return document.querySelectorAll('img').length + ' ' + window.origin"),
        "0 null",
        "the report is of no origin"
    );
    assert_eq!(browser.console(), Vec::<String>::new());
}

/// Each color scheme and width: no serious accessibility issue, nothing wider than the window.
fn check(browser: &Browser, axe: &str, name: &str, shots: Option<&PathBuf>) {
    for (width, scheme, look) in [
        (1280, "light", "light"),
        (1280, "dark", "dark"),
        (400, "light", "narrow"),
        (400, "dark", "narrow-dark"),
    ] {
        browser.look(width, scheme);
        let wide = browser.script("return document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(wide <= u64::from(width), "{name}, {look}: {wide} wide");
        // Evaluated with the driver's privileges, which the policy of the page does not affect.
        browser.evaluate(&format!("if (!window.axe) {{ {axe} }}"));
        let found = browser.script_async(
            "const done = arguments[0]; axe.run(document).then(({violations}) => done(violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`)), (error) => done([String(error)]))",
        );
        assert_eq!(found, json!([]), "{name}, {look}");
        if let Some(dir) = shots {
            browser.screenshot(&dir.join(format!("test-{name}-{look}.png")));
        }
    }
    browser.look(1280, "light");
}

/// Tab reaches every control, and the focus is visible.
fn by_keyboard(browser: &Browser, url: &str) {
    browser.visit(url);
    browser.until("return !!document.querySelector('[data-row=refunds]')");
    browser.script("document.body.focus()");
    let mut reached = Vec::new();
    for _ in 0..24 {
        browser.press("\u{e004}");
        let seen = browser.script(
            "const here = document.activeElement; const style = getComputedStyle(here);
             return [here === document.body ? '' : here.innerText.trim(), style.outlineStyle, parseFloat(style.outlineWidth)]",
        );
        assert!(
            seen[0] == "" || seen[1] != "none" && seen[2].as_f64().unwrap() >= 2.0,
            "no sight of the focus: {seen}"
        );
        reached.push(seen[0].as_str().unwrap().to_owned());
    }
    for name in ["Skip to the content", "Benchmarks", "Jobs", "Leaderboard", "Runs", "Sign out"] {
        assert!(reached.iter().any(|text| text == name), "{name}: {reached:?}");
    }
    for name in ["Sync all", "Sync Refund decisions", "Sync Contract clauses"] {
        assert!(
            reached.iter().any(|text| text.split_whitespace().eq(name.split_whitespace())),
            "{name}: {reached:?}"
        );
    }
}

/// The CPU time that a process has used.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // User and system time, in hundredths of a second.
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

#[test]
fn pages_of_five_thousand_entries_are_small() {
    let scene = Scene::new();
    let names =
        |what: &str, count: usize| (0..count).map(|number| format!("{what}-{number:02}")).collect::<Vec<_>>();
    scene.leaderboard(&names("skill", 25), &names("meadow/model", 10), 20);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    visitor.get("/studio/leaderboard").expect(200);
    // Printed only: CPU time depends on the load of the other core.
    let cpu_ms = |path: &str| {
        let before = cpu_time(studio.pid());
        for _ in 0..40 {
            visitor.get(path).expect(200);
        }
        (cpu_time(studio.pid()) - before).as_secs_f64() * 1e3 / 40.0
    };
    for path in [
        "/studio/leaderboard",
        "/studio/leaderboard/skills/skill-07/index.html",
        "/studio/leaderboard/skills/skill-07/page-2.html",
        "/studio/leaderboard/skills/skill-07/cases/case-03/index.html",
        "/studio/leaderboard/compare/index.html",
        "/studio/benchmarks",
        "/studio/jobs",
        "/studio/runs",
    ] {
        let (size, took) = (visitor.get(path).expect(200).body.len(), cpu_ms(path));
        eprintln!("{path}: {size} bytes, {took:.1} ms of CPU time");
        assert!(size < 200_000, "{path}: {size} bytes");
    }
}
