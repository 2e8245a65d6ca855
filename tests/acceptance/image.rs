//! The image: its content, its size, its start-up time.

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::docker::{docker, from_ci, image};

/// The published `debian:bookworm-slim`, compressed.
const PUBLISHED_BASE: i64 = 28_200_000;
/// The maximum compressed size of the image.
const MOST: i64 = 80_000_000;

#[test]
fn the_image_is_small() {
    let base = compressed(&from_ci("RUN_EVALS_BASE_IMAGE"));
    let image = compressed(&image());
    let size = image - base + PUBLISHED_BASE;
    let mb = |bytes: i64| format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000);
    eprintln!("image: {} compressed, of which {} are ours; at most {}", mb(size), mb(image - base), mb(MOST));
    assert!(size <= MOST);
}

#[test]
fn the_image_meets_githubs_requirements_for_actions() {
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
fn the_image_has_git_for_https_and_no_perl_beyond_the_base() {
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
    assert!(!packages.contains(&"perl"), "perl is only a dependency of unused programs");
    let programs = run("ls", &["/usr/lib/git-core"]);
    assert_eq!(programs, "git-remote-http\ngit-remote-https\n");
}

#[test]
fn the_image_makes_its_first_call_soon() {
    let vendor = TcpListener::bind("127.0.0.1:0").unwrap();
    let started = Instant::now();
    let container = Dispatch::start("first-call", &vendor, &[]);
    let _call = vendor.accept().unwrap();
    let elapsed = started.elapsed();
    drop(container);
    eprintln!("image: {} ms from `docker run` to the first call", elapsed.as_millis());
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

/// Only debug builds have the clock factor: the image waits the whole second before it retries.
#[test]
fn the_image_ignores_the_clock_factor_of_tests() {
    let vendor = TcpListener::bind("127.0.0.1:0").unwrap();
    let _container = Dispatch::start("clock-factor", &vendor, &["RUN_EVALS_CLOCK_FACTOR=0.001"]);
    let (mut call, _) = vendor.accept().unwrap();
    let _ = call.read(&mut [0; 65536]).unwrap();
    call.write_all(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    let answered = Instant::now();
    drop(call);
    let _retry = vendor.accept().unwrap();
    assert!(answered.elapsed() >= Duration::from_millis(900), "{:?}", answered.elapsed());
}

/// A container that dispatches one request, killed with the test.
struct Dispatch {
    container: Child,
    name: String,
    _dir: TempDir,
}

impl Dispatch {
    fn start(name: &str, vendor: &TcpListener, env: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = vendor.local_addr().unwrap().port();
        let targets = format!(
            "targets: [{{name: llm, provider: openai-compatible, model: m, base_url: 'http://127.0.0.1:{port}/v1'}}]\n"
        );
        std::fs::write(dir.path().join("targets.yaml"), targets).unwrap();
        let request = r#"{"id":"r","messages":[{"role":"user","content":"hello"}]}"#;
        std::fs::write(dir.path().join("requests.jsonl"), format!("{request}\n")).unwrap();
        let mount = format!("{}:/github/workspace", dir.path().display());
        let name = format!("run-evals-{name}-{}", std::process::id());
        let inputs =
            ["INPUT_MODE=dispatch", "INPUT_REQUESTS=requests.jsonl", "INPUT_TARGET=llm", "HOME=/root"];
        let container = Command::new("docker")
            .args(["run", "--rm", "--network", "host", "--name", &name])
            .args(["--volume", &mount, "--workdir", "/github/workspace"])
            .args(inputs.iter().chain(env).flat_map(|variable| ["--env", variable]))
            .arg(image())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { container, name, _dir: dir }
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        docker(&["kill", &self.name]);
        self.container.wait().unwrap();
    }
}

/// The compressed size of an image.
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
