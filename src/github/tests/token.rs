//! The precedence of tokens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::shown;
use crate::github::{TokenSources, find_token};
use crate::model::{Failure, Secret};
use crate::util::process_env::ProcessEnv;

const GITHUB: &str = "https://api.github.com";
const SERVER: &str = "https://git.acme.example:8443/api/v3";

/// Every source of a token, in order of precedence.
const ORDER: [&str; 3] = ["INPUT_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

fn find(api_url: &str, file: Option<&Path>, env: &[(&str, &str)], gh: &Path) -> Result<Secret, Failure> {
    let env = ProcessEnv::of(env.iter().copied());
    find_token(&TokenSources { api_url, token_file: file, env: &env, gh: Some(gh) })
}

/// A program that runs this script. Another process writes it: while this one has it open, a child of another
/// test can inherit the handle, and then it cannot be started.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("gh");
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(script).status().unwrap();
    assert!(status.success());
    path
}

#[test]
fn the_first_source_with_a_token_wins() {
    let folder = tempfile::tempdir().unwrap();
    let gh = program(folder.path(), r#"echo "$*" > "$(dirname "$0")/args"; echo ghp_from_gh"#);
    let file = folder.path().join("token");
    fs::write(&file, "ghp_from_file\n").unwrap();
    let env: Vec<_> = ORDER.map(|name| (name, name)).into();
    let found = |file, env: &[(&str, &str)]| find(GITHUB, file, env, &gh).unwrap().expose().to_owned();
    assert_eq!(found(Some(&file), &env), "ghp_from_file");
    for (index, name) in ORDER.iter().enumerate() {
        assert_eq!(found(None, &env[index..]), *name);
    }
    assert!(!folder.path().join("args").exists(), "it was not called yet");
    // An input that was not set exists and is empty.
    assert_eq!(found(None, &[("INPUT_TOKEN", ""), ("GH_TOKEN", " ")]), "ghp_from_gh");
    assert_eq!(fs::read_to_string(folder.path().join("args")).unwrap(), "auth token --hostname github.com\n");
}

#[test]
fn a_token_for_github_com_is_sent_to_no_other_server() {
    let folder = tempfile::tempdir().unwrap();
    let gh = program(folder.path(), r#"echo "from $4" | tr ' :' '--'"#);
    let common = [("GH_TOKEN", "a"), ("GITHUB_TOKEN", "b")];
    let found = |url: &str, env: &[(&str, &str)]| find(url, None, env, &gh).unwrap().expose().to_owned();
    assert_eq!(found(SERVER, &common), "from-git.acme.example-8443");
    let both = [common[0], ("GITHUB_ENTERPRISE_TOKEN", "d"), ("GH_ENTERPRISE_TOKEN", "c")];
    assert_eq!(found(SERVER, &both), "c");
    assert_eq!(found(SERVER, &both[..2]), "d");
    assert_eq!(found("https://api.acme.ghe.com/", &common), "a");
    assert_eq!(found("https://api.acme.ghe.com", &[both[2]]), "from-acme.ghe.com");
    assert_eq!(found("https://api.acme.example", &[]), "from-api.acme.example");
}

#[test]
fn a_missing_token_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let told = |url, env: &[(&str, &str)], gh: &Path| shown(&find(url, None, env, gh).unwrap_err());
    let missing = folder.path().join("missing");
    insta::assert_snapshot!(told(GITHUB, &[], &missing), @r"
    Config: no GitHub token for `github.com`: no `--token-file`, no `token` input, no `GH_TOKEN`, no `GITHUB_TOKEN`, and `gh` is not installed
    hint: set `GH_TOKEN` to a token of `github.com`, or sign in with `gh auth login --hostname github.com`
    ");
    let signed_out = program(folder.path(), "echo 'no oauth token' >&2; exit 1");
    insta::assert_snapshot!(told(SERVER, &[("GH_TOKEN", "x")], &signed_out), @r"
    Config: no GitHub token for `git.acme.example:8443`: no `--token-file`, no `token` input, no `GH_ENTERPRISE_TOKEN`, no `GITHUB_ENTERPRISE_TOKEN`, and `gh auth token --hostname git.acme.example:8443` has none; `GH_TOKEN` is set, but is sent to github.com and `*.ghe.com` only
    hint: set `GH_ENTERPRISE_TOKEN` to a token of `git.acme.example:8443`, or sign in with `gh auth login --hostname git.acme.example:8443`
    ");
}

#[test]
fn files_without_a_token_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let told = || {
        let text = shown(&find(GITHUB, Some(&file), &[("GH_TOKEN", "x")], Path::new("gh")).unwrap_err());
        text.replace(&file.display().to_string(), "FILE")
    };
    insta::assert_snapshot!(told(), @r"
    Config: cannot read the token file `FILE`: No such file or directory (os error 2)
    hint: `--token-file` takes a file that contains only the token
    ");
    fs::write(&file, " \n").unwrap();
    insta::assert_snapshot!(told(), @r"
    Config: `FILE` holds no token
    hint: it must contain only the token
    ");
    fs::write(&file, "token: ghp_1\n").unwrap();
    insta::assert_snapshot!(told(), @r"
    Config: `FILE` contains a line break or another illegal character
    hint: it must contain only the token
    ");
}
