//! A commit that means no good.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::stage::{LIBRARY, SKILL, Stage, TOKEN, commit_all, git};

fn skill(dir: &Path) -> std::path::PathBuf {
    dir.join("components").join(SKILL)
}

/// What is said of the library after a change of its default branch; no model is asked.
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

    hint: put the file itself there: links are not followed
    ");
    // A folder that is one, and what is in it.
    let said = refused(|dir| {
        std::fs::remove_dir_all(skill(dir).join("evals/cases/birch-lab")).unwrap();
        symlink("/etc", skill(dir).join("evals/cases/birch-lab")).unwrap();
    });
    assert!(said.contains("evals/cases/birch-lab` is a symbolic link"), "{said}");
}

#[test]
fn submodules_are_not_fetched_and_large_files_not_read() {
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
fn nothing_of_the_commit_or_the_clone_is_run() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let mark = stage.workspace.path("was-run");
    let commit = stage.push(|dir| {
        std::fs::write(dir.join(".gitattributes"), "* filter=evil\n").unwrap();
        // Other skills may have what they like.
        symlink("/etc/passwd", dir.join("components/budget-lines/schema-2.json")).unwrap();
        std::fs::write(dir.join(".evaluator/hook"), "x").unwrap();
    });
    let library = stage.workspace.path("library");
    for hook in ["post-checkout", "post-merge", "pre-push", "reference-transaction", "post-index-change"] {
        let path = library.join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    stage.evaluate(&["--git-sha", &commit, "--replicates", "1", "--open-pr", "-q"]).expect(0);
    assert!(!mark.exists());
    assert_eq!(stage.github.pulls().len(), 1);
}

#[test]
fn the_token_is_for_github_alone() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    // A clone whose `origin` is some other server gets no token, and ways that run commands are closed.
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
fn the_credentials_that_a_checkout_left_do_not_get_in_the_way() {
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
fn names_and_answers_obey_nothing_in_the_pull_request() {
    let stage = Stage::new();
    let models = "models:\n  - id: \"@meadow/all|x](https://evil.example)<img\"\n";
    stage.push(|dir| std::fs::write(dir.join(".evaluator/models.yaml"), models).unwrap());
    let llm = crate::support::MockLlm::start(&["--model", "@meadow/all|x](https://evil.example)<img"]);
    stage.targets(&llm, "");
    let output =
        stage.evaluate(&["--replicates", "1", "--open-pr", "-q", "--git-sha", &stage.commit("main")]);
    let output = output.expect(0);
    let body = &stage.github.pulls()[0].body;
    // All of it is code, in which nothing is obeyed.
    let outside: String = body.split('`').step_by(2).collect();
    assert!(!outside.contains("meadow") && !outside.contains("evil") && !outside.contains("<img"), "{body}");
    assert!(output.stdout.contains("@meadow/all"), "{}", output.stdout);
}

#[test]
fn a_library_that_is_not_clean_is_refused_but_for_what_lies_beside_it() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let library = stage.workspace.path("library");
    // What a workflow puts there plays no part.
    std::fs::write(library.join("notes.txt"), "x").unwrap();
    std::fs::create_dir_all(library.join("data")).unwrap();
    std::fs::write(library.join("data/x.json"), "x").unwrap();
    stage.evaluate(&["--replicates", "1", "-q"]).expect(0);
    // A case that was not committed would be missed.
    std::fs::create_dir_all(library.join(format!("components/{SKILL}/evals/cases/new"))).unwrap();
    std::fs::write(library.join(format!("components/{SKILL}/evals/cases/new/input.md")), "x").unwrap();
    let output = stage.evaluate(&["--replicates", "1", "-q"]).expect(3);
    insta::assert_snapshot!(output.stderr.replace(stage.workspace.root().to_str().unwrap(), "<dir>"), @r"
    error: `<dir>/library` has changes that are not committed, such as `components/grant-letter-extraction/evals/cases/new/input.md`

    hint: what is evaluated is a commit: commit the changes, or take them back
    ");
    commit_all(&library, "A feature");
    // Somebody tries a branch of their own: told, and never published.
    let output = stage.evaluate(&["--replicates", "1", "--open-pr", "-q"]).expect(3);
    assert!(
        output.stderr.contains("is not part of `main`: its entries do not belong there"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_commit_does_not_choose_who_gets_the_key() {
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
    error: `.agentv/targets.yaml` lies in what is evaluated: with it the commit would say where keys are sent

    hint: keep the targets file elsewhere and name it with `--targets FILE`; whoever names this one trusts all who can write to the branch that is checked out
    ");
    // A link that leads out of it is the commit's as well.
    std::fs::remove_dir_all(library.join(".agentv")).unwrap();
    symlink("../targets.yaml", library.join("targets.yaml")).unwrap();
    commit_all(&library, "A link");
    assert!(run(&[]).1.contains("`targets.yaml` lies in what is evaluated"));
    // Nor does its `.env` fill in what the operator's targets leave open.
    std::fs::write(library.join(".env"), format!("GATEWAY={}\n", listener.base_url())).unwrap();
    commit_all(&library, "Variables of our own");
    stage.workspace.write("operator.yaml", evil.replace(&listener.base_url(), "${{ GATEWAY }}"));
    let (code, said) = run(&["--targets", "../operator.yaml"]);
    assert!(code == Some(3) && said.contains("`GATEWAY`"), "{code:?} {said}");
    assert_eq!(listener.counter("requests"), 0);
    // Who names the file has decided.
    let (code, said) = run(&["--targets", "../targets.yaml"]);
    assert!(code == Some(0) && listener.counter("requests") > 0, "{code:?} {said}");
}
