//! Load on the port does not slow down a job.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::http;
use super::service::{Service, bearer};
use crate::evaluate::stage::Stage;

const REQUESTS: u64 = 10_000;

/// How long a job takes.
fn job(service: &Service) -> Duration {
    let started = Instant::now();
    let id = service.accepted(10);
    service.ended(&id, "completed");
    started.elapsed()
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn ten_thousand_requests_and_wrong_tokens_do_not_slow_a_job_down() {
    let stage = Stage::new();
    // A job waits for models, not for this machine: 360 calls of a quarter of a second, few at a time.
    let _llm = stage.gateway(&["--latency-ms", "250"]);
    let service =
        Service::start(&stage, &["--no-publish", "--max-concurrency", "12", "--report-failures", "none"]);
    let quiet = job(&service);

    let (answered, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let wrong = http::request("GET", "/jobs", &[("Authorization", &bearer("wrong"))], b"");
    let noisy = std::thread::scope(|scope| {
        for _ in 0..4 {
            // For the duration of the job, and at least this many.
            scope.spawn(|| {
                while answered.load(Ordering::Relaxed) < REQUESTS || !done.load(Ordering::Relaxed) {
                    healths(&service.address, &answered);
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = http::send(&service.address, &wrong);
                }
            });
        }
        let noisy = job(&service);
        done.store(true, Ordering::Relaxed);
        noisy
    });
    let ratio = noisy.as_secs_f64() / quiet.as_secs_f64();
    let answered = answered.into_inner();
    println!(
        "a job took {quiet:?} in quiet and {noisy:?} with {answered} requests of /health and wrong tokens: ratio {ratio:.3}"
    );
    assert!(answered >= REQUESTS);
    assert!(ratio < 1.5, "{ratio}");
}

/// A hundred requests on one connection.
fn healths(address: &str, answered: &AtomicU64) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..100 {
        if stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").is_err() {
            return;
        }
        let read = stream.read(&mut buffer).unwrap_or(0);
        if !buffer[..read].starts_with(b"HTTP/1.1 200") {
            return;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}
