//! A hostile commit.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::stage::{LIBRARY, SKILL, Stage, TOKEN, commit_all, git};

fn skill(dir: &Path) -> std::path::PathBuf {
    dir.join("components").join(SKILL)
}

/// The error for the library after a change of its default branch; no model is called.
fn refused(change: impl FnOnce(&Path)) -> String {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let commit = stage.push(change);
    let output = stage.evaluate(&["--git-sha", &commit, "-q"]).expect(3);
    assert_eq!(llm.counter("requests"), 0);
    output.stderr
}

#[test]
fn links_are_not_followed() {
    let said = refused(|dir| {
        std::fs::remove_file(skill(dir).join("prompt.md")).unwrap();
        symlink("/etc/passwd", skill(dir).join("prompt.md")).unwrap();
    });
    insta::assert_snapshot!(said, @r"
    error: `components/grant-letter-extraction/prompt.md` is a symbolic link

    hint: replace it with the file: links are not followed
    ");
    // A folder that is a link, and the files in it.
    let said = refused(|dir| {
        std::fs::remove_dir_all(skill(dir).join("evals/cases/birch-lab")).unwrap();
        symlink("/etc", skill(dir).join("evals/cases/birch-lab")).unwrap();
    });
    assert!(said.contains("evals/cases/birch-lab` is a symbolic link"), "{said}");
}

#[test]
fn submodules_are_not_fetched_and_large_files_are_not_read() {
    let said = refused(|dir| {
        let commit = git(dir, &["rev-parse", "HEAD"]);
        let entry = format!("160000,{commit},components/{SKILL}/evals/cases/other");
        git(dir, &["update-index", "--add", "--cacheinfo", &entry]);
        std::fs::create_dir_all(skill(dir).join("evals/cases/other")).unwrap();
        git(dir, &["commit", "--quiet", "-m", "Add a submodule"]);
    });
    assert!(said.contains("evals/cases/other` is a submodule"), "{said}");
    let said = refused(|dir| {
        std::fs::write(skill(dir).join("evals/cases/birch-lab/input.md"), vec![b'x'; 9 << 20]).unwrap();
    });
    assert!(said.contains("evals/cases/birch-lab/input.md` is larger than 8 MiB"), "{said}");
}

#[test]
fn no_code_of_the_commit_or_the_clone_is_run() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let mark = stage.workspace.path("was-run");
    let commit = stage.push(|dir| {
        std::fs::write(dir.join(".gitattributes"), "* filter=evil\n").unwrap();
        // Other skills may contain anything.
        symlink("/etc/passwd", dir.join("components/budget-lines/schema-2.json")).unwrap();
        std::fs::write(dir.join(".evaluator/hook"), "x").unwrap();
    });
    let library = stage.workspace.path("library");
    for hook in ["post-checkout", "post-merge", "pre-push", "reference-transaction", "post-index-change"] {
        let path = library.join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::support::write_program(&path, format!("#!/bin/sh\ntouch {}\n", mark.display()));
    }
    stage.evaluate(&["--git-sha", &commit, "--replicates", "1", "--open-pr", "-q"]).expect(0);
    assert!(!mark.exists());
    assert_eq!(stage.github.pulls().len(), 1);
}

#[test]
fn git_settings_of_the_clone_are_ignored() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let mark = stage.workspace.path("was-run");
    let (library, evil) = (stage.workspace.path("library"), format!("touch {}; cat", mark.display()));
    let commit = stage.push(|dir| std::fs::write(dir.join("NOTES.md"), "new\n").unwrap());
    std::fs::create_dir_all(library.join(".git/info")).unwrap();
    std::fs::write(library.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.external",
        "gpg.program",
        "gc.recentObjectsHook",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
    ] {
        git(&library, &["config", key, &evil]);
    }
    // Settings that would send the token elsewhere.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = format!("http://{}/", listener.local_addr().unwrap());
    let server = format!("{}/", stage.github.urls().server_url);
    git(&library, &["config", "http.proxy", &elsewhere]);
    git(&library, &["config", &format!("http.{server}.proxy"), &elsewhere]);
    git(&library, &["config", &format!("url.{elsewhere}.insteadOf"), &server]);
    // So that git has to look at the content of a file.
    let touched = library.join("README.md");
    std::fs::write(&touched, std::fs::read(&touched).unwrap()).unwrap();
    stage.evaluate(&["--git-sha", &commit, "--replicates", "1", "--open-pr", "-q"]).expect(0);
    assert!(!mark.exists(), "a command of the clone was run");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the clone chose where its remote is reached");
    assert_eq!(stage.github.pulls().len(), 1);
}

#[test]
fn the_token_is_sent_only_to_github() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    // A clone whose `origin` is another server gets no token, and transports that run commands are disabled.
    for url in [
        format!("{}/{LIBRARY}.git", llm.base_url()),
        "ext::sh -c 'touch was-run'".to_owned(),
        "/etc".to_owned(),
    ] {
        git(&stage.workspace.path("library"), &["remote", "set-url", "origin", &url]);
        let output = stage.evaluate(&["-q"]).expect(1);
        assert!(
            !output.stderr.contains(TOKEN) && !stage.workspace.path("was-run").exists(),
            "{}",
            output.stderr
        );
    }
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn credentials_left_by_a_checkout_are_ignored() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let key = format!("http.{}/.extraheader", stage.github.urls().server_url);
    git(
        &stage.workspace.path("library"),
        &["config", &key, "AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46Z2hzX2dvbmU="],
    );
    stage.evaluate(&["--replicates", "1", "--open-pr", "-q"]).expect(0);
    assert_eq!(stage.github.pulls().len(), 1);
}

#[test]
fn names_and_answers_cannot_inject_markdown_into_the_pull_request() {
    let stage = Stage::new();
    let models = "models:\n  - id: \"@meadow/all|x](https://evil.example)<img\"\n";
    stage.push(|dir| std::fs::write(dir.join(".evaluator/models.yaml"), models).unwrap());
    let llm = crate::support::MockLlm::start(&["--model", "@meadow/all|x](https://evil.example)<img"]);
    stage.targets(&llm, "");
    let output =
        stage.evaluate(&["--replicates", "1", "--open-pr", "-q", "--git-sha", &stage.commit("main")]);
    let output = output.expect(0);
    let body = &stage.github.pulls()[0].body;
    // All of it is inside code spans, where markdown has no effect.
    let outside: String = body.split('`').step_by(2).collect();
    assert!(!outside.contains("meadow") && !outside.contains("evil") && !outside.contains("<img"), "{body}");
    assert!(output.stdout.contains("@meadow/all"), "{}", output.stdout);
}

#[test]
fn a_dirty_library_is_refused_except_for_unrelated_untracked_files() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let library = stage.workspace.path("library");
    // Files that a workflow adds are ignored.
    std::fs::write(library.join("notes.txt"), "x").unwrap();
    std::fs::create_dir_all(library.join("data")).unwrap();
    std::fs::write(library.join("data/x.json"), "x").unwrap();
    stage.evaluate(&["--replicates", "1", "-q"]).expect(0);
    // An uncommitted case would be missed.
    std::fs::create_dir_all(library.join(format!("components/{SKILL}/evals/cases/new"))).unwrap();
    std::fs::write(library.join(format!("components/{SKILL}/evals/cases/new/input.md")), "x").unwrap();
    let output = stage.evaluate(&["--replicates", "1", "-q"]).expect(3);
    insta::assert_snapshot!(output.stderr.replace(stage.workspace.root().to_str().unwrap(), "<dir>"), @r"
    error: `<dir>/library` has uncommitted changes, such as `components/grant-letter-extraction/evals/cases/new/input.md`

    hint: only commits are evaluated: commit or discard the changes
    ");
    commit_all(&library, "A feature");
    // A commit on another branch can be evaluated, but is never published.
    let output = stage.evaluate(&["--replicates", "1", "--open-pr", "-q"]).expect(3);
    assert!(
        output.stderr.contains("is not part of `main`: its entries do not belong there"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_commit_cannot_choose_where_the_key_is_sent() {
    let stage = Stage::new();
    let listener = crate::support::MockLlm::start(&["--model=meadow/quill-large"]);
    stage.targets(&listener, "");
    let evil = stage.workspace.read("targets.yaml");
    let (library, api) = (stage.workspace.path("library"), stage.github.urls().api_url.clone());
    // The library is the working directory, as in a step without `library`.
    let run = |more: &[&str]| {
        let args = ["evaluate", SKILL, "--datasets", "../datasets", "--token-file", "../token.txt"];
        let options = ["--github-api-url", &api, "--replicates", "1", "-q"];
        let mut command = stage.workspace.command(&[&args[..], &options, more].concat());
        let output = command.current_dir(&library).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    std::fs::create_dir_all(library.join(".agentv")).unwrap();
    std::fs::write(library.join(".agentv/targets.yaml"), &evil).unwrap();
    commit_all(&library, "Targets of our own");
    let (code, said) = run(&[]);
    assert_eq!(code, Some(3), "{said}");
    insta::assert_snapshot!(said, @r"
    error: `.agentv/targets.yaml` is in the evaluated repository, so a commit could redirect the API keys

    hint: keep the targets file elsewhere and pass it with `--targets FILE`; passing this one trusts everyone who can write to the checked-out branch
    ");
    // A link that leads out of the checkout belongs to the commit, too.
    std::fs::remove_dir_all(library.join(".agentv")).unwrap();
    symlink("../targets.yaml", library.join("targets.yaml")).unwrap();
    commit_all(&library, "A link");
    assert!(run(&[]).1.contains("`targets.yaml` is in the evaluated repository"));
    // Its `.env` does not set variables that the operator's targets leave open.
    std::fs::write(library.join(".env"), format!("GATEWAY={}\n", listener.base_url())).unwrap();
    commit_all(&library, "Variables of our own");
    stage.workspace.write("operator.yaml", evil.replace(&listener.base_url(), "${{ GATEWAY }}"));
    let (code, said) = run(&["--targets", "../operator.yaml"]);
    assert!(code == Some(3) && said.contains("`GATEWAY`"), "{code:?} {said}");
    assert_eq!(listener.counter("requests"), 0);
    // A file named on the command line is trusted.
    let (code, said) = run(&["--targets", "../targets.yaml"]);
    assert!(code == Some(0) && listener.counter("requests") > 0, "{code:?} {said}");
}
