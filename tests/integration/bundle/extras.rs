//! Files that the manifest does not list: rejected in archives, and named in directories.

use std::io::Write as _;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use super::repository;
use crate::support::Workspace;

const MOCK: (&str, &str) = ("targets.yaml", "targets:\n  - {name: default, provider: mock}\n");
const SUITE: (&str, &str) =
    ("suite.eval.yaml", "input_files: [notes.md]\ntests:\n  - {id: one, criteria: c, input: hello}\n");
const FILES: [&str; 4] = ["manifest.json", "eval.yaml", "targets.yaml", "data/notes.md"];

fn bundled() -> Workspace {
    let workspace = repository(&[MOCK, SUITE, ("notes.md", "x")]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    workspace
}

/// An entry with an arbitrary name.
fn entry(tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    let name = format!("suite/{name}");
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    if kind == tar::EntryType::Symlink {
        header.as_old_mut().linkname[..content.len()].copy_from_slice(content);
    }
    let content = if kind == tar::EntryType::Regular { content } else { &[] };
    header.set_size(content.len() as u64);
    header.set_mode(if kind == tar::EntryType::Symlink { 0o777 } else { 0o644 });
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

fn save(workspace: &Workspace, tar: tar::Builder<Vec<u8>>) {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar.into_inner().unwrap()).unwrap();
    std::fs::write(workspace.path("forged.tar.gz"), gzip.finish().unwrap()).unwrap();
}

/// What `verify` says of the forged archive; the other commands must reject it too.
fn refusal(workspace: &Workspace) -> String {
    for command in [&["eval", "--no-grade"][..], &["dispatch"], &["bundle", "-o", "copy"]] {
        let output = workspace.run(&[command, &["-q", "forged.tar.gz"]].concat()).expect(3);
        assert!(output.stderr.contains("forged.tar.gz"), "{}", output.stderr);
        assert!(!workspace.path("copy").exists());
    }
    let told = workspace.run(&["bundle", "verify", "forged.tar.gz"]).expect(3).stderr;
    told.lines().filter(|line| !line.is_empty() && !line.contains("hint")).collect::<Vec<_>>().join(" ")
        + "\n"
}

#[test]
fn an_archive_holds_exactly_what_its_manifest_lists() {
    use tar::EntryType::{Directory, Regular, Symlink};
    let workspace = bundled();
    let cases: [(&str, tar::EntryType, &[u8]); 12] = [
        (".git/config", Regular, b"[core]\n"),
        (".GIT/config", Regular, b"[core]\n"),
        (".run-evals/exchange.git/config", Regular, b"[core]\n"),
        (".run-evals", Symlink, b"data"),
        (".run-evals", Directory, b""),
        (".agentv/results/x", Regular, b"x"),
        (".agentv/cache/x", Regular, b"x"),
        (".env", Regular, b"A=b"),
        ("./data/more.md", Regular, b"x"),
        ("data/notes.md", Regular, b"y"),
        ("data/Notes.md", Regular, b"x"),
        ("manifest.json", Regular, b"{}"),
    ];
    let mut told = String::new();
    for (name, kind, content) in cases {
        let mut tar = tar::Builder::new(Vec::new());
        for file in FILES {
            tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
        }
        entry(&mut tar, name, kind, content);
        save(&workspace, tar);
        told.push_str(&refusal(&workspace));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` is not a bundle: `.git/config` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.GIT/config` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.run-evals/exchange.git/config` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.run-evals` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.run-evals` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.agentv/results/x` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.agentv/cache/x` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `.env` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `./data/more.md` is not a valid path in a bundle
    error: `forged.tar.gz` is not a bundle: `data/notes.md` appears twice
    error: `forged.tar.gz` is not a bundle: `data/Notes.md` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `manifest.json` appears twice
    ");

    // The manifest comes first: nothing that it does not list is written.
    let mut tar = tar::Builder::new(Vec::new());
    for file in FILES.iter().rev() {
        tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
    }
    save(&workspace, tar);
    assert_snapshot!(refusal(&workspace), @r"error: `forged.tar.gz` is not a bundle: its first entry is `suite/data/notes.md`, not the file `NAME/manifest.json`");
}

/// A manifest is untrusted too: it can list files that no real bundle has.
#[test]
fn a_manifest_that_lists_tool_state_is_rejected() {
    let workspace = bundled();
    let text = std::fs::read_to_string(workspace.path("out/manifest.json")).unwrap();
    let content = "[core]\n";
    let mut told = String::new();
    for path in [
        ".git/config",
        "data/.GIT/config",
        ".run-evals/exchange.git/config",
        "data/.Run-Evals/exchange.git/config",
        ".agentv/cache/x",
        ".env",
        "more.md",
        "Manifest.json",
        "data/Notes.md",
    ] {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut listed = manifest["files"][0].clone();
        listed["path"] = path.into();
        listed["size"] = content.len().into();
        listed["sha256"] = sha256(content).into();
        manifest["files"].as_array_mut().unwrap().push(listed);
        let manifest = format!("{manifest:#}\n");
        let mut tar = tar::Builder::new(Vec::new());
        entry(&mut tar, "manifest.json", tar::EntryType::Regular, manifest.as_bytes());
        for file in &FILES[1..] {
            tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
        }
        entry(&mut tar, path, tar::EntryType::Regular, content.as_bytes());
        save(&workspace, tar);
        told.push_str(&refusal(&workspace));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` does not match its manifest:   `.git/config` is state of git or run-evals, which a bundle never contains
    error: `forged.tar.gz` does not match its manifest:   `data/.GIT/config` is state of git or run-evals, which a bundle never contains
    error: `forged.tar.gz` does not match its manifest:   `.run-evals/exchange.git/config` is state of git or run-evals, which a bundle never contains
    error: `forged.tar.gz` does not match its manifest:   `data/.Run-Evals/exchange.git/config` is state of git or run-evals, which a bundle never contains
    error: `forged.tar.gz` does not match its manifest:   `.agentv/cache/x` is not a path that bundles use
    error: `forged.tar.gz` does not match its manifest:   `.env` is not a path that bundles use
    error: `forged.tar.gz` does not match its manifest:   `more.md` is not a path that bundles use
    error: `forged.tar.gz` does not match its manifest:   `Manifest.json` differs from another file only by case
    error: `forged.tar.gz` does not match its manifest:   `data/Notes.md` differs from another file only by case
    ");
}

#[test]
fn a_listed_link_keeps_its_target_and_data_after_the_end_is_rejected() {
    let workspace = bundled();
    let text = std::fs::read_to_string(workspace.path("out/manifest.json")).unwrap();
    let mut told = String::new();
    for (listed, kind, content) in [
        ("../../escaped", tar::EntryType::Symlink, "../../escaped"),
        ("/etc/passwd", tar::EntryType::Symlink, "/etc/passwd"),
        ("notes.md", tar::EntryType::Symlink, "../eval.yaml"),
        ("notes.md", tar::EntryType::Regular, "x"),
        ("notes.md", tar::EntryType::Link, "data/notes.md"),
    ] {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let link = serde_json::json!({"path": "data/link", "link": listed});
        manifest["files"].as_array_mut().unwrap().push(link);
        let mut tar = tar::Builder::new(Vec::new());
        entry(&mut tar, "manifest.json", tar::EntryType::Regular, format!("{manifest:#}\n").as_bytes());
        for file in &FILES[1..] {
            tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
        }
        entry(&mut tar, "data/link", kind, content.as_bytes());
        save(&workspace, tar);
        told.push_str(&refusal(&workspace));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` does not match its manifest:   `data/link` points outside the bundle
    error: `forged.tar.gz` does not match its manifest:   `data/link` points outside the bundle
    error: `forged.tar.gz` is not a bundle: `data/link` is another link
    error: `forged.tar.gz` is not a bundle: `data/link` does not match the manifest
    error: `forged.tar.gz` is not a bundle: `data/link` does not match the manifest
    ");

    // Some tools continue to read after the end of an archive.
    let mut tar = tar::Builder::new(Vec::new());
    for file in FILES {
        tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
    }
    let whole = tar.into_inner().unwrap();
    let mut more = tar::Builder::new(Vec::new());
    entry(&mut more, ".git/config", tar::EntryType::Regular, b"[core]\n");
    let more = more.into_inner().unwrap();
    let packed = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let forged = workspace.path("forged.tar.gz");
    for bytes in [packed(&[&whole[..], &more].concat()), [packed(&whole), packed(&more)].concat()] {
        std::fs::write(&forged, bytes).unwrap();
        assert!(refusal(&workspace).contains("it has data after its end"));
    }
    std::fs::write(&forged, packed(&[&whole[..], &[0; 10240]].concat())).unwrap();
    workspace.run(&["bundle", "verify", "forged.tar.gz"]).expect(0);
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(text))
}

#[test]
fn leftovers_of_runs_in_a_bundle_directory_are_named() {
    let workspace = bundled();
    let clean = workspace.run(&["bundle", "verify", "out"]).expect(0).stdout;
    assert_eq!(clean.lines().count(), 1, "{clean}");
    workspace.write("out/.run-evals/exchange.git/config", "[core]\n");
    workspace.write("out/.run-evals/results/x.jsonl", "");
    workspace.write("out/.agentv/cache/x", "");
    workspace.write("out/.git/config", "[core]\n");
    workspace.write("out/.env", "A=b\n");
    let shown = workspace.run(&["bundle", "verify", "out"]).expect(0).stdout;
    let (_, leftovers) = shown.split_once('\n').unwrap();
    assert_snapshot!(leftovers, @r"

    not part of the bundle and not checked:
      .agentv/cache: left by runs; remove it if you have not run the bundle here
      .env: variables for runs; keep it only if you wrote it yourself
      .git: a git repository; keep it only if you cloned the bundle or made it yourself
      .run-evals/exchange.git: left by runs; remove it if you have not run the bundle here
      .run-evals/results: left by runs; remove it if you have not run the bundle here
    ");
    let json = workspace.run(&["bundle", "verify", "out", "--format", "json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["not_in_bundle"],
        serde_json::json!([".agentv/cache", ".env", ".git", ".run-evals/exchange.git", ".run-evals/results"])
    );
    // They are not included in a copy or an archive.
    workspace.run(&["bundle", "out", "-q", "-o", "copy", "--archive"]).expect(0);
    workspace.run(&["bundle", "verify", "copy.tar.gz"]).expect(0);
    for name in [".env", ".git", ".run-evals", ".agentv"] {
        assert!(!workspace.path("copy").join(name).exists(), "{name}");
    }
    // `eval` names them too.
    let told = workspace.run(&["eval", "out", "--no-grade"]).expect(0).stderr;
    assert!(
        told.contains("not part of the bundle `out`") && told.contains(".run-evals/exchange.git"),
        "{told}"
    );
}

#[test]
fn eval_rejects_a_bundle_directory_with_unlisted_files() {
    let workspace = bundled();
    let mut told = String::new();
    let mut refused = |path: &str| {
        for command in [&["eval", "--no-grade"][..], &["dispatch"], &["bundle", "-o", "copy"]] {
            workspace.run(&[command, &["-q", "out"]].concat()).expect(3);
        }
        let stderr = workspace.run(&["bundle", "verify", "out"]).expect(3).stderr;
        told.push_str(stderr.lines().nth(1).unwrap().trim());
        told.push('\n');
        let path = workspace.path(path);
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    };
    workspace.write("out/data/.git/config", "[core]\n");
    refused("out/data/.git");
    workspace.write("out/data/.run-evals/exchange.git/config", "[core]\n");
    refused("out/data/.run-evals");
    workspace.write("out/.GIT/config", "[core]\n");
    refused("out/.GIT");
    // A run never leaves a link.
    workspace.write("elsewhere/exchange.git/config", "[core]\n");
    symlink("../elsewhere", workspace.path("out/.run-evals")).unwrap();
    refused("out/.run-evals");
    assert_snapshot!(told, @r"
    `data/.git/config` is not in the manifest
    `data/.run-evals/exchange.git/config` is not in the manifest
    `.GIT/config` is not in the manifest
    `.run-evals` is a symbolic link; runs never create one here
    ");
    workspace.run(&["eval", "out", "-q", "--no-grade"]).expect(0);
}
