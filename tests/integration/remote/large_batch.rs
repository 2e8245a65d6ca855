//! A batch that is too large for one file on a branch.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::support::stage::{REPO, Stage, content};

/// The size of the attachments, which do not compress: more than GitHub accepts as one file. `RUN_EVALS_LARGE_BATCH` sets another size.
const MEGABYTES: usize = 106;

#[test]
fn a_large_batch_is_handed_over_in_parts() {
    let megabytes = std::env::var("RUN_EVALS_LARGE_BATCH").map_or(MEGABYTES, |text| text.parse().unwrap());
    let stage = Stage::new();
    let own = "targets:\n  - { name: llm, provider: mock, response: '{{ id }}' }\n";
    stage.github.put_file(REPO, "targets.yaml", own);
    stage.target("timeout: 10m");
    let mut random = fastrand::Rng::with_seed(7);
    let mut suite = "tests:\n".to_owned();
    for test in 0..megabytes.div_ceil(17) {
        let mut file = std::fs::File::create(stage.workspace.path(&format!("{test}.pdf"))).unwrap();
        let mut bytes = vec![0; 17_000_000];
        random.fill(&mut bytes);
        file.write_all(b"%PDF-1.7\n").unwrap();
        file.write_all(&bytes).unwrap();
        writeln!(
            suite,
            "  - id: t{test}\n    criteria: x\n    input: [{{ role: user, content: [{{ type: file, value: {test}.pdf }}] }}]"
        )
        .unwrap();
    }
    stage.workspace.write("s.eval.yaml", suite);
    let args = ["dispatch", "s.eval.yaml", "--target", "cloud", "--batch-id", "b1", "--no-wait"];
    stage.workspace.run(&args).expect(0);
    let files = stage.github.git(REPO, &["ls-tree", "-r", "--format=%(path) %(objectsize)", "eval-batch/b1"]);
    stage.workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    let files: Vec<(&str, usize)> = files
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, size)| (name, size.parse().unwrap()))
        .collect();
    assert!(
        files.len() > 1 && files.iter().map(|(_, size)| size).sum::<usize>() > megabytes * 1_000_000,
        "{files:?}"
    );
    for (part, (name, size)) in files.iter().enumerate() {
        assert_eq!(*name, format!("batch.tar.gz.{part:02}"));
        assert!(*size == 50_000_000 || part + 1 == files.len(), "{files:?}");
    }
    let rows = stage.workspace.rows("out/responses.jsonl");
    let answers: Vec<&str> = rows.iter().map(content).collect();
    assert_eq!(answers, (0..rows.len()).map(|test| format!("t{test}")).collect::<Vec<_>>());
    assert_eq!(rows.len(), megabytes.div_ceil(17));
    assert_eq!(stage.github.git(REPO, &["branch", "--list", "eval-batch/*"]), "");
}
