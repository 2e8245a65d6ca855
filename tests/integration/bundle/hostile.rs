//! Untrusted bundles: listed paths stay inside, every program unpacks the same files, and nothing else is read.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use run_evals::testing::Digest;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::{ECHO, contents, repository};
use crate::support::Workspace;

const EVAL: &str = "tests:\n  - {id: one, criteria: c, input: hello}\n";
const MOCK: &str = "targets:\n  - {name: default, provider: mock}\n";

/// An entry of a manifest.
#[derive(Clone, Copy)]
enum Item<'a> {
    File(&'a [u8]),
    Link(&'a str),
}

use Item::{File, Link};

/// A bundle with these files in addition to its suite and its targets.
fn listed<'a>(eval: &'a str, more: &[(&'a str, Item<'a>)]) -> Vec<(&'a str, Item<'a>)> {
    let mut items = vec![("eval.yaml", File(eval.as_bytes())), ("targets.yaml", File(MOCK.as_bytes()))];
    items.extend(more);
    items
}

fn manifest(items: &[(&str, Item)]) -> String {
    let files: Vec<Value> = items
        .iter()
        .map(|(path, item)| match item {
            File(text) => {
                json!({"path": path, "size": text.len(), "sha256": Digest::of(text), "mode": "0644"})
            }
            Link(to) => json!({"path": path, "link": to}),
        })
        .collect();
    let source = json!({"suite": "s.eval.yaml", "dirty": false, "changed": []});
    json!({
        "format": 1, "run_evals": "0.1.0", "name": "s", "tests": 1, "agentv": null, "created": "2026-01-02T03:04:05Z", "targets": ["default"], "source": source, "flags": [],
        "env": [], "left_behind": [], "inlined": [], "files": files,
    })
    .to_string()
}

fn header(name: &str, kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    let name = if matches!(kind, EntryType::Regular | EntryType::Symlink) {
        format!("s/{name}")
    } else {
        name.to_owned()
    };
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(if kind == EntryType::Symlink { 0o777 } else { 0o644 });
    header.set_cksum();
    header
}

/// Adds the listed items in the simplest way.
fn add(tar: &mut Builder<Vec<u8>>, name: &str, item: Item) {
    match item {
        File(text) => tar.append(&header(name, EntryType::Regular, text.len()), text).unwrap(),
        Link(to) => {
            let mut header = header(name, EntryType::Symlink, 0);
            header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
            header.set_cksum();
            tar.append(&header, &[][..]).unwrap();
        }
    }
}

/// Writes an archive; `odd` adds the last entry, or a header before it.
fn archive(
    workspace: &Workspace,
    items: &[(&str, Item)],
    odd: impl FnOnce(&mut Builder<Vec<u8>>, &str, Item),
) {
    let mut tar = Builder::new(Vec::new());
    add(&mut tar, "manifest.json", File(manifest(items).as_bytes()));
    let (last, others) = items.split_last().unwrap();
    for (name, item) in others {
        add(&mut tar, name, *item);
    }
    odd(&mut tar, last.0, last.1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar.into_inner().unwrap()).unwrap();
    std::fs::write(workspace.path("forged.tar.gz"), gzip.finish().unwrap()).unwrap();
}

/// The same bundle as a directory.
fn directory(workspace: &Workspace, items: &[(&str, Item)]) {
    let _ = std::fs::remove_dir_all(workspace.path("forged"));
    workspace.write("forged/manifest.json", manifest(items));
    let (links, files): (Vec<_>, Vec<_>) = items.iter().partition(|(_, item)| matches!(item, Link(_)));
    for (name, item) in files.into_iter().chain(links) {
        let path = workspace.path("forged").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match item {
            File(text) => drop(std::fs::write(path, text)),
            Link(to) => drop(symlink(to, path)),
        }
    }
}

/// What `verify` says of a bundle that every command rejects.
fn refused(workspace: &Workspace, bundle: &str) -> String {
    for command in [&["eval", "--no-grade"][..], &["dispatch"], &["bundle", "-o", "copy"]] {
        let output = workspace.run(&[command, &["-q", bundle]].concat());
        assert_eq!(output.code, Some(3), "{command:?}: {}", output.stderr);
        assert!(!workspace.path("copy").exists());
    }
    let told = workspace.run(&["bundle", "verify", bundle]).expect(3).stderr;
    let told: Vec<&str> = told.lines().filter(|line| !line.is_empty() && !line.contains("hint")).collect();
    told.join("") + "\n"
}

#[test]
fn a_forged_bundle_without_defects_is_accepted() {
    let workspace = Workspace::new();
    let items = listed(
        EVAL,
        &[
            ("data/a.txt", File(b"a")),
            ("data/link", Link("a.txt")),
            ("data/again", Link("link")),
            ("data/here", Link(".")),
            ("data/through", Link("here/here/../data/link")),
            ("data/nowhere", Link("../data/gone")),
        ],
    );
    archive(&workspace, &items, add);
    workspace.run(&["bundle", "verify", "forged.tar.gz"]).expect(0);
    workspace.run(&["eval", "-q", "--no-grade", "forged.tar.gz"]).expect(0);
    directory(&workspace, &items);
    workspace.run(&["bundle", "verify", "forged"]).expect(0);
}

#[test]
fn chained_links_cannot_leave_a_bundle() {
    let workspace = Workspace::new();
    let up = format!("{}{}etc/passwd", "x/".repeat(8), "../".repeat(8));
    let cases: [&[(&str, Item)]; 8] = [
        &[("data/x", Link(".")), ("data/p", Link(&up))],
        &[("data/x", Link("..")), ("data/p", Link("x/../etc/passwd"))],
        // Resolved from the top, and with different capitalization.
        &[("data/x", Link(".")), ("workspace/p", Link("../data/X/../../etc/passwd"))],
        &[("data/a", Link("b/c")), ("data/b", Link("..")), ("data/p", Link("a/../../etc"))],
        // What is next to a bundle is not checked.
        &[("data/p", Link("../.run-evals/etc/passwd"))],
        &[("data/p", Link("../.env"))],
        &[("data/a", Link("b")), ("data/b", Link("a"))],
        &[("data/p", Link("/etc/passwd"))],
    ];
    let mut told = String::new();
    for more in cases {
        let items = listed(EVAL, more);
        archive(&workspace, &items, add);
        told.push_str(&refused(&workspace, "forged.tar.gz"));
        directory(&workspace, &items);
        assert_eq!(
            refused(&workspace, "forged").replace("`forged`", "`forged.tar.gz`"),
            refused(&workspace, "forged.tar.gz")
        );
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle
    error: `forged.tar.gz` does not match its manifest:  `workspace/p` points outside the bundle
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle, to a file that is not part of it
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle, to a file that is not part of it
    error: `forged.tar.gz` does not match its manifest:  `data/a` is circular, or resolves through more than 40 links  `data/b` is circular, or resolves through more than 40 links
    error: `forged.tar.gz` does not match its manifest:  `data/p` points outside the bundle
    ");
}

#[test]
fn items_below_a_link_and_a_suite_that_is_not_a_file_are_rejected() {
    let workspace = Workspace::new();
    let suite: Vec<(&str, Item)> = vec![("data/e", File(EVAL.as_bytes())), ("eval.yaml", Link("data/e"))];
    let cases = [
        listed(EVAL, &[("data/d/a", File(b"a")), ("data/x", Link("d")), ("data/x/a", File(b"a"))]),
        listed(EVAL, &[("data/d/a", File(b"a")), ("data/x", Link("d")), ("data/X/b", Link("a"))]),
        suite,
        vec![("eval.yaml", File(EVAL.as_bytes())), ("targets.yaml", Link("data/gone"))],
    ];
    let mut told = String::new();
    for items in cases {
        archive(&workspace, &items, add);
        told.push_str(&refused(&workspace, "forged.tar.gz"));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` does not match its manifest:  `data/x/a` is below the link `data/x`
    error: `forged.tar.gz` does not match its manifest:  `data/X/b` is below the link `data/X`
    error: `forged.tar.gz` does not match its manifest:  `eval.yaml` is a link, expected a file
    error: `forged.tar.gz` does not match its manifest:  `targets.yaml` is a link, expected a file
    ");
    // The manifest of a directory must be a file, too.
    directory(&workspace, &listed(EVAL, &[]));
    std::fs::rename(workspace.path("forged/manifest.json"), workspace.path("elsewhere.json")).unwrap();
    symlink("../elsewhere.json", workspace.path("forged/manifest.json")).unwrap();
    let told = workspace.run(&["bundle", "verify", "forged"]).expect(3).stderr;
    assert_snapshot!(told, @r"
    error: `forged` is not a bundle: cannot read `manifest.json`: it is a link, expected a file

    hint: `run-evals bundle SUITE -o DIR` creates one
    ");
}

/// Records of a pax header.
fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let length = (1..10)
            .map(|digits| rest.len() + digits)
            .find(|length| length.to_string().len() + rest.len() == *length);
        out.extend(format!("{}{rest}", length.unwrap()).into_bytes());
    }
    out
}

#[test]
fn ambiguous_tar_extensions_are_rejected() {
    type Odd<'a> = Box<dyn Fn(&mut Builder<Vec<u8>>) + 'a>;
    let workspace = Workspace::new();
    let items = listed(EVAL, &[("data/a.txt", File(b"hello"))]);
    let link = listed(EVAL, &[("data/a.txt", Link("b"))]);
    let long = |tar: &mut Builder<Vec<u8>>, kind: u8, text: &[u8]| {
        tar.append(&header("././@LongLink", EntryType::new(kind), text.len()), text).unwrap();
    };
    let extended = |tar: &mut Builder<Vec<u8>>, kind: EntryType, records: &[(&str, &str)]| {
        let records = pax(records);
        tar.append(&header("PaxHeaders/x", kind, records.len()), records.as_slice()).unwrap();
    };
    let cases: Vec<(&[(&str, Item)], Odd)> = vec![
        (
            &items,
            Box::new(|tar| extended(tar, EntryType::XHeader, &[("path", "data/a.txt"), ("path", ".envrc")])),
        ),
        (&items, Box::new(|tar| extended(tar, EntryType::XGlobalHeader, &[("path", ".envrc")]))),
        (&items, Box::new(|tar| extended(tar, EntryType::XHeader, &[("mtime", "1")]))),
        (
            &items,
            Box::new(|tar| {
                let sparse =
                    [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", ".envrc")];
                extended(tar, EntryType::XHeader, &sparse);
            }),
        ),
        (
            &link,
            Box::new(|tar| {
                extended(tar, EntryType::XHeader, &[("linkpath", "b"), ("linkpath", "/etc/passwd")]);
            }),
        ),
        (
            &items,
            Box::new(|tar| {
                long(tar, b'L', b"data/a.txt\0");
                long(tar, b'L', b".envrc\0");
            }),
        ),
        (&items, Box::new(|tar| long(tar, b'L', b"data/a.txt\0.envrc\0"))),
        (&items, Box::new(|tar| long(tar, b'K', b"/etc/passwd\0"))),
        (&items, Box::new(|tar| long(tar, b'V', b""))),
    ];
    let mut told = String::new();
    for (items, odd) in cases {
        archive(&workspace, items, |tar, name, item| {
            odd(tar);
            add(tar, name, item);
        });
        told.push_str(&refused(&workspace, "forged.tar.gz"));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` is not a bundle: `PaxHeaders/x` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `PaxHeaders/x` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `PaxHeaders/x` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `PaxHeaders/x` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `PaxHeaders/x` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: an entry has two names
    error: `forged.tar.gz` is not a bundle: the name of an entry is not a path
    error: `forged.tar.gz` is not a bundle: `s/data/a.txt` has a link target but is not a link
    error: `forged.tar.gz` is not a bundle: `././@LongLink` is not in `s/`
    ");
}

#[test]
fn ambiguous_tar_headers_are_rejected() {
    let workspace = Workspace::new();
    let items = listed(EVAL, &[("data/a.txt", File(b"hello"))]);
    let mut told = String::new();
    let changes: [&dyn Fn(&mut Header); 6] = [
        &|header| header.set_mode(0o6644),
        &|header| header.set_mode(0o1755),
        &|header| header.set_mode(0o666),
        // The name prefix, in another format.
        &|header| header.as_mut_bytes()[345..350].copy_from_slice(b"/etc/"),
        &|header| header.as_mut_bytes()[257..265].copy_from_slice(b"ustar\x0000"),
        &|header| header.as_old_mut().name[13..19].copy_from_slice(b".envrc"),
    ];
    for change in changes {
        archive(&workspace, &items, |tar, name, _| {
            let mut header = header(name, EntryType::Regular, 5);
            change(&mut header);
            header.set_cksum();
            tar.append(&header, &b"hello"[..]).unwrap();
        });
        told.push_str(&refused(&workspace, "forged.tar.gz"));
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` is not a bundle: `data/a.txt` has the mode `6644`, expected `0644` or `0755`
    error: `forged.tar.gz` is not a bundle: `data/a.txt` has the mode `1755`, expected `0644` or `0755`
    error: `forged.tar.gz` is not a bundle: `data/a.txt` has the mode `0666`, expected `0644` or `0755`
    error: `forged.tar.gz` is not a bundle: `s/data/a.txt` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `s/data/a.txt` has an unsupported header; expected plain GNU headers and GNU long names
    error: `forged.tar.gz` is not a bundle: `s/data/a.txt` is not a valid path in a bundle
    ");
}

/// `tar` unpacks our archives to the same files.
#[test]
fn tar_unpacks_our_archives_to_the_same_files() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
    let text = "workspace: {template: ./t}\ntests:\n  - {id: one, criteria: c, input: hello}\n";
    let workspace = repository(&[ECHO, ("suite.eval.yaml", text), (&format!("t/{long}"), "x")]);
    symlink(&long, workspace.path("repo/t/link")).unwrap();
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--archive"]).expect(0);
    workspace.run(&["bundle", "verify", "out.tar.gz"]).expect(0);
    std::fs::create_dir(workspace.path("tar")).unwrap();
    let mut tar = Command::new("tar");
    workspace.like(tar.args(["-xzf", "out.tar.gz", "-C", "tar"]));
    assert!(tar.status().unwrap().success());
    assert_eq!(contents(&workspace.path("tar/suite")), contents(&workspace.path("out")));
}

#[test]
fn a_small_archive_does_not_fill_the_disk() {
    let workspace = Workspace::new();
    let mut items = listed(EVAL, &[("data/a.txt", File(b"x"))]);
    let text = manifest(&items).replace("\"size\":1,", &format!("\"size\":{},", 3_u64 << 30));
    items.pop();
    let mut tar = Builder::new(Vec::new());
    add(&mut tar, "manifest.json", File(text.as_bytes()));
    for (name, item) in &items {
        add(&mut tar, name, *item);
    }
    let mut header = header("data/a.txt", EntryType::Regular, 0);
    header.set_size(3 << 30);
    header.set_cksum();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut start = tar.into_inner().unwrap();
    start.truncate(start.len() - 1024);
    gzip.write_all(&start).unwrap();
    gzip.write_all(header.as_bytes()).unwrap();
    // Large enough to notice if it is written to disk.
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| gzip.write_all(&zeros).unwrap());
    std::fs::write(workspace.path("forged.tar.gz"), gzip.finish().unwrap()).unwrap();
    assert_snapshot!(refused(&workspace, "forged.tar.gz"), @r"
    error: `forged.tar.gz` is not a bundle: it unpacks to 3072 MiB, expected at most 1024 MiB: 1 GiB, or 100 times its own size
    ");
}

/// A working directory with the user's own files.
fn home() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("notes.txt", "own-notes");
    workspace.write(".env", "KEY=own-secret");
    workspace.write(".ssh/id_rsa", "own-secret");
    workspace.write("cases.jsonl", "{\"id\":\"o\",\"input\":\"own-secret\",\"criteria\":\"x\"}\n");
    workspace.write("cases.yaml", "- {id: o, input: own-secret, criteria: x}\n");
    workspace.write("judge.md", "own-secret");
    workspace
}

fn attaching(file: &str) -> String {
    format!(
        "tests:\n  - id: a\n    criteria: x\n    input:\n      - role: user\n        content:\n          - {{type: file, value: {file}}}\n"
    )
}

#[test]
fn a_bundle_cannot_read_files_of_the_working_directory() {
    let suites = [
        attaching("notes.txt"),
        attaching(".env"),
        attaching(".ssh/id_rsa"),
        "tests:\n  - {id: a, input: hi, input_files: [notes.txt], criteria: x}\n".to_owned(),
        "tests:\n  - {id: a, input: hi, criteria: x, assertions: [{type: llm-grader, prompt: file://judge.md}]}\n".to_owned(),
        "assertions: [{include: ./judge.md}]\ntests:\n  - {id: a, input: hi, criteria: x}\n".to_owned(),
    ];
    for eval in &suites {
        let workspace = home();
        let items = listed(eval, &[]);
        archive(&workspace, &items, add);
        directory(&workspace, &items);
        // A bundle in a repository is still a bundle.
        std::fs::create_dir_all(workspace.path(".git")).unwrap();
        for bundle in ["forged.tar.gz", "forged", "forged/eval.yaml"] {
            let output = workspace.run(&["eval", bundle, "-q", "--output", "results"]);
            assert_eq!(output.code, Some(3), "{eval}{bundle}: {}", output.stderr);
            assert!(!output.stderr.contains("own-"), "{}", output.stderr);
        }
    }
    let workspace = home();
    archive(&workspace, &listed(&suites[0], &[]), add);
    let output = workspace.run(&["eval", "forged.tar.gz", "-q", "--no-grade"]).expect(3);
    let told = output.stderr.lines().map(|line| if line.contains("run-evals-work-") { "…" } else { line });
    let told: Vec<&str> = told.collect();
    assert_snapshot!(told.join("\n"), @r"
    error: attachment not found: `notes.txt`
    …
       |
     7 |           - {type: file, value: notes.txt}
       |                                 ^^^^^^^^^

    …
    ");
}

#[test]
fn a_bundle_cannot_name_test_files_outside() {
    let suites = [
        "tests: ../cases.jsonl\n",
        "tests: file://../cases.yaml\n",
        "tests: [file://../cases.yaml]\n",
        "tests: [file://../*.yaml]\n",
        "tests: data/link.yaml\n",
        "tests: data/dir\n",
    ];
    for eval in suites {
        let workspace = home();
        workspace.write("dir/one/case.yaml", "{input: own-secret, criteria: x}\n");
        directory(&workspace, &listed(eval, &[]));
        std::fs::create_dir(workspace.path("forged/data")).unwrap();
        symlink("../../cases.yaml", workspace.path("forged/data/link.yaml")).unwrap();
        symlink("../../dir", workspace.path("forged/data/dir")).unwrap();
        let output = workspace.run(&["eval", "forged/eval.yaml", "-q", "--no-grade", "--output", "results"]);
        assert_eq!(output.code, Some(3), "{eval}: {}", output.stderr);
        assert!(!Path::new(&workspace.path("results")).exists());
    }
    let workspace = home();
    directory(&workspace, &listed(suites[0], &[]));
    let told = workspace.run(&["eval", "forged/eval.yaml", "-q", "--no-grade"]).expect(3).stderr;
    assert_snapshot!(told, @r"
    error: `cases.jsonl` is outside the bundle
      --> forged/eval.yaml:1:8
       |
     1 | tests: ../cases.jsonl
       |        ^^^^^^^^^^^^^^

    hint: only files in `forged` can be used, links resolved
    ");
    // A suite that is not a bundle can refer to tests anywhere.
    std::fs::remove_file(workspace.path("forged/manifest.json")).unwrap();
    workspace.run(&["eval", "forged/eval.yaml", "-q", "--no-grade"]).expect(0);
}

/// A suite with a grader that runs the script `evals/g.sh` in `evals`.
const SCRIPT: &str = "tests:\n  - id: a\n    criteria: x\n    input: hi\n    assertions:\n      - {type: code-grader, command: [bash, g.sh]}\n";

#[test]
fn a_directory_link_does_not_hide_state_or_credentials() {
    let secret = "eC1hY2Nlc3MtdG9rZW46Z2hzX0s4cVdmM1p2TjJyVDdiTHhZMWNEOW1I";
    let cases = [
        ("../.git", "config", "own"),
        ("../.run-evals", "journal", "own"),
        ("../.docker", "config.json", "own"),
        ("../.aws", "credentials", "own"),
        ("../lib/.git/info", "exclude", "own"),
    ];
    let mut told = String::new();
    for (to, file, text) in cases {
        for eval in [SCRIPT.to_owned(), attaching(&format!("x/{file}"))] {
            let script = format!("cat x/{file}\n");
            let workspace = repository(&[ECHO, ("evals/s.eval.yaml", &eval), ("evals/g.sh", &script)]);
            workspace.write(&format!("repo/evals/{to}/{file}"), text);
            symlink(to, workspace.path("repo/evals/x")).unwrap();
            let output = workspace.run(&["bundle", "repo/evals/s.eval.yaml", "-q", "-o", "out"]);
            assert_eq!(output.code, Some(3), "{to} {eval} {}", output.stderr);
            assert!(!workspace.path("out").exists());
            if eval == SCRIPT {
                told.extend(
                    output
                        .stderr
                        .lines()
                        .filter(|line| line.starts_with("error"))
                        .map(|line| format!("{line}\n")),
                );
            }
        }
    }
    assert_snapshot!(told, @r"
    error: a bundle never contains state of git or run-evals: `evals/x/config`
    error: a bundle never contains state of git or run-evals: `evals/x/journal`
    error: `evals/x/config.json` appears to contain credentials
    error: `evals/x/credentials` appears to contain credentials
    error: a bundle never contains state of git or run-evals: `evals/x/exclude`
    ");
    // The header that `actions/checkout` writes is found by its content.
    for header in ["extraheader = AUTHORIZATION: basic ", "header: Authorization: Basic "] {
        let text = format!("[http]\n\t{header}{secret}\n");
        let workspace = repository(&[
            ECHO,
            ("evals/s.eval.yaml", SCRIPT),
            ("evals/g.sh", "cat c.txt\n"),
            ("evals/c.txt", &text),
        ]);
        let output = workspace.run(&["bundle", "repo/evals/s.eval.yaml", "-q", "-o", "out"]).expect(3);
        assert!(output.stderr.contains("`evals/c.txt:2` appears to contain"), "{}", output.stderr);
        assert!(!output.stderr.contains(secret));
    }
}

#[test]
fn long_paths_are_rejected_without_being_followed() {
    let workspace = Workspace::new();
    let long = format!("data/{}b", "a/".repeat(2_000_000));
    let to = "a/".repeat(2_000_000);
    let mut told = String::new();
    for more in [(long.as_str(), File(b"a")), ("data/l", Link(&to))] {
        workspace.write("forged/manifest.json", manifest(&listed(EVAL, &[more])));
        workspace.write("forged/eval.yaml", EVAL);
        workspace.write("forged/targets.yaml", MOCK);
        let output = workspace.run_bounded(&["bundle", "verify", "forged"]).expect(3);
        assert!(output.stderr.len() < 10_000, "{}", output.stderr.len());
        told.extend(
            output
                .stderr
                .lines()
                .filter(|line| line.starts_with("  "))
                .map(|line| format!("{}\n", &line[line.len().min(line.len().saturating_sub(60))..])),
        );
    }
    assert_snapshot!(told, @r"
    a/a/a/a/a/a/a/a/a…` is longer than 4096 bytes or 256 parts
    ta/l` resolves to a path longer than 4096 bytes or 256 parts
    ");
}

#[test]
fn a_link_cannot_lead_through_directories_that_runs_make() {
    let workspace = Workspace::new();
    let cases: [&[(&str, Item)]; 4] = [
        &[("scripts/z.sh", Link("__pycache__/z.sh"))],
        &[("data/e/z.txt", Link("node_modules/z.txt"))],
        &[("data/e/z.txt", Link("../../scripts/.VENV/z.txt"))],
        &[("data/d/a", File(b"a")), ("data/x", Link("d")), ("data/z", Link("x/node_modules/../a"))],
    ];
    let mut told = String::new();
    for more in cases {
        let items = listed(EVAL, more);
        archive(&workspace, &items, add);
        told.push_str(&refused(&workspace, "forged.tar.gz"));
        directory(&workspace, &items);
        refused(&workspace, "forged");
    }
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` does not match its manifest:  `scripts/z.sh` points outside the bundle, to a file that is not part of it
    error: `forged.tar.gz` does not match its manifest:  `data/e/z.txt` points outside the bundle, to a file that is not part of it
    error: `forged.tar.gz` does not match its manifest:  `data/e/z.txt` points outside the bundle, to a file that is not part of it
    error: `forged.tar.gz` does not match its manifest:  `data/z` points outside the bundle, to a file that is not part of it
    ");
    // A directory that the manifest lists is verified like any other.
    let items = listed(EVAL, &[("data/node_modules/a", File(b"a")), ("data/z", Link("node_modules/a"))]);
    directory(&workspace, &items);
    workspace.run(&["bundle", "verify", "forged"]).expect(0);
}

#[test]
fn compiled_files_beside_a_bundle_do_not_replace_its_scripts() {
    let grader = "import helper, json\nprint(json.dumps({'score': helper.score}))\n";
    let suite = SCRIPT.replace("[bash, g.sh]", "[python3, g.py]");
    let workspace = repository(&[
        ("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n"),
        ("evals/s.eval.yaml", &suite),
        ("evals/g.py", grader),
        ("evals/helper.py", "score = 0\n"),
    ]);
    workspace.run(&["bundle", "repo/evals/s.eval.yaml", "-q", "-o", "out", "--target", "m"]).expect(0);
    // Never compared with its source.
    let compile = "import py_compile; py_compile.compile('evil.py', cfile=__import__('importlib.util').util.cache_from_source('out/scripts/evals/helper.py'), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";
    workspace.write("evil.py", "score = 1\n");
    let mut python = Command::new("python3");
    assert!(workspace.like(python.args(["-c", compile])).status().unwrap().success());
    workspace.run(&["bundle", "verify", "out"]).expect(0);
    let output = workspace.run(&["eval", "out", "--target", "m", "-q"]).expect(4);
    assert!(output.stdout.contains("0 of 1 passed · score 0.00"), "{}", output.stdout);
}
