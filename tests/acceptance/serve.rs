//! The service on a full disk.

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../integration/serve/http.rs"]
mod http;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../integration/serve/service.rs"]
mod service;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::evaluate::stage::{SKILL, Stage};
use service::{OURS, Service, args};

/// A file that takes all free space.
struct Filler(PathBuf);

impl Filler {
    fn new(disk: &std::path::Path) -> Self {
        let path = disk.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        while file.write_all(&[7]).is_ok() {}
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn works(service: &Service) {
    let id = service.accepted(1);
    service.ended(&id, "completed");
    // By then, the files of the job are deleted.
    crate::support::until("an idle service", || !service.is_busy());
}

#[test]
fn a_full_disk_fails_only_the_job() {
    let stage = Stage::new();
    let _llm = stage.gateway(&["--latency-ms", "100"]);
    stage.workspace.write_private("tokens", OURS);
    let workspace = &stage.workspace;
    std::fs::create_dir(workspace.path("disk")).unwrap();
    let api = stage.github.urls().api_url.clone();
    let more = [
        "--library",
        "disk/library",
        "--state",
        "disk/state",
        "--log-stderr",
        "--report-failures",
        "none",
        "--max-concurrency",
        "2",
    ];
    let words = args(&api, &more).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    // A disk of eight megabytes, visible only to the service, with the clone and the state on it.
    let script = format!(
        "mount -t tmpfs -o size=8m tmpfs disk && cp -a library disk/library && TMPDIR=\"$PWD/disk\" exec '{}' {words}",
        env!("CARGO_BIN_EXE_run-evals")
    );
    let mut command = Command::new("unshare");
    workspace.like(&mut command).args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let service = Service::of(&mut command);
    let disk = PathBuf::from(format!("/proc/{}/root{}/disk", service.pid(), workspace.root().display()));
    works(&service);

    // When git has to write.
    let filler = Filler::new(&disk);
    let large: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(400_000).collect();
    stage.push(|dir| std::fs::write(dir.join("large"), large).unwrap());
    let told =
        service.submit(&json!({"skill_name": SKILL})).expect(503)["error"].as_str().unwrap().to_owned();
    eprintln!("while git writes: {told}");
    assert!(told.contains("the disk is full") || told.contains("No space left on device"), "{told}");
    assert!(!service.is_busy());
    drop(filler);
    works(&service);

    // In the middle of a job.
    let id = service.accepted(4);
    service.until(&id, |job| job["progress"]["done"].as_u64().unwrap_or(0) > 10);
    let filler = Filler::new(&disk);
    let job = service.ended(&id, "failed");
    let told = job["reason"].as_str().unwrap();
    eprintln!("in the middle of a job: {told}");
    assert!(told.contains("the disk is full") || told.contains("No space left on device"), "{told}");
    crate::support::until("an idle service", || !service.is_busy());
    drop(filler);
    // The clone can still be updated.
    stage.push(|dir| std::fs::write(dir.join("small"), "").unwrap());
    works(&service);
}
