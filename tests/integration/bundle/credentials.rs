//! Files that look like credentials: none gets into a bundle by accident.

use std::os::unix::fs::symlink;
use std::process::Command;

use insta::assert_snapshot;

use super::{ECHO, left_behind, repository};
use crate::support::{Output, Workspace};

const SUITE: (&str, &str) = (
    "suite.eval.yaml",
    "workspace: {template: ./template}\ntests:\n  - {id: one, criteria: c, input: hello}\n",
);

fn bundle(workspace: &Workspace, more: &[&str]) -> Output {
    let args = [&["bundle", "suite.eval.yaml"][..], more].concat();
    Output::of(workspace.command(&args).current_dir(workspace.path("repo")))
}

/// Only the messages.
fn errors(output: &Output) -> String {
    output.stderr.lines().filter(|line| line.starts_with("error")).map(|line| format!("{line}\n")).collect()
}

/// Random text that no secret scanner mistakes for a real key.
fn random(length: usize) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    (0..length).map(|_| char::from(alphabet[next() % alphabet.len()])).collect()
}

fn private_key() -> String {
    let kind = "PRIVATE KEY";
    format!("-----BEGIN {kind}-----\n{}\n{}\n-----END {kind}-----\n", random(64), random(64))
}

#[test]
fn a_credential_file_name_stops_the_bundle() {
    let names = [
        ".netrc",
        "_netrc",
        "ID_RSA",
        "id_ed25519",
        "server.pem",
        "server.key",
        "a.p12",
        "a.pfx",
        "a.kdbx",
        ".git-credentials",
        ".aws/credentials",
        ".docker/config.json",
        ".kube/config",
        "kubeconfig",
        "prod.kubeconfig",
        "terraform.tfstate",
        "application_default_credentials.json",
        ".pgpass",
        ".gnupg/secring.gpg",
        ".config/gh/hosts.yml",
        ".cargo/credentials.toml",
        ".vault-token",
    ];
    let files: Vec<(String, &str)> = names.iter().map(|name| (format!("template/{name}"), "x")).collect();
    let mut all = vec![ECHO, SUITE, ("template/x.md", "x")];
    all.extend(files.iter().map(|(name, text)| (name.as_str(), *text)));
    let workspace = repository(&all);
    let output = bundle(&workspace, &["-o", "out"]).expect(3);
    assert!(!workspace.path("repo/out").exists());
    let told = errors(&output);
    for name in names {
        assert!(told.contains(&format!("`template/{name}`")), "{name}: {told}");
    }
    assert_eq!(told.lines().count(), names.len(), "{told}");
    // `--check` lists all of them, too.
    let check = bundle(&workspace, &["--check"]).expect(3);
    assert_eq!(errors(&check), told);
    let first: Vec<&str> = output.stderr.lines().take(8).collect();
    assert_snapshot!(first.join("\n"), @r"
    error: `template/.aws/credentials` appears to contain credentials
      --> suite.eval.yaml:1:23
       |
     1 | workspace: {template: ./template}
       |                       ^^^^^^^^^^

    hint: remove it, or pass `--include template/.aws/credentials` to bundle it anyway
    ");
}

#[test]
fn environment_files_are_left_out_and_examples_are_bundled() {
    let names = [".env", ".env.production", ".ENV.staging", ".envrc", ".dev.vars", "deep/.env.local"];
    let files: Vec<String> = names.iter().map(|name| format!("template/{name}")).collect();
    let mut all = vec![ECHO, SUITE, ("template/.env.example", "A=\n"), ("template/.env.sample", "A=\n")];
    all.extend(files.iter().map(|name| (name.as_str(), "KEY=value\n")));
    let workspace = repository(&all);
    bundle(&workspace, &["-o", "out"]).expect(0);
    let out = workspace.path("repo/out");
    for name in names {
        assert!(!out.join("workspace/template").join(name).exists(), "{name} is in the bundle");
        let left = left_behind(&out);
        assert!(left.iter().any(|(what, _)| *what == format!("template/{name}")), "{name}: {left:?}");
    }
    assert!(out.join("workspace/template/.env.example").exists());
    assert!(out.join("workspace/template/.env.sample").exists());
}

#[test]
fn a_key_in_a_file_stops_the_bundle_and_is_not_shown() {
    let (short, long) = (random(36), random(93));
    let slack = format!("xoxb-{}-{}-{}", "104729384756", "938475610472", random(24));
    let files = [
        ("template/notes.txt", format!("one\n\n{}", private_key())),
        ("template/account.json", format!("{{\n  \"private_key\": {:?}\n}}\n", private_key())),
        ("template/a.md", format!("a\nb ghp_{short} c\n")),
        ("template/b.md", format!("github_pat_{}_{}\n", random(22), random(59))),
        ("template/c.md", format!("\n\nkey=\"sk-ant-api03-{long}\"\n")),
        ("template/d.md", format!("sk-proj-{long}\n")),
        (
            "template/e.md",
            format!(
                "aws AKIA{}\n",
                random(40).to_uppercase().replace(['0', '1', '8', '9'], "Q").get(..16).unwrap()
            ),
        ),
        ("template/f.md", slack),
        ("template/.npmrc", format!("registry=x\n//r.example/:_authToken={short}\n")),
        ("template/.pypirc", format!("[pypi]\nusername = u\npassword = {short}\n")),
        (
            "template/config.yml",
            format!("apiVersion: v1\nkind: Config\nusers:\n- user:\n    client-key-data: {long}\n"),
        ),
    ];
    let mut all = vec![ECHO, SUITE];
    all.extend(files.iter().map(|(name, text)| (*name, text.as_str())));
    let workspace = repository(&all);
    let output = bundle(&workspace, &["-o", "out"]).expect(3);
    assert!(!workspace.path("repo/out").exists());
    assert_snapshot!(errors(&output), @r"
    error: `template/.npmrc:2` appears to contain a token
    error: `template/.pypirc:3` appears to contain a password
    error: `template/a.md:2` appears to contain a GitHub token
    error: `template/account.json:2` appears to contain a private key
    error: `template/b.md:1` appears to contain a GitHub token
    error: `template/c.md:3` appears to contain an Anthropic key
    error: `template/config.yml:5` appears to contain a private key of a kubeconfig
    error: `template/d.md:1` appears to contain an OpenAI key
    error: `template/e.md:1` appears to contain an AWS key
    error: `template/f.md:1` appears to contain a Slack token
    error: `template/notes.txt:3` appears to contain a private key
    ");
    for secret in [short.as_str(), &long, &private_key()[40..80]] {
        assert!(!output.stderr.contains(&secret[..12]), "a part of a key is shown");
    }
    assert_eq!(errors(&bundle(&workspace, &["--check"]).expect(3)), errors(&output));
}

#[test]
fn texts_about_keys_are_bundled() {
    let files = [
        (
            "template/docs.md",
            "Set `OPENAI_API_KEY=sk-...`, `sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`, ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
        ),
        (
            "template/more.md",
            "sk-proj-0123456789abcdef0123456789abcdef0123456789abcdef AKIAIOSFODNN7EXAMPLE ghp_your_token_here\n",
        ),
        (
            "template/test.py",
            "KEY = 'sk-ant-this-is-only-a-test-key-for-unit-tests-and-nothing-else-0000'\nassert '-----BEGIN PRIVATE KEY-----' in text\n",
        ),
        ("template/pem.md", "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----\n"),
        ("template/.npmrc", "//npm.example.com/:_authToken=${NPM_TOKEN}\nregistry=https://npm.example.com\n"),
        ("template/ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
        ("template/config.json", "{}"),
        ("template/config", "x"),
        ("template/credentials.py", "x"),
        ("template/monkey.md", "task-proj-ects and risk-ant-farm\n"),
        ("template/id_rsa.pub", "ssh-rsa AAAA me@example.com\n"),
        ("template/key.ts", "export const key = 1\n"),
    ];
    let mut all = vec![ECHO, SUITE];
    all.extend(files);
    let workspace = repository(&all);
    bundle(&workspace, &["-o", "out"]).expect(0);
    for (name, _) in files {
        assert!(workspace.path("repo/out/workspace").join(name).exists(), "{name}");
    }
}

#[test]
fn git_ignored_files_are_bundled_only_if_the_suite_names_them() {
    let suite = "workspace: {template: ./template}\ninput_files: [notes/ignored.md]\ntests:\n  - {id: one, criteria: c, input: hello}\n";
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", suite),
        (".gitignore", "ignored*\nbuilt/\nid_rsa\n"),
        ("template/x.md", "x"),
        ("notes/x.md", "x"),
    ]);
    for name in ["template/ignored.md", "template/built/deep/x.md", "template/id_rsa", "notes/ignored.md"] {
        workspace.write(&format!("repo/{name}"), "x");
    }
    bundle(&workspace, &["-o", "out"]).expect(0);
    let out = workspace.path("repo/out");
    let files: Vec<String> = super::manifest(&out)["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        files,
        ["data/notes/ignored.md", "eval.yaml", "scripts/.keep", "targets.yaml", "workspace/template/x.md"]
    );
    let left: String = left_behind(&out).iter().map(|(what, why)| format!("{what}: {why}\n")).collect();
    assert_snapshot!(left, @r"
    template/built: ignored by git and not named by the suite
    template/id_rsa: ignored by git and not named by the suite
    template/ignored.md: ignored by git and not named by the suite
    ");

    // A template that git ignores entirely is named as a whole.
    let suite = suite.replace("./template", "./built");
    workspace.write("repo/suite.eval.yaml", &suite);
    workspace.write("repo/built/x.md", "x");
    workspace.write("repo/built/ignored.md", "x");
    bundle(&workspace, &["-o", "other"]).expect(0);
    assert!(workspace.path("repo/other/workspace/built/x.md").exists());
    assert!(workspace.path("repo/other/workspace/built/ignored.md").exists());
}

#[test]
fn an_allowed_credential_file_is_bundled() {
    let key = private_key();
    let token = format!("ghp_{}\n", random(36));
    let files = [
        ("template/id_rsa", key.as_str()),
        ("template/token.md", token.as_str()),
        ("template/.env.production", "A=b\n"),
        ("template/x.md", "x"),
    ];
    let mut all = vec![ECHO, SUITE, (".gitignore", "local.md\n")];
    all.extend(files);
    let workspace = repository(&all);
    workspace.write("repo/template/local.md", "x");
    let include = ["template/id_rsa", "./template/token.md", "template/.env.production", "template/local.md"];
    let options: Vec<&str> = include.iter().flat_map(|file| ["--include", file]).collect();
    bundle(&workspace, &[&options[..], &["-o", "out"]].concat()).expect(0);
    for name in ["id_rsa", "token.md", ".env.production", "local.md", "x.md"] {
        assert!(workspace.path("repo/out/workspace/template").join(name).exists(), "{name}");
    }
    workspace.run(&["bundle", "verify", "repo/out"]).expect(0);
    let flags = super::manifest(&workspace.path("repo/out"))["flags"].clone();
    assert_eq!(
        flags,
        serde_json::json!([
            "--include=template/.env.production",
            "--include=template/id_rsa",
            "--include=template/local.md",
            "--include=template/token.md"
        ])
    );
    // Allowing one file does not allow another.
    bundle(&workspace, &["-o", "none", "--include", "template/id_rsa"]).expect(3);
    // An allowed file must exist and be referenced by the suite.
    workspace.write("repo/apart.md", "x");
    workspace.write("outside.md", "x");
    let mut told = String::new();
    for file in ["template/gone.md", "template", "apart.md", "../outside.md"] {
        let all = [&options[..], &["--include", file, "--check"]].concat();
        told.push_str(&errors(&bundle(&workspace, &all).expect(3)));
    }
    assert_snapshot!(told, @r"
    error: `--include template/gone.md`: no such file
    error: `--include template`: it is a directory
    error: `--include apart.md`: the suite does not refer to it
    error: `--include ../outside.md`: outside the repository
    ");
}

#[test]
fn a_key_in_the_suite_itself_and_a_credential_that_a_script_names_are_found() {
    let token = format!("ghp_{}", random(36));
    let suite = format!("tests:\n  - id: one\n    criteria: c\n    input: Is {token} a key?\n");
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &suite)]);
    let output = bundle(&workspace, &["-o", "out"]).expect(3);
    assert!(!output.stderr.contains(&token), "{}", output.stderr);
    assert_snapshot!(output.stderr, @r"
    error: `suite.eval.yaml:4` appears to contain a GitHub token
      --> suite.eval.yaml:4:1

    hint: remove it, or pass `--include suite.eval.yaml` to bundle it anyway
    ");
    bundle(&workspace, &["-o", "out", "--include", "suite.eval.yaml"]).expect(0);

    let suite = "tests:\n  - id: one\n    criteria: c\n    input: hello\n    assertions:\n      - {type: code-grader, name: g, command: sh tools/check.sh}\n";
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", suite),
        ("tools/check.sh", "#!/bin/sh\n. ../keys/.env.production\nssh -i ../keys/id_rsa\n"),
        ("keys/.env.production", "A=b\n"),
        ("keys/id_rsa", "x"),
    ]);
    let output = bundle(&workspace, &["-o", "out"]).expect(3);
    assert_snapshot!(errors(&output), @r"error: `keys/id_rsa` appears to contain a private key");
}

#[test]
fn the_action_has_the_same_option() {
    let workspace = repository(&[ECHO, SUITE, ("template/id_rsa", "x"), ("template/a.key", "x")]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-evals"));
    workspace.like(&mut command).current_dir(workspace.path("repo"));
    command.env("INPUT_MODE", "bundle").env("INPUT_SUITE", "suite.eval.yaml").env("INPUT_OUTPUT", "out");
    command.env("INPUT_INCLUDE", "template/id_rsa\ntemplate/a.key\n");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(workspace.path("repo/out/workspace/template/a.key").exists());
}

#[test]
fn git_ignored_files_are_not_bundled_through_a_link() {
    let workspace = repository(&[
        ECHO,
        SUITE,
        (".gitignore", "private/\n*.secret\n"),
        ("template/x.md", "x"),
        ("shared/y.md", "y"),
    ]);
    for name in ["private/notes.txt", "x.secret", "shared/deep/z.secret", "shared/deep/z.md"] {
        workspace.write(&format!("repo/{name}"), "own");
    }
    symlink("shared/deep", workspace.path("repo/way")).unwrap();
    for (name, to) in [
        ("out", "../private"),
        ("one", "../x.secret"),
        ("again", "one"),
        ("deep", "../way"),
        ("through", "../way/z.secret"),
        ("fine", "../shared/y.md"),
    ] {
        symlink(to, workspace.path("repo/template").join(name)).unwrap();
    }
    bundle(&workspace, &["-o", "out"]).expect(0);
    let out = workspace.path("repo/out");
    let listed = |dir: &std::path::Path| -> Vec<String> {
        let files = super::manifest(dir)["files"].as_array().unwrap().clone();
        let paths = files.iter().map(|file| file["path"].as_str().unwrap().to_owned());
        paths.filter(|path| path.starts_with("workspace/")).collect()
    };
    assert_eq!(
        listed(&out),
        [
            "workspace/shared/deep/z.md",
            "workspace/shared/y.md",
            "workspace/template/deep",
            "workspace/template/fine",
            "workspace/template/x.md",
            "workspace/way",
        ]
    );
    let left: String = left_behind(&out).iter().map(|(what, why)| format!("{what}: {why}\n")).collect();
    assert_snapshot!(left, @r"
    shared/deep/z.secret: ignored by git and not named by the suite
    template/again: ignored by git and not named by the suite
    template/one: ignored by git and not named by the suite
    template/out: ignored by git and not named by the suite
    template/through: ignored by git and not named by the suite
    ");
    workspace.run(&["bundle", "verify", "repo/out"]).expect(0);
    // Named one by one, they are bundled together with the links to them.
    let include = ["--include", "x.secret", "--include", "private/notes.txt"];
    bundle(&workspace, &[&include[..], &["-o", "all"]].concat()).expect(0);
    let all = listed(&workspace.path("repo/all"));
    for path in [
        "workspace/private/notes.txt",
        "workspace/x.secret",
        "workspace/template/out",
        "workspace/template/one",
    ] {
        assert!(all.iter().any(|known| known == path), "{path}: {all:?}");
    }
    workspace.run(&["bundle", "verify", "repo/all"]).expect(0);
}

/// A file that is named through a link to its directory; the directory is bundled as a link.
#[test]
fn a_file_below_a_link_is_bundled_once() {
    let suite = "workspace: {template: ./template}\ntests:\n  - {id: one, criteria: c, input: hello}\n";
    let workspace = repository(&[ECHO, ("suite.eval.yaml", suite), ("real/a.md", "a"), ("real/b.md", "b")]);
    std::fs::create_dir(workspace.path("repo/template")).unwrap();
    symlink("../real", workspace.path("repo/template/dir")).unwrap();
    symlink("dir/a.md", workspace.path("repo/template/one")).unwrap();
    bundle(&workspace, &["-o", "out", "--archive"]).expect(0);
    workspace.run(&["bundle", "verify", "repo/out"]).expect(0);
    workspace.run(&["bundle", "verify", "repo/out.tar.gz"]).expect(0);
    assert_eq!(workspace.read("repo/out/workspace/template/one"), "a");
}

#[test]
fn a_key_in_utf_16_text_stops_the_bundle() {
    let text = format!("one\r\ntwo ghp_{} ü\r\n", random(36));
    let wide = |mark: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("{mark}{text}").encode_utf16().flat_map(bytes).collect()
    };
    let workspace = repository(&[ECHO, SUITE, ("template/x.md", "x")]);
    let mark = "\u{feff}";
    workspace.write("repo/template/a.txt", wide(mark, u16::to_le_bytes));
    workspace.write("repo/template/b.txt", wide(mark, u16::to_be_bytes));
    workspace.write("repo/template/c.txt", wide("", u16::to_le_bytes));
    workspace.write("repo/template/d.txt", wide("", u16::to_be_bytes));
    assert_snapshot!(errors(&bundle(&workspace, &["-o", "out"]).expect(3)), @r"
    error: `template/a.txt:2` appears to contain a GitHub token
    error: `template/b.txt:2` appears to contain a GitHub token
    error: `template/c.txt:2` appears to contain a GitHub token
    error: `template/d.txt:2` appears to contain a GitHub token
    ");
}

#[test]
fn the_recorded_repository_url_has_no_token() {
    let token = format!("ghp_{}", random(36));
    for (url, shown) in [
        (format!("https://github.com/o/r.git?token={token}"), "https://github.com/o/r.git"),
        (format!("https://github.com/o/r.git#{token}"), "https://github.com/o/r.git"),
        (format!("{token}@github.com:o/r.git"), "github.com:o/r.git"),
        (format!("ssh://{}@host/o/r", &token[..20]), "ssh://host/o/r"),
        ("git@github.com:o/r.git".to_owned(), "git@github.com:o/r.git"),
    ] {
        let workspace = repository(&[ECHO, SUITE, ("template/x.md", "x")]);
        let mut git = Command::new("git");
        workspace.like(git.args(["remote", "add", "origin", &url])).current_dir(workspace.path("repo"));
        assert!(git.status().unwrap().success());
        bundle(&workspace, &["-o", "out"]).expect(0);
        let out = workspace.path("repo/out");
        assert!(!workspace.read("repo/out/manifest.json").contains(&token[..20]), "{url}");
        assert_eq!(super::manifest(&out)["source"]["repository"], shown, "{url}");
    }
}
