//! Slow clients: they are disconnected, and other clients do not wait for them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::http;
use super::service::{OURS, Service, bare_workspace, bearer};
use crate::support::until;

/// How long a connection lasts after this is sent, and the response.
fn lasts(service: &Service, bytes: &[u8]) -> (Duration, Option<u16>) {
    let started = Instant::now();
    let mut stream = TcpStream::connect(&service.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is closed");
    (started.elapsed(), http::parse(&answer).map(|answer| answer.status))
}

#[test]
fn incomplete_heads_and_bodies_time_out() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let head = format!("POST /evaluate HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n", bearer(OURS));
    let body = format!("{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"skill_name\"");
    let idle = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    std::thread::scope(|scope| {
        let all = [("", None), (head.as_str(), Some(408)), (body.as_str(), Some(408)), (idle, Some(200))];
        let all = all.map(|(bytes, status)| (status, scope.spawn(|| lasts(&service, bytes.as_bytes()))));
        for (index, (status, lasted)) in all.into_iter().enumerate() {
            let (took, answered) = lasted.join().unwrap();
            assert!(took >= Duration::from_secs(9) && took < Duration::from_secs(40), "{index}: {took:?}");
            // The server may or may not respond to an incomplete head.
            assert!(answered == status || answered.is_none() && index < 2, "{index}: {answered:?}");
        }
        // Meanwhile and afterwards, other clients get responses.
        assert_eq!(service.get("/jobs").status, 200);
    });
}

#[test]
fn one_address_cannot_take_all_connections() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &["--max-connections", "16"]);
    let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&service.address).unwrap()).collect();
    // Four of them are accepted; the others are closed at once.
    let is_closed = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    };
    let closed = idle.iter().skip(4).filter(|stream| is_closed(stream)).count();
    assert_eq!(closed, 4);
    drop(idle);
    until("it", || {
        http::send(&service.address, &http::request("GET", "/health", &[], b""))
            .is_some_and(|answer| answer.status == 200)
    });
}
