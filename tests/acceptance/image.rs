//! The image: what is in it, how large it is, how fast it starts.

use std::io;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::docker::{docker, from_ci, image};

/// The published `debian:bookworm-slim`, compressed.
const PUBLISHED_BASE: i64 = 28_200_000;
/// The most that the image may have, compressed.
const MOST: i64 = 80_000_000;

#[test]
fn is_small() {
    let base = compressed(&from_ci("RUN_EVALS_BASE_IMAGE"));
    let image = compressed(&image());
    let size = image - base + PUBLISHED_BASE;
    let mb = |bytes: i64| format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000);
    eprintln!("image: {} compressed, of which {} are ours; at most {}", mb(size), mb(image - base), mb(MOST));
    assert!(size <= MOST);
}

#[test]
fn is_what_github_asks_of_an_action() {
    let config = docker(&["image", "inspect", "--format", "{{json .Config}}", &image()]);
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/local/bin/run-evals"]));
    for unset in ["User", "WorkingDir"] {
        assert_eq!(config[unset].as_str().unwrap_or_default(), "", "{unset}");
    }
    let labels = config["Labels"].as_object().unwrap();
    assert_eq!(labels["org.opencontainers.image.licenses"], "MIT");
    assert_eq!(labels["org.opencontainers.image.source"], env!("CARGO_PKG_REPOSITORY"));
}

#[test]
fn has_git_for_https_and_no_perl_beyond_the_base() {
    let image = image();
    let run = |program: &str, args: &[&str]| {
        let run = ["run", "--rm", "--network", "host", "--entrypoint", program, &image];
        docker(&[&run[..], args].concat())
    };
    let version = format!("run-evals {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run("/usr/local/bin/run-evals", &["--version"]), version);
    let packages = run("dpkg-query", &["--show", "--showformat", "${Package}\n"]);
    let packages: Vec<&str> = packages.lines().collect();
    assert!(packages.contains(&"git") && packages.contains(&"ca-certificates"), "{packages:?}");
    assert!(!packages.contains(&"perl"), "perl is only a dependency of what nobody runs");
    let programs = run("ls", &["/usr/lib/git-core"]);
    assert_eq!(programs, "git-remote-http\ngit-remote-https\n");
}

#[test]
fn makes_its_first_call_soon() {
    let vendor = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let port = vendor.local_addr().unwrap().port();
    let targets = format!(
        "targets: [{{name: llm, provider: openai-compatible, model: m, base_url: 'http://127.0.0.1:{port}/v1'}}]\n"
    );
    std::fs::write(dir.path().join("targets.yaml"), targets).unwrap();
    let request = r#"{"id":"r","messages":[{"role":"user","content":"hello"}]}"#;
    std::fs::write(dir.path().join("requests.jsonl"), format!("{request}\n")).unwrap();
    let mount = format!("{}:/github/workspace", dir.path().display());
    let name = format!("run-evals-first-call-{}", std::process::id());
    let started = Instant::now();
    let mut container = Command::new("docker")
        .args(["run", "--rm", "--network", "host", "--name", &name])
        .args(["--volume", &mount, "--workdir", "/github/workspace"])
        .args([
            "--env",
            "INPUT_MODE=dispatch",
            "--env",
            "INPUT_REQUESTS=requests.jsonl",
            "--env",
            "INPUT_TARGET=llm",
        ])
        .args(["--env", "HOME=/root", &image()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _call = vendor.accept().unwrap();
    let elapsed = started.elapsed();
    docker(&["kill", &name]);
    container.wait().unwrap();
    eprintln!("image: {} ms from `docker run` to the first call", elapsed.as_millis());
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

/// The size of an image as it travels.
fn compressed(image: &str) -> i64 {
    let mut save = Command::new("docker").args(["save", image]).stdout(Stdio::piped()).spawn().unwrap();
    let mut gzip = GzEncoder::new(Count(0), Compression::default());
    io::copy(&mut save.stdout.take().unwrap(), &mut gzip).unwrap();
    assert!(save.wait().unwrap().success());
    gzip.finish().unwrap().0
}

struct Count(i64);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += i64::try_from(bytes.len()).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
