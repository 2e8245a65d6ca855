//! `sync --status`.

use super::{Bench, git, whole};

impl Bench {
    fn status(&self, more: &[&str]) -> serde_json::Value {
        let output = self
            .workspace
            .run(&[&["sync", "--status", "--allow-local", "--format", "json"], more].concat())
            .expect(0);
        serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()["benchmarks"][0].clone()
    }
}

#[test]
fn every_state_is_reported_without_changes() {
    let bench = Bench::new();
    let of = |status: &serde_json::Value| {
        let number = |key: &str| status[key].as_u64();
        (status["state"].as_str().unwrap().to_owned(), number("behind"), number("ahead"), number("dirty"))
    };
    let state = |name: &str, behind, ahead, dirty| (name.to_owned(), behind, ahead, dirty);
    assert_eq!(of(&bench.status(&[])), state("missing", None, None, None));
    assert!(!bench.workspace.path("clones").exists());
    bench.synced(&[]);
    let current = bench.status(&[]);
    assert_eq!(of(&current), state("current", Some(0), Some(0), Some(0)));
    assert_eq!(current["commit"], git(&bench.upstream(), &["rev-parse", "HEAD"]));
    assert_eq!((&current["branch"], &current["source"]["ref"]), (&"main".into(), &"main".into()));
    assert!(current["last_sync"].is_string() && current["last_error"].is_null());
    for round in 0..4 {
        bench.commit("README.md", &format!("{round}\n"));
    }
    let before = whole(&bench.workspace.path("clones"));
    assert_eq!(of(&bench.status(&[])), state("behind", Some(4), Some(0), Some(0)));
    assert_eq!(of(&bench.status(&["--offline"])), state("unknown", None, None, Some(0)));
    assert_eq!(whole(&bench.workspace.path("clones")), before);
    bench.write("README.md", "mine\n");
    assert_eq!(of(&bench.status(&[])), state("dirty", Some(4), Some(0), Some(1)));
    git(&bench.clone(), &["commit", "-q", "-a", "-m", "mine"]);
    assert_eq!(of(&bench.status(&[])), state("diverged", None, None, Some(0)));
    bench.sync(&[]).expect(1);
    let failed = bench.status(&[]);
    assert_eq!(
        (&failed["last_error"]["kind"], failed["last_error"]["fix"].as_str()),
        (&"diverged".into(), Some("run-evals sync one --reset --allow-local"))
    );
    bench.synced(&["--reset"]);
    assert!(bench.status(&[])["last_error"].is_null());
    bench.write("README.md", "mine\n");
    git(&bench.clone(), &["commit", "-q", "-a", "-m", "mine"]);
    assert_eq!(of(&bench.status(&[])), state("ahead", Some(0), Some(1), Some(0)));
}

#[test]
fn the_exit_code_is_0_if_everything_is_current() {
    let bench = Bench::new();
    let code = |more: &[&str]| {
        let args = [&["sync", "--status", "--allow-local"], more].concat();
        bench.workspace.run(&args).code
    };
    assert_eq!((code(&[]), code(&["--exit-code"])), (Some(0), Some(1)), "missing");
    bench.synced(&[]);
    assert_eq!(code(&["--exit-code"]), Some(0), "current");
    bench.workspace.write("more.yaml", "benchmarks: [{ id: mine, path: mine }]\n");
    assert_eq!(code(&["--exit-code", "--registry", "more.yaml"]), Some(0), "local");
    bench.commit("README.md", "two\n");
    assert_eq!((code(&[]), code(&["--exit-code"])), (Some(0), Some(1)), "behind");
    bench.register("url: 'http://127.0.0.1:1/o/bench', ref: main");
    assert_eq!((code(&[]), code(&["--exit-code"])), (Some(0), Some(1)), "unknown");
    assert_eq!(code(&["--exit-code", "--offline"]), Some(2), "offline, nothing can be current");
}

#[test]
fn the_table_has_a_line_per_benchmark() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.workspace.write("mine/x", "");
    let upstream = bench.upstream().display().to_string();
    bench.workspace.write(
        ".agentv/benchmarks.yaml",
        format!("benchmarks:\n  - {{id: one, path: ../clones/one, source: {{url: {upstream}, ref: main}}}}\n  - {{id: mine, path: ../mine}}\n  - {{id: gone, path: ../gone, source: {{url: {upstream}}}}}\n"),
    );
    let output = bench.workspace.run(&["sync", "--status", "--offline"]).expect(0);
    let commit = &git(&bench.upstream(), &["rev-parse", "HEAD"])[..12];
    let shown = output.stdout.replace(commit, "[ commit ]");
    let time = shown[shown.find("20").unwrap()..].split("  ").next().unwrap();
    insta::assert_snapshot!(shown.replace(time, "[ the time of the last]"), @r"
    id    state    ref        commit        behind  ahead  changed  last sync                last error
    one   unknown  main       [ commit ]  –       –      0        [ the time of the last]  –
    mine  local    –          –             –       –      –        –                        –
    gone  missing  (default)  –             –       –      –        –                        –
    ");
}
