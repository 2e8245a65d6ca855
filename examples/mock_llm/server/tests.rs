use std::num::NonZeroU32;

use serde_json::{Value, json};

use super::*;

/// A server on a free port, and the task that serves.
async fn start(options: Options) -> (TcpStream, Arc<Server>, tokio::task::JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::new(Server::new(options));
    let serving = tokio::spawn(Arc::clone(&server).serve(listener));
    (TcpStream::connect(address).await.unwrap(), server, serving)
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn ask(text: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    request("POST", "/v1/chat/completions", &body)
}

/// Reads one response: its head and its JSON. A missing response is a closed connection.
async fn read_answer(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let (_, rest) = head.split_once("content-length: ").unwrap();
            let length: usize = rest.lines().next().unwrap().parse().unwrap();
            let mut body = bytes.split_off(end + 4);
            let read = body.len();
            body.resize(length, 0);
            stream.read_exact(&mut body[read..]).await.unwrap();
            return Some((head, serde_json::from_slice(&body).unwrap()));
        }
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return None,
        }
    }
}

async fn exchange(stream: &mut TcpStream, request: &str) -> Option<(String, Value)> {
    stream.write_all(request.as_bytes()).await.unwrap();
    read_answer(stream).await
}

async fn status(stream: &mut TcpStream, request: &str) -> String {
    let (head, _) = exchange(stream, request).await.unwrap();
    head.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_counted() {
    let (mut stream, ..) = start(Options { record: true, ..Options::default() }).await;
    let pipelined = [ask("a"), ask("b"), ask("a")].concat();
    let (first, rest) = pipelined.split_at(97);
    stream.write_all(first.as_bytes()).await.unwrap();
    stream.write_all(rest.as_bytes()).await.unwrap();
    for expected in ["a", "b", "a"] {
        let (_, answer) = read_answer(&mut stream).await.unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], expected);
    }
    let (_, served) = exchange(&mut stream, &request("GET", "/served", "")).await.unwrap();
    assert_eq!(served, json!({"a": 2, "b": 1}));
    let (_, mut counters) = exchange(&mut stream, &request("GET", "/counters", "")).await.unwrap();
    counters["held_us"].take();
    let expected = json!({"requests": 3, "ok": 3, "s429": 0, "s5xx": 0, "dropped": 0, "in_flight": 0,
        "max_in_flight": 1, "held_us": null});
    assert_eq!(counters, expected);

    exchange(&mut stream, &request("POST", "/reset", "")).await.unwrap();
    let (_, served) = exchange(&mut stream, &request("GET", "/served", "")).await.unwrap();
    assert_eq!(served, json!({}));
}

#[tokio::test]
async fn a_body_of_many_megabytes_is_echoed() {
    let (mut stream, ..) = start(Options::default()).await;
    let text = "x".repeat(8 << 20);
    let (_, answer) = exchange(&mut stream, &ask(&text)).await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"].as_str().unwrap().len(), text.len());
}

#[tokio::test]
async fn a_rate_limit_returns_429_with_retry_after() {
    let limit_per_second = NonZeroU32::new(2);
    let (mut stream, ..) = start(Options { limit_per_second, retry_after: 7, ..Options::default() }).await;
    for _ in 0..2 {
        assert_eq!(status(&mut stream, &ask("a")).await, "HTTP/1.1 200 OK");
    }
    let (head, body) = exchange(&mut stream, &ask("a")).await.unwrap();
    assert!(head.contains("429 Too Many Requests") && head.contains("retry-after: 7"), "{head}");
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    exchange(&mut stream, &request("POST", "/reset", "")).await.unwrap();
    assert_eq!(status(&mut stream, &ask("a")).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn too_many_concurrent_requests_are_rejected() {
    let options =
        Options { max_in_flight: NonZeroU32::new(1), latency: Duration::from_mins(10), ..Options::default() };
    let (mut held, server, _) = start(options).await;
    let mut other = TcpStream::connect(held.peer_addr().unwrap()).await.unwrap();
    held.write_all(ask("held").as_bytes()).await.unwrap();
    while server.state().counters.in_flight == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(&mut other, &ask("more")).await, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(server.state().counters.max_in_flight, 1);
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let (mut stream, server, _) = start(Options { rate_drop: 1.0, ..Options::default() }).await;
    assert_eq!(exchange(&mut stream, &ask("a")).await, None);
    assert_eq!(server.state().counters.dropped, 1);
}

#[tokio::test]
async fn an_invalid_request_is_an_error_and_leaves_nothing_in_flight() {
    let (mut stream, server, _) = start(Options::default()).await;
    let nonsense = request("POST", "/v1/chat/completions", "{");
    assert_eq!(status(&mut stream, &nonsense).await, "HTTP/1.1 400 Bad Request");
    assert_eq!(status(&mut stream, &request("GET", "/served", "")).await, "HTTP/1.1 404 Not Found");
    assert_eq!(status(&mut stream, "GET / HTTP/3\r\n\r\n").await, "HTTP/1.1 505 HTTP Version Not Supported");
    assert_eq!(server.state().counters.in_flight, 0);
}

#[tokio::test]
async fn shutdown_gets_a_response_and_ends_the_server() {
    let (mut stream, _, serving) = start(Options::default()).await;
    assert_eq!(status(&mut stream, &request("POST", "/shutdown", "")).await, "HTTP/1.1 200 OK");
    serving.await.unwrap().unwrap();
}

#[test]
fn fates_have_their_shares_and_depend_only_on_seed_and_number() {
    let options = |seed| Options {
        rate_429: 0.1,
        rate_5xx: 0.02,
        rate_drop: 0.01,
        jitter: Duration::from_millis(10),
        seed,
        ..Options::default()
    };
    let fates = |seed| (0..100_000).map(|n| fate(&options(seed), n)).collect::<Vec<_>>();
    let first = fates(1);
    assert_eq!(first, fates(1));
    assert_ne!(first, fates(2));
    for (kind, expected) in
        [(Fate::Limited, 10_000), (Fate::Overloaded, 2_000), (Fate::Dropped, 1_000), (Fate::Answered, 87_000)]
    {
        let count: usize = first.iter().filter(|(fate, _)| *fate == kind).count();
        assert!(count.abs_diff(expected) < 400, "{kind:?}: {count}");
    }
    let jitter: Duration = first.iter().map(|(_, jitter)| *jitter).sum();
    assert!(jitter.abs_diff(Duration::from_secs(500)) < Duration::from_secs(5), "{jitter:?}");
}
