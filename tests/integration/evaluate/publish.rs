//! From entries to a pull request.

use std::collections::BTreeSet;
use std::process::Stdio;

use super::stage::{LIBRARY, Stage, git};
use crate::support::github::{TokenKind, What, Wrong};

const QUICK: [&str; 4] = ["--replicates", "1", "-q", "--open-pr"];

#[test]
fn the_results_become_a_pull_request_that_merges_cleanly() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let evaluated = stage.commit("main");
    // The default branch moves on while the checked-out commit is evaluated.
    stage.push(|dir| std::fs::write(dir.join("README.md"), "moved on\n").unwrap());
    let main = stage.commit("main");
    let more = [
        "--label",
        "evaluation",
        "--auto-merge",
        "--commit-as",
        "Eval Bot <bot@example.org>",
        "--format",
        "json",
    ];
    let output = stage.evaluate(&[&QUICK[..], &more].concat()).expect(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();

    let [pull] = &stage.github.pulls()[..] else { panic!("one pull request") };
    assert_eq!(
        result["pull_request_url"].as_str().unwrap(),
        format!("{}/{LIBRARY}/pull/1001", stage.github.urls().server_url)
    );
    assert_eq!(result["branch"], pull.head);
    let (name, time) = pull.head.rsplit_once('-').unwrap();
    assert_eq!(name, format!("eval-results/grant-letter-extraction-{}", &evaluated[..7]));
    assert!(time.len() == 16 && time.ends_with('Z') && time.contains('T'), "{time}");
    assert_eq!((pull.base.as_str(), pull.labels.as_slice()), ("main", &["evaluation".to_owned()][..]));
    assert_eq!(pull.auto_merge.as_deref(), Some("squash"));
    assert_eq!(pull.title, format!("Evaluate grant-letter-extraction 1.2.0 at {}", &evaluated[..7]));

    // One commit by the bot, with one file, on top of the current default branch.
    let branch = pull.head.as_str();
    assert_eq!(stage.github.git(LIBRARY, &["rev-parse", &format!("{branch}^")]), main);
    let changed = stage.github.git(LIBRARY, &["diff", "--name-status", "main", branch]);
    assert_eq!(changed, "A\tleaderboard.json");
    let who = stage.github.git(LIBRARY, &["log", "-1", "--format=%an <%ae> %cn <%ce>", branch]);
    assert_eq!(who, "Eval Bot <bot@example.org> Eval Bot <bot@example.org>");
    let merged = stage.github.git(LIBRARY, &["merge-tree", "--write-tree", "main", branch]);
    assert_eq!(merged.lines().count(), 1, "{merged}");
    assert_eq!(stage.commit("main"), main, "the default branch is not pushed to");

    // The clone has no new branch, and the body is readable.
    let branches =
        git(&stage.workspace.path("library"), &["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches, "refs/heads/main");
    let body = pull.body.replace(&evaluated, "<commit>").replace(&main, "<main>");
    let data = stage.github.git(super::stage::DATASETS, &["rev-parse", "main"]);
    insta::assert_snapshot!(body.replace(&data, "<data>"), @r"
    **grant-letter-extraction** <code>1&#46;2&#46;0</code> at `<commit>`, 12 of 12 cases, 1 replicate.

    | model | accuracy (95 %) | change | exact fields | prose | reproducibility (95 %) | change | fits the schema | calls |
    |---|---|---|---|---|---|---|---|---|
    | `meadow/quill-large` | 100.0 % (100.0 to 100.0) | – | 100.0 % | – | – | – | 100.0 % | 12 of 12 ok |
    | `meadow/quill-small` | 90.8 % (89.5 to 91.7) | – | 90.8 % | – | – | – | 0.0 % | 12 of 12 ok |
    | `quill-latest → meadow/quill-large-2026-10` | 83.1 % (72.9 to 92.9) | – | 83.1 % | – | – | – | 100.0 % | 12 of 12 ok |
    | `meadow/quill-retired` | – | – | – | – | – | – | – | not called: the server does not list it |

    Compared with:

    - `meadow/quill-large`: no entry before
    - `meadow/quill-small`: no entry before
    - `quill-latest → meadow/quill-large-2026-10`: no entry before

    <details><summary>Fields</summary>

    | model | correct | incorrect | missing | hallucinated | correctly absent |
    |---|---|---|---|---|---|
    | `meadow/quill-large` | 130 | 0 | 0 | 0 | 8 |
    | `meadow/quill-small` | 118 | 12 | 0 | 0 | 8 |
    | `quill-latest → meadow/quill-large-2026-10` | 108 | 0 | 22 | 0 | 8 |

    </details>

    <details><summary>Cases</summary>

    | case | `meadow/quill-large` | `meadow/quill-small` | `quill-latest → meadow/quill-large-2026-10` |
    |---|---|---|---|
    | `alder-river` | 100.0 % | 91.7 % | 100.0 % |
    | `birch-lab` | 100.0 % | 85.7 % | 100.0 % |
    | `cedar-atlas` | 100.0 % | 93.3 % | 100.0 % |
    | `dune-watch` | 100.0 % | 90.9 % | 63.6 % |
    | `elm-clinic` | 100.0 % | 90.9 % | 63.6 % |
    | `fern-archive` | 100.0 % | 90.0 % | 80.0 % |
    | `gale-tower` | 100.0 % | 90.0 % | 60.0 % |
    | `heath-bees` | 100.0 % | 91.7 % | 66.7 % |
    | `iris-optics` | 100.0 % | 85.7 % | 100.0 % |
    | `juniper-schools` | 100.0 % | 92.9 % | 100.0 % |
    | `kelp-forest` | 100.0 % | 90.0 % | 100.0 % |
    | `larch-data` | 100.0 % | 90.9 % | 63.6 % |

    </details>

    Models that no target serves:

    - <code>meadow&#47;quill&#45;retired</code>: <code>no target has it &#40;checked&#58; &#96;mindrouter&#96;&#41;</code>

    Models as of `<main>`, data sets at `<data>`.
    ");
}

/// GitHub attributes commits by address: no account can own this one.
#[test]
fn without_an_author_the_commit_belongs_to_no_account() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.evaluate(&QUICK).expect(0);
    let [pull] = &stage.github.pulls()[..] else { panic!("one pull request") };
    let who = stage.github.git(LIBRARY, &["log", "-1", "--format=%an <%ae> %cn <%ce>", &pull.head]);
    let nobody = "run-evals <run-evals@run-evals.invalid>";
    assert_eq!(who, format!("{nobody} {nobody}"));
}

#[test]
fn the_next_evaluation_reports_what_changed_and_a_repeat_changes_nothing() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.evaluate(&QUICK).expect(0);
    let first = stage.github.pulls()[0].head.clone();
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &first]);

    // The same again: another branch would have the same bytes, so there is nothing to open.
    let before = stage.github.pulls().len();
    let output =
        stage.evaluate(&["--replicates", "1", "--open-pr", "--git-sha", &stage.commit("main~1")]).expect(0);
    assert!(output.stderr.contains("the leaderboard already has the same entries"), "{}", output.stderr);
    assert_eq!(stage.github.pulls().len(), before);

    let prompt = "components/grant-letter-extraction/prompt.md";
    stage.push(|dir| {
        let text = std::fs::read_to_string(dir.join(prompt)).unwrap();
        assert!(text.contains("1.2.0"));
        std::fs::write(dir.join(prompt), text.replace("1.2.0", "1.3.0")).unwrap();
    });
    let library = stage.workspace.path("library");
    std::fs::remove_dir_all(&library).unwrap();
    stage.clone_of(LIBRARY, "library", &[]);
    let output = stage.evaluate(&QUICK).expect(0);
    let change = format!("+0.0 points against 1.2.0 ({})", &stage.commit("main~2")[..7]);
    assert!(output.stdout.contains(&change), "{}", output.stdout);
    let compared = format!("- `meadow/quill-large`: version 1.2.0 at `{}`", &stage.commit("main~2")[..7]);
    assert!(stage.github.pulls()[1].body.contains(&compared), "{}", stage.github.pulls()[1].body);
    // Entries of the other commit stay.
    let board: serde_json::Value =
        serde_json::from_str(&stage.file(&stage.github.pulls()[1].head, "leaderboard.json")).unwrap();
    assert_eq!(board["entries"].as_array().unwrap().len(), 6);
}

#[test]
fn a_job_without_permission_to_open_pull_requests_leaves_the_branch_and_says_so() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.token("ghs_job", TokenKind::Job, &[("contents", "write"), ("pull_requests", "write")]);
    stage.workspace.write("token.txt", "ghs_job");
    let body = r#"{"message":"GitHub Actions is not permitted to create or approve pull requests.","documentation_url":"https://docs.github.com/rest","status":"403"}"#;
    stage.github.fault(What::Answer {
        route: "POST /repos/{owner}/{repo}/pulls".to_owned(),
        after: false,
        answer: Wrong::Status {
            status: 403,
            body: body.to_owned(),
            headers: std::collections::BTreeMap::new(),
        },
    });
    let output = stage.evaluate(&["--replicates", "1", "--open-pr"]).expect(1);
    let [push] = &stage.github.pushes()[..] else { panic!("one push") };
    let branch = push.reference.strip_prefix("refs/heads/").unwrap();
    let server = &stage.github.urls().server_url;
    let warning = output
        .stderr
        .split("error: ")
        .last()
        .unwrap()
        .replace(branch, "<branch>")
        .replace(server, "<server>");
    insta::assert_snapshot!(warning, @r#"
    cannot open a pull request for `<branch>` in `meadow/skills`: GitHub returned 403: GitHub Actions is not permitted to create or approve pull requests.
    hint: allow it in the settings of `meadow/skills` and of its owner (Actions, General, Workflow permissions: "Allow GitHub Actions to create and approve pull requests"), or use the token of a GitHub App or of a user
    the results are on the branch `<branch>` of `meadow/skills`; open the pull request at <server>/meadow/skills/compare/main...<branch>?expand=1
    "#);
    assert!(output.stdout.contains("meadow/quill-large"), "the entries are shown: {}", output.stdout);

    // With permission, the pull request triggers no checks, which is reported too.
    let output = stage.evaluate(&["--replicates", "1", "--open-pr"]).expect(0);
    assert!(output.stderr.contains("GitHub starts no workflow for it"), "{}", output.stderr);
}

#[test]
fn a_token_without_push_access_is_reported_before_the_first_call() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.token(
        "github_pat_reader",
        TokenKind::Personal,
        &[("contents", "read"), ("pull_requests", "write")],
    );
    stage.workspace.write("token.txt", "github_pat_reader");
    let output = stage.evaluate(&QUICK).expect(1);
    let server = &stage.github.urls().server_url;
    insta::assert_snapshot!(output.stderr.replace(server, "<server>"), @r"
    error: the token lacks permission for git at `<server>/meadow/skills.git`

    hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
    ");
    assert_eq!(llm.counter("requests"), 0);
    // Evaluating without publishing does not need push access.
    stage.evaluate(&["--replicates", "1", "-q"]).expect(0);
    assert!(stage.github.pushes().is_empty());
}

#[test]
fn entries_are_kept_when_the_push_is_rejected() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage
        .github
        .fault(What::Ruleset { branch: "eval-results/".to_owned(), rule: "Cannot create ref".to_owned() });
    let output = stage
        .evaluate(&["--replicates", "1", "--open-pr", "--batch-id", "b1", "--output", "out", "-q"])
        .expect(1);
    let lost = "nothing is lost: the entries are in `.run-evals/evaluate/evaluations/b1.entries.json`";
    assert!(output.stderr.contains(lost), "{}", output.stderr);
    assert!(stage.github.pulls().is_empty());
    let kept: serde_json::Value =
        serde_json::from_str(&stage.workspace.read(".run-evals/evaluate/evaluations/b1.entries.json"))
            .unwrap();
    let out: serde_json::Value = serde_json::from_str(&stage.workspace.read("out/leaderboard.json")).unwrap();
    assert_eq!((kept.as_array().unwrap().len(), out["entries"].as_array().unwrap().len()), (3, 3));
    // Once the push is allowed, the same id publishes the entries without new calls.
    let asked = llm.counter("ok");
    stage.evaluate(&["--replicates", "1", "--open-pr", "--batch-id", "b1", "-q"]).expect(0);
    assert_eq!((stage.github.pulls().len(), llm.counter("ok")), (1, asked));
}

#[test]
fn an_interrupted_publication_resumes_with_the_same_branch() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.github.fault(What::Answer {
        route: "POST /repos/{owner}/{repo}/pulls".to_owned(),
        after: false,
        answer: Wrong::Status {
            status: 403,
            body: "{}".to_owned(),
            headers: std::collections::BTreeMap::new(),
        },
    });
    let again = ["--replicates", "1", "--open-pr", "--batch-id", "b1", "-q"];
    stage.evaluate(&again).expect(1);
    let asked = llm.counter("ok");
    // The branch exists: only the pull request is missing.
    stage.evaluate(&again).expect(0);
    // Nothing is missing.
    let third = stage.evaluate(&again).expect(0);
    let (pushes, pulls) = (stage.github.pushes(), stage.github.pulls());
    assert_eq!((pushes.len(), pulls.len(), llm.counter("ok")), (1, 1, asked), "{}", third.stderr);
    assert_eq!(pushes[0].reference, format!("refs/heads/{}", pulls[0].head));
}

#[test]
fn an_evaluation_killed_before_its_push_is_pushed_by_the_next_attempt() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    // The process is killed when the push begins, before anything is sent.
    let path = stage
        .workspace
        .path_with_git("case \" $* \" in *' push '*--force-with-lease*) kill -9 $PPID; exit 1;; esac");
    let args = stage.args(&["--replicates", "1", "--open-pr", "--batch-id", "b1", "-q"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let killed = stage.workspace.command(&args).env("PATH", path).output().unwrap();
    assert_eq!(killed.status.code(), None, "it was killed: {}", String::from_utf8_lossy(&killed.stderr));
    assert!(stage.github.pushes().is_empty());
    let asked = llm.counter("ok");

    let again = ["--replicates", "1", "--open-pr", "--batch-id", "b1", "-q", "--format", "json"];
    let output = stage.evaluate(&again).expect(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let [pull] = &stage.github.pulls()[..] else { panic!("one pull request") };
    assert_eq!(result["branch"], pull.head);
    let there = stage.github.git(LIBRARY, &["branch", "--list", "--format=%(refname:short)", &pull.head]);
    assert_eq!(there, pull.head, "what is reported is on GitHub");
    assert_eq!((stage.github.pushes().len(), llm.counter("ok")), (1, asked));
    let left = git(&stage.workspace.path("library"), &["branch", "--list", "eval-results/*"]);
    assert_eq!(left, "", "nothing is left in the clone");
}

/// Both have equal entries and begin to publish in the same second, so their branches would have the same name.
#[test]
fn two_evaluations_that_publish_in_the_same_second_each_open_a_pull_request() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.clone_of(LIBRARY, "library-1", &[]);
    stage.clone_of(LIBRARY, "library-2", &[]);
    // The second fetch of a process comes just before it names its branch: both wait there for the start of a second.
    let path = stage.workspace.path_with_git(
        r#"case " $* " in
        *' fetch '*)
            echo x >> "$HOME/fetched-$PPID"
            if test $(wc -l < "$HOME/fetched-$PPID") = 2; then
                echo x >> "$HOME/ready"
                while test $(wc -l < "$HOME/ready") -lt 2; do sleep 0.01; done
                while test $(date +%N | cut -c1) != 0; do sleep 0.01; done
            fi;;
        # A busy machine must not put the time of the commit into the next second.
        *' fast-import '*)
            sed -u 's/^\(committer .*> \)[0-9]* /\11800000000 /' | "$real" "$@"
            exit $?;;
        # One pushes when the other has its pull request.
        *' push '*--force-with-lease*)
            echo "$*" >> "$HOME/pushed"
            if mkdir "$HOME/first" 2> "$HOME/second"; then
                echo $PPID > "$HOME/first/pid"
            else
                while ! test -s "$HOME/first/pid"; do sleep 0.01; done
                while readlink "/proc/$(cat "$HOME/first/pid")/exe" > "$HOME/second"; do sleep 0.01; done
            fi;;
        esac"#,
    );
    let mut collisions = 0;
    for round in 0..12 {
        let _ = std::fs::remove_file(stage.workspace.path("ready"));
        let _ = std::fs::remove_file(stage.workspace.path("pushed"));
        let _ = std::fs::remove_dir_all(stage.workspace.path("first"));
        let before = stage.github.pulls().len();
        let start = |one: usize| {
            let state = format!("state-{round}-{one}");
            let mut args = stage.args(&["--replicates", "1", "--open-pr", "-q", "--state", &state]);
            let library = args.iter().position(|arg| arg == "library").unwrap();
            args[library] = format!("library-{one}");
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut command = stage.workspace.command(&args);
            command.env("PATH", &path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        for child in [start(1), start(2)] {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(stage.github.pulls().len(), before + 2);
        let pushed = stage.workspace.read("pushed");
        let named: BTreeSet<&str> = pushed.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        collisions += usize::from(named.len() < pushed.lines().count());
        if collisions == 2 {
            return;
        }
    }
    panic!("they never had the same name: {collisions}");
}

#[test]
fn a_lost_response_does_not_open_a_second_pull_request() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.github.fault(What::Answer {
        route: "POST /repos/{owner}/{repo}/pulls".to_owned(),
        after: true,
        answer: Wrong::Dropped,
    });
    stage.evaluate(&QUICK).expect(0);
    assert_eq!(stage.github.pulls().len(), 1);
}

#[test]
fn partial_failures_are_reported() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.github.fault(What::Answer {
        route: "POST /repos/{owner}/{repo}/issues/{issue_number}/labels".to_owned(),
        after: false,
        answer: Wrong::Status {
            status: 403,
            body: r#"{"message":"Resource not accessible by personal access token","status":"403"}"#
                .to_owned(),
            headers: std::collections::BTreeMap::new(),
        },
    });
    let output = stage.evaluate(&["--replicates", "1", "--open-pr", "--label", "x"]).expect(0);
    assert!(
        output
            .stderr
            .contains("warning: cannot label pull request 1001 of `meadow/skills`: GitHub returned 403"),
        "{}",
        output.stderr
    );
    stage
        .github
        .fault(What::Ruleset { branch: "eval-results/".to_owned(), rule: "Cannot create ref".to_owned() });
    let output = stage.evaluate(&["--replicates", "1", "--open-pr", "-q"]).expect(1);
    assert!(
        output.stderr.contains("Cannot create ref") && output.stderr.contains("nothing is lost"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_pull_request_with_many_cases_stays_within_the_limit() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let commit = stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/models.yaml"), "models:\n  - id: meadow/quill-large\n").unwrap();
        let cases = dir.join("components/grant-letter-extraction/evals/cases");
        for number in 0..620 {
            let case = cases.join(format!("{number:03}-{}", "a".repeat(90)));
            std::fs::create_dir(&case).unwrap();
            for file in ["input.md", "expected.json"] {
                std::fs::copy(cases.join("birch-lab").join(file), case.join(file)).unwrap();
            }
        }
    });
    stage.evaluate(&["--git-sha", &commit, "--replicates", "1", "-q", "--open-pr"]).expect(0);
    let body = &stage.github.pulls()[0].body;
    assert!(body.len() < 60_000, "{}", body.len());
    let told = "The table of the cases is too long: it is in `leaderboard.json`, as `per_case`.";
    assert!(body.contains(told) && body.contains("632 of 632 cases"), "{body}");
}

#[test]
fn a_too_long_body_is_not_blamed_on_the_workflow() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let body = r#"{"message":"Validation Failed","errors":[{"resource":"Issue","code":"custom","field":"body","message":"body is too long (maximum is 65536 characters)"}],"documentation_url":"https://docs.github.com/rest/pulls/pulls#create-a-pull-request","status":"422"}"#;
    stage.github.fault(What::Answer {
        route: "POST /repos/{owner}/{repo}/pulls".to_owned(),
        after: false,
        answer: Wrong::Status {
            status: 422,
            body: body.to_owned(),
            headers: std::collections::BTreeMap::new(),
        },
    });
    let output = stage.evaluate(&QUICK).expect(1);
    assert!(output.stderr.contains("body is too long"), "{}", output.stderr);
    assert!(
        !output.stderr.contains("workflow") && !output.stderr.contains("--handover"),
        "{}",
        output.stderr
    );
}
