//! Which components a push bumped: thirty commits with every way to raise, lower, undo and hide a version.

use super::Trigger;
use super::history::{History, Names, names, path, prompt};

/// The versions before the push.
const BEFORE: [(&str, &str); 12] = [
    ("alpha", "1.0.0"),
    ("beta", "1.4.2"),
    ("gamma", "0.9.0"),
    ("delta", "2.0.0"),
    ("epsilon", "1.0.0"),
    ("zeta", "1.0.0"),
    ("eta", "1.9.0"),
    ("theta", "1.0.0"),
    ("iota", "3.0.0"),
    ("omicron", "1.0.0"),
    ("pi", "1.0.0"),
    ("rho", "2.0.0"),
];

/// What was bumped, and by which commit.
const BUMPED: [(&str, &str); 9] = [
    ("alpha", "alpha 1.1.0"),
    ("eta", "eta 1.10.0"),
    ("gamma", "gamma 2.0.0"),
    ("lambda", "lambda is new"),
    ("omicron-two", "omicron has another name"),
    ("pi", "pi 1.1.0 on a branch"),
    ("tau", "tau is new, with odd line ends"),
    ("theta", "theta 1.1.0"),
    ("zeta", "zeta 1.1.0 again"),
];

pub(super) fn before() -> History {
    let all: Vec<(String, Option<String>)> =
        BEFORE.iter().map(|(skill, version)| (path(skill), prompt(version))).collect();
    let all: Vec<(&str, Option<String>)> =
        all.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    History::new(100).commit("before", &all)
}

/// Thirty commits.
pub(super) fn thirty(history: History) -> History {
    let one = |history: History, subject: &str, skill: &str, version: &str| {
        history.commit(subject, &[(&path(skill), prompt(version))])
    };
    let text = |text: &str| Some(text.to_owned());
    let mut history = history.commit("a readme", &[("README.md", text("one"))]);
    for (subject, skill, version) in [
        ("alpha 1.1.0", "alpha", "1.1.0"),
        ("alpha 1.1.1", "alpha", "1.1.1"),
        ("beta 1.4.3", "beta", "1.4.3"),
        ("gamma 1.0.0", "gamma", "1.0.0"),
    ] {
        history = one(history, subject, skill, version);
    }
    let other_words = prompt("1.0.0").map(|text| text.replace("letter", "notice"));
    history = history.commit("gamma with other words", &[(&path("gamma"), other_words)]);
    for (subject, skill, version) in [
        ("gamma 2.0.0", "gamma", "2.0.0"),
        ("delta 2.1.0", "delta", "2.1.0"),
        ("delta is as it was", "delta", "2.0.0"),
    ] {
        history = one(history, subject, skill, version);
    }
    history = history.commit("epsilon is gone", &[(&path("epsilon"), None)]);
    for (subject, skill, version) in [
        ("lambda is new", "lambda", "0.1.0"),
        ("zeta 1.1.0", "zeta", "1.1.0"),
        ("zeta is as it was", "zeta", "1.0.0"),
        ("zeta 1.1.0 again", "zeta", "1.1.0"),
        ("eta 1.10.0", "eta", "1.10.0"),
        ("theta 1.1.0", "theta", "1.1.0"),
        ("iota without a patch", "iota", "3.1"),
    ] {
        history = one(history, subject, skill, version);
    }
    let mark = history.mark();
    history
        .commit(
            "a case",
            &[("components/alpha/evals/cases/x/metadata.yaml", text("validated_against_version: 9.0.0\n"))],
        )
        .commit("another manifestation", &[("components/beta/skill/SKILL.md", prompt("2.0.0"))])
        .commit("no prompt", &[("components/mu/README.md", text("soon"))])
        .commit("nu is new", &[(&path("nu"), prompt("1.0.0"))])
        .commit("nu is gone", &[(&path("nu"), None)])
        .commit(
            "omicron has another name",
            &[(&path("omicron"), None), (&path("omicron-two"), prompt("1.0.0"))],
        )
        .commit_on(
            "side",
            "pi 1.1.0 on a branch",
            &format!("from :{mark}\n"),
            &[(&path("pi"), prompt("1.1.0"))],
        )
        .commit_on("main", "merge the branch", "merge refs/heads/side\n", &[(&path("pi"), prompt("1.1.0"))])
        .commit("rho 1.9.0", &[(&path("rho"), prompt("1.9.0"))])
        .commit("a name that is not a skill", &[(&path("Sigma"), prompt("1.0.0"))])
        .commit(
            "tau is new, with odd line ends",
            &[(&path("tau"), prompt("\"1.2.0\"").map(|text| text.replace('\n', "\r\n")))],
        )
        .commit("a readme again", &[("README.md", text("two"))])
        .commit("and again", &[("README.md", text("three"))])
}

pub(super) fn expected(names: &Names) -> Vec<(String, String)> {
    BUMPED.iter().map(|(skill, subject)| ((*skill).to_owned(), names.of(subject).to_owned())).collect()
}

#[test]
fn exactly_the_versions_bumped_in_thirty_commits_are_requested() {
    let stage = Trigger::new(&thirty(before()));
    let names = names(&stage.github);
    let count =
        stage.github.git(super::REPO, &["rev-list", "--count", &format!("{}..main", names.of("before"))]);
    assert_eq!(count, "30");
    for _ in 0..BUMPED.len() {
        stage.service.answer(202, r#"{"job_id":"job-1"}"#);
    }
    let output = stage.push(names.of("before"), names.of("and again")).expect(0);
    assert_eq!(stage.fired(), expected(&names));
    let first = &stage.service.job_requests()[0];
    assert_eq!(first["replicates"], 10);
    let requests = stage.github.counted("reader");
    // One comparison; two reads of each changed prompt, one of a new one; one list for each bumped component; and one read of each
    // commit of those that changed more than once.
    assert_eq!(requests, 36);
    assert!(output.stdout.contains(&format!("; {requests} requests to GitHub")), "{}", output.stdout);
    let told: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("fired")).collect();
    assert_eq!(told.len(), BUMPED.len(), "{}", output.stdout);
    insta::assert_snapshot!(output.stderr, @r"
    warning: `components/Sigma` was left out: the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`

    warning: `components/iota/prompt.md` has no `version: MAJOR.MINOR.PATCH` in its front matter, so it is not evaluated
    ");
}

#[test]
fn a_push_of_one_commit_needs_few_requests() {
    let history = before().commit("alpha 1.1.0", &[(&path("alpha"), prompt("1.1.0"))]);
    let stage = Trigger::new(&history);
    let names = names(&stage.github);
    stage.push(names.of("before"), names.of("alpha 1.1.0")).expect(0);
    assert_eq!(stage.fired(), [("alpha".to_owned(), names.of("alpha 1.1.0").to_owned())]);
    assert_eq!(stage.github.counted("reader"), 3, "the comparison, and the prompt before and after");
}
