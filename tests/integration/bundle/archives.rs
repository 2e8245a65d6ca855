//! Bundles as one file, and bundles used as suites.

use std::io::Write as _;

use insta::assert_snapshot;

use super::{ECHO, check_out, contents, repository, workspace};

const MOCK: (&str, &str) = ("targets.yaml", "targets:\n  - {name: default, provider: mock}\n");
const SUITE: (&str, &str) = (
    "suite.eval.yaml",
    "input_files: [notes.md]\ntests:\n  - {id: one, criteria: c, input: hello}\n  - {id: two, criteria: c, input: bye}\n",
);

#[test]
fn archives_are_reproducible_and_complete() {
    let workspace = workspace();
    let suite = check_out(&workspace, "symlinks", "repo");
    for out in ["a", "other/b"] {
        workspace.run(&["bundle", suite.to_str().unwrap(), "-q", "-o", out, "--archive"]).expect(0);
        workspace.run(&["bundle", "verify", &format!("{out}.tar.gz")]).expect(0);
    }
    let bytes = |name: &str| std::fs::read(workspace.path(name)).unwrap();
    assert_eq!(bytes("a.tar.gz"), bytes("other/b.tar.gz"));
    // An archive is also a bundle.
    workspace.run(&["bundle", "a.tar.gz", "-q", "-o", "c", "--archive"]).expect(0);
    assert_eq!(contents(&workspace.path("a")), contents(&workspace.path("c")));
    assert_eq!(bytes("a.tar.gz"), bytes("c.tar.gz"));
}

#[test]
fn long_names_are_archived() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
    let text = "workspace: {template: ./t}\ntests:\n  - {id: one, criteria: c, input: hello}\n";
    let workspace = repository(&[ECHO, ("suite.eval.yaml", text), (&format!("t/{long}"), "x")]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--archive"]).expect(0);
    workspace.run(&["bundle", "verify", "out.tar.gz"]).expect(0);
}

#[test]
fn bundles_can_be_used_as_suites() {
    let workspace = repository(&[MOCK, SUITE, ("notes.md", "words of the notes")]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--archive"]).expect(0);
    std::fs::remove_dir_all(workspace.path("repo")).unwrap();
    let mut rows = Vec::new();
    for (i, suite) in ["out", "out/eval.yaml", "out.tar.gz"].iter().enumerate() {
        let results = format!("results-{i}");
        workspace.run(&["eval", suite, "--output", &results, "-q", "--no-grade"]).expect(0);
        let mut found = workspace.rows(&format!("{results}/responses.jsonl"));
        for row in &mut found {
            row["duration_ms"] = 0.into();
        }
        rows.push(found);
    }
    assert_eq!(rows[0].len(), 2);
    assert!(rows[0][0]["output"].to_string().contains("hello"), "{:?}", rows[0][0]);
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0], rows[2]);
    let dispatched = workspace.run(&["dispatch", "out.tar.gz", "-q"]).expect(0).stdout;
    assert_eq!(dispatched.lines().count(), 2);
}

#[test]
fn untrusted_archives_are_checked() {
    let workspace = repository(&[MOCK, SUITE, ("notes.md", "x")]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    let forge = |name: &str, add: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_dir_all(".", workspace.path("empty")).ok();
        for file in ["manifest.json", "eval.yaml", "targets.yaml", "data/notes.md"] {
            tar.append_path_with_name(workspace.path("out").join(file), format!("suite/{file}")).unwrap();
        }
        add(&mut tar);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        std::fs::write(workspace.path(name), gzip.finish().unwrap()).unwrap();
        let told = workspace.run(&["bundle", "verify", name]).expect(3).stderr;
        assert!(!workspace.path("escaped").exists());
        told
    };
    let entry = |tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, link: Option<&str>| {
        let mut header = tar::Header::new_gnu();
        // Written by hand: the library rejects such names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(link) = link {
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        }
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, &[][..]).unwrap();
    };
    let cases = [
        ("suite/../escaped", tar::EntryType::Regular, None),
        ("escaped", tar::EntryType::Regular, None),
        ("suites/escaped", tar::EntryType::Regular, None),
        ("/tmp/escaped", tar::EntryType::Regular, None),
        ("suite/data/link", tar::EntryType::Symlink, Some("../../escaped")),
        ("suite/data/link", tar::EntryType::Symlink, Some("/etc/passwd")),
        ("suite/data/hard", tar::EntryType::Link, Some("eval.yaml")),
        ("suite/data/extra", tar::EntryType::Regular, None),
    ];
    let told: String = cases
        .iter()
        .map(|(name, kind, link)| {
            let told = forge("forged.tar.gz", &|tar| entry(tar, name, *kind, *link));
            let first: Vec<_> =
                told.lines().filter(|line| !line.is_empty() && !line.contains("hint")).collect();
            first.join(" ").replace(workspace.root().to_str().unwrap(), "[ROOT]") + "\n"
        })
        .collect();
    assert_snapshot!(told, @r"
    error: `forged.tar.gz` is not a bundle: `../escaped` is not a valid path in a bundle
    error: `forged.tar.gz` is not a bundle: `escaped` is not in `suite/`
    error: `forged.tar.gz` is not a bundle: `suites/escaped` is not in `suite/`
    error: `forged.tar.gz` is not a bundle: `/tmp/escaped` is not in `suite/`
    error: `forged.tar.gz` is not a bundle: `data/link` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `data/link` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `data/hard` is not in the manifest
    error: `forged.tar.gz` is not a bundle: `data/extra` is not in the manifest
    ");
    std::fs::write(workspace.path("broken.tar.gz"), "no archive").unwrap();
    workspace.run(&["bundle", "verify", "broken.tar.gz"]).expect(3);
    workspace.run(&["eval", "broken.tar.gz"]).expect(3);
}
