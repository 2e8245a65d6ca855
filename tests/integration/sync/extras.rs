//! Submodules, large files, and the workflow step.

use super::{Bench, git, git_command};
use crate::support::Workspace;

#[test]
fn submodules_are_fetched_on_request() {
    let bench = Bench::new();
    let sub = bench.workspace.path("sub");
    git(bench.workspace.root(), &["clone", "-q", "upstream", "sub"]);
    let url = format!("file://{}", sub.display());
    let mut add = git_command(
        &bench.upstream(),
        &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &url, "parts/sub"],
    );
    assert!(add.status().unwrap().success());
    git(&bench.upstream(), &["commit", "-q", "-m", "sub"]);
    assert_eq!(bench.synced(&[])["notes"].as_array().unwrap().len(), 1);
    assert!(!bench.clone().join("parts/sub/README.md").exists());
    assert_eq!(bench.synced(&["--submodules"])["notes"], serde_json::Value::Null);
    assert_eq!(std::fs::read_to_string(bench.clone().join("parts/sub/README.md")).unwrap(), "one\n");
    assert_eq!(git(&bench.clone(), &["status", "--porcelain"]), "");
    assert_eq!(bench.synced(&["--submodules"])["change"], "unchanged");
    // Once fetched, they are kept up to date.
    git(&sub, &["commit", "-q", "--allow-empty", "-m", "more"]);
    git(&bench.upstream().join("parts/sub"), &["pull", "-q"]);
    bench.commit("README.md", "two\n");
    assert_eq!(bench.synced(&[])["change"], "updated");
    assert_eq!(git(&bench.clone(), &["status", "--porcelain"]), "");
    assert_eq!(
        git(&bench.clone().join("parts/sub"), &["rev-parse", "HEAD"]),
        git(&sub, &["rev-parse", "HEAD"])
    );
}

#[test]
fn large_files_are_reported_and_need_git_lfs() {
    let bench = Bench::new();
    bench.commit(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\nsize 12345\n";
    bench.commit("data.bin", pointer);
    assert_eq!(
        bench.synced(&[])["notes"][0],
        "large files are pointers of git-lfs; `run-evals sync one --lfs` fetches them"
    );
    assert_eq!(std::fs::read_to_string(bench.clone().join("data.bin")).unwrap(), pointer);
    // Without git-lfs: a `PATH` with only git.
    let bin = bench.workspace.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let git_program =
        std::env::split_paths(&path).map(|dir| dir.join("git")).find(|path| path.is_file()).unwrap();
    std::os::unix::fs::symlink(git_program, bin.join("git")).unwrap();
    bench.commit("README.md", "two\n");
    let mut command = bench.workspace.command(&["sync", "one", "--allow-local", "--lfs", "-q"]);
    let output = command.env("PATH", &bin).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap().trim_end(), @r"
    error: one: `--lfs` needs git-lfs, which is not installed

    hint: install git-lfs, or omit `--lfs` to get pointers instead of large files
    ");
}

#[test]
fn a_step_gets_outputs_and_a_summary() {
    let workspace = Workspace::new();
    let (output, summary) = (workspace.path("out"), workspace.path("summary"));
    let workspace = workspace
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_OUTPUT", output.to_str().unwrap())
        .env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap());
    let source = Bench::new();
    let upstream = source.upstream().display().to_string();
    workspace.write("r.yaml", format!("benchmarks:\n  - {{id: a, path: a, source: {{url: {upstream}, ref: main}}}}\n  - {{id: b, path: b, source: {{url: {upstream}, ref: '<x>'}}}}\n"));
    let mut step = workspace.command(&[]);
    step.env("INPUT_MODE", "sync")
        .env("INPUT_REGISTRY", "r.yaml")
        .env("INPUT_IDS", "a\nb")
        .env("INPUT_ALLOW-LOCAL", "true");
    assert_eq!(step.output().unwrap().status.code(), Some(1));
    let outputs = workspace.read("out");
    assert!(
        outputs.contains("synced<<") && outputs.contains("\n1\n") && outputs.contains("unsynced<<"),
        "{outputs}"
    );
    let commit = git(&source.upstream(), &["rev-parse", "HEAD"]);
    assert!(outputs.contains(&format!("\"commit\":\"{commit}\"")), "{outputs}");
    let summary =
        workspace.read("summary").replace(&commit[..12], "[commit]").replace(&upstream, "[upstream]");
    let received = summary.lines().nth(4).unwrap().rsplit('|').nth(1).unwrap().trim().to_owned();
    let root = workspace.root().display().to_string();
    insta::assert_snapshot!(summary.replace(&received, "[bytes]").replace(&root, "[dir]").trim_end(), @r"
    ### Benchmarks

    | id | sync | ref | commit | received |
    | --- | --- | --- | --- | --- |
    | a | cloned | main | [commit] | [bytes] |
    | b | failed | &lt;x> | – | – |

    - **b**: '&lt;x>' is neither a branch nor a tag of '[upstream]' – change 'source.ref' of 'b' in '[dir]/r.yaml'
    ");
}
