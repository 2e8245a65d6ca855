//! The HTML report of 2,000 tests in a real browser: fast to open, fast to search, usable by keyboard, in every color and width,
//! and immune to model output.

use std::path::Path;

use crate::browser::Browser;
use crate::support::{Came, Results, Workspace};

const TESTS: usize = 2000;
/// Each tries to change the title, to open a dialog, to leave its box, or to hide.
const HOSTILE: [&str; 8] = [
    "<script>document.title = 'obeyed'; alert(1)</script><img src=x onerror=\"document.title='obeyed'\">",
    "</textarea></pre></title></script><script>document.title = 'obeyed'</script>",
    "\u{1b}[31mred\u{1b}[2J\u{7}",
    "::error::obeyed\n##[error]obeyed",
    "\u{202e}sdrawkcab\u{2066}\u{200f}",
    "nul\u{0}nul",
    "javascript:alert(1) <a href=\"javascript:alert(1)\">x</a> <iframe src=\"https://evil.example\"></iframe>",
    "<svg onload=alert(1)><style>body{display:none}</style><base href=https://evil.example>",
];

fn results(salt: usize) -> Results {
    let long = "x".repeat(1_000_000);
    (0..TESTS).fold(Results::new("planets </title><script>alert(1)</script>"), |results, test| {
        let hostile = HOSTILE.get(test).copied().or((test == HOSTILE.len()).then_some(long.as_str()));
        let plain =
            format!("Answer {} to question {test}, at some length: {}", test * salt % 7, "la ".repeat(60));
        let score = f64::from(u32::try_from((test * 7 + salt) % 10).unwrap()) / 9.0;
        let came = match test % 97 {
            96 => Came::Nothing { retryable: false },
            95 => Came::Skipped(&plain),
            _ => Came::To(score, hostile.unwrap_or(&plain)),
        };
        results.test(
            &format!(
                "test-{test:04} {}",
                hostile.map_or("", |text| &text[..text.len().min(20)]).replace(char::is_control, "")
            ),
            &[came],
        )
    })
}

#[test]
fn two_thousand_tests_in_a_browser() {
    let workspace = Workspace::new();
    results(1).write(&workspace, "now");
    results(3).write(&workspace, "before");
    let args = ["report", "now", "--baseline", "before", "--html", "report.html", "--fail-on", "never"];
    workspace.run(&args).expect(0);
    let file = workspace.path("report.html");
    let size = std::fs::metadata(&file).unwrap().len();
    assert!(size < 3_000_000, "{size} bytes");

    let browser = Browser::start();
    browser.look(1280, "light");
    // Once to warm up the browser.
    browser.open(&file);
    browser.open(&file);
    browser.until("return performance.getEntriesByType('navigation')[0].loadEventEnd > 0");
    let opened =
        browser.script("return performance.getEntriesByType('navigation')[0].loadEventEnd").as_f64().unwrap();
    eprintln!("html report: {size} bytes, open after {opened:.0} ms");
    assert_eq!(browser.script("return document.getElementById('count').textContent"), "2,000 of 2,000 tests");

    searching(&browser);
    by_keyboard(&browser);
    nothing_is_obeyed(&browser);
    in_every_light(&browser);
    assert_eq!(browser.console(), Vec::<String>::new());
    assert_eq!(
        browser.script("return performance.getEntriesByType('resource').length"),
        0,
        "it loads nothing"
    );
}

fn searching(browser: &Browser) {
    // A slash focuses the search from anywhere.
    browser.press("/test-1234");
    assert_eq!(browser.script("return document.getElementById('count').textContent"), "1 of 2,000 tests");
    // The best of several: other load on the machine only adds to it.
    let slowest = browser.script(
        "const search = document.getElementById('search'); const texts = ['a', 'an', 'question 77', 'la la', 'nothing has this', ''];
         const best = texts.map(() => Infinity);
         for (let round = 0; round < 7; round += 1) {
           texts.forEach((text, index) => {
             const start = performance.now();
             search.value = text;
             search.dispatchEvent(new Event('input'));
             document.body.getBoundingClientRect();
             best[index] = Math.min(best[index], performance.now() - start);
           });
         }
         return Math.max(...best)",
    );
    eprintln!("html report: the slowest search took {slowest} ms");
    browser.click("#states button:nth-child(2)");
    assert_eq!(
        browser.script("return document.getElementById('count').textContent"),
        "20 of 2,000 tests",
        "errors"
    );
    browser.click("#states button:nth-child(1)");
    browser.script("const change = document.getElementById('change'); change.value = 'regressed'; change.dispatchEvent(new Event('change'))");
    let regressed =
        browser.script("return document.querySelectorAll('#table tbody tr .change-regressed').length");
    assert!(regressed.as_u64().unwrap() > 0);
    browser.script("const change = document.getElementById('change'); change.value = ''; change.dispatchEvent(new Event('change'))");
}

/// Tab and Enter reach everything.
fn by_keyboard(browser: &Browser) {
    browser.script("document.getElementById('search').focus()");
    browser.press("test-0043");
    let reached =
        |what: &str| browser.script(&format!("return document.activeElement.matches({what:?})")) == true;
    for _ in 0..40 {
        if reached("td.id button") {
            break;
        }
        browser.press("\u{e004}");
    }
    assert!(reached("td.id button"), "Tab reaches the test");
    browser.press("\u{e007}");
    assert_eq!(browser.script("return document.activeElement.getAttribute('aria-expanded')"), "true");
    let shown =
        browser.script("return document.querySelector('tr.detail').innerText").as_str().unwrap().to_owned();
    for part in
        ["What is test-0043", "suite.eval.yaml:", "question 43", "Changed since the baseline", "mentions"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    browser.press("\u{e007}");
    assert!(browser.script("return document.querySelector('tr.detail')").is_null());
}

fn nothing_is_obeyed(browser: &Browser) {
    browser.script(
        "const search = document.getElementById('search'); search.value = 'test-000'; search.dispatchEvent(new Event('input'));
         for (const button of [...document.querySelectorAll('td.id button')]) button.click()",
    );
    assert!(!browser.has_dialog());
    assert_eq!(browser.script("return document.title"), "planets </title><script>alert(1)</script>");
    let strangers = browser.script(
        "return document.querySelectorAll('img, iframe, base, svg style, a[href^=javascript]').length",
    );
    assert_eq!(strangers, 0);
    assert_eq!(browser.script("return document.querySelectorAll('script').length"), 2);
    let text =
        browser.script("return document.getElementById('table').textContent").as_str().unwrap().to_owned();
    for part in [
        "<script>document.title = 'obeyed'",
        "</textarea></pre>",
        "\\u{1b}[31m",
        "::error::obeyed",
        "\\u{202e}sdrawkcab",
        "nul\\u{0}nul",
        "characters left out",
    ] {
        assert!(text.contains(part), "{part} is not shown");
    }
    assert!(!text.contains(['\u{202e}', '\u{0}', '\u{1b}']));
}

/// Light, dark and narrow: nothing is wider than the page, and screenshots are kept for review.
fn in_every_light(browser: &Browser) {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ground = || {
        browser.script("return getComputedStyle(document.body).backgroundColor").as_str().unwrap().to_owned()
    };
    let wide = || {
        let overflow = browser
            .script("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, 0, "something is wider than the page");
    };
    let mut grounds = Vec::new();
    for (name, width, scheme) in [
        ("light", 1280, "light"),
        ("dark", 1280, "dark"),
        ("narrow", 400, "light"),
        ("narrow-dark", 400, "dark"),
    ] {
        browser.look(width, scheme);
        wide();
        grounds.push(ground());
        browser.script("scrollTo(0, 0)");
        browser.screenshot(&pictures.join(format!("html-report-{name}.png")));
        browser.script("document.querySelector('tr.detail').scrollIntoView()");
        browser.screenshot(&pictures.join(format!("html-report-{name}-open.png")));
    }
    assert_eq!(grounds[0], "rgb(255, 255, 255)");
    assert_ne!(grounds[0], grounds[1]);
}
