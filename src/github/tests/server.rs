//! A server that records its requests and gives scripted responses, down to the byte.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request that arrived.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The response to a request.
pub(super) enum Reply {
    Bytes(Vec<u8>),
    /// The connection stays open and silent.
    Silence,
    /// The connection is closed at once.
    Hangup,
}

pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Server {
    /// Answers the nth request (from 0) with the result of the function; one request per connection.
    pub(super) async fn start(
        reply: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let (log, reply) = (Arc::clone(&seen), Arc::new(reply));
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (log, reply) = (Arc::clone(&log), Arc::clone(&reply));
                tokio::spawn(async move { serve(socket, &log, &*reply).await });
            }
        });
        Self { url, seen, task }
    }

    /// Answers the requests with these, in order; a further request fails the test.
    pub(super) async fn script(replies: Vec<Reply>) -> Self {
        let replies: Vec<_> = replies.into_iter().map(|reply| Mutex::new(Some(reply))).collect();
        Self::start(move |index, seen| {
            let reply = replies.get(index).and_then(|reply| reply.lock().unwrap().take());
            reply.unwrap_or_else(|| {
                json(599, "{}").note(&format!("unexpected: {} {}", seen.method, seen.path))
            })
        })
        .await
    }

    /// All requests so far.
    pub(super) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// All requests so far, as `GET /path`.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reply {
    /// With one more header.
    pub(super) fn header(self, name: &str, value: &str) -> Self {
        let Self::Bytes(bytes) = self else { panic!("no headers without an answer") };
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Self::Bytes(format!("{head}\r\n{name}: {value}\r\n\r\n{body}").into_bytes())
    }

    fn note(self, text: &str) -> Self {
        self.header("x-note", text)
    }
}

/// An answer with a JSON body.
pub(super) fn json(status: u16, body: &str) -> Reply {
    answer(status, "application/json; charset=utf-8", body)
}

/// An answer of any type.
pub(super) fn answer(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    Reply::Bytes([head.as_bytes(), body].concat())
}

/// An answer without a body.
pub(super) fn empty(status: u16) -> Reply {
    let length = if status == 204 || status == 304 { "" } else { "content-length: 0\r\n" };
    Reply::Bytes(format!("HTTP/1.1 {status} X\r\nconnection: close\r\n{length}\r\n").into_bytes())
}

async fn serve(
    mut socket: TcpStream,
    log: &Mutex<Vec<ReceivedRequest>>,
    reply: &(dyn Fn(usize, &ReceivedRequest) -> Reply + Send + Sync),
) {
    let mut bytes = Vec::new();
    let request = loop {
        let mut buffer = vec![0; 64 << 10];
        let length = socket.read(&mut buffer).await.unwrap();
        if length == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..length]);
        if let Some(request) = parse(&bytes) {
            break request;
        }
    };
    let reply = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        reply(log.len() - 1, &request)
    };
    match reply {
        Reply::Bytes(bytes) => {
            // The client may have disconnected.
            let _ = socket.write_all(&bytes).await;
            let _ = socket.shutdown().await;
        }
        Reply::Silence => {
            let mut buffer = [0; 1];
            let _ = socket.read(&mut buffer).await;
        }
        Reply::Hangup => {}
    }
}

fn parse(bytes: &[u8]) -> Option<ReceivedRequest> {
    let end = memchr::memmem::find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let body = &bytes[end + 4..];
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: HeaderMap = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
        })
        .collect();
    let length = headers.get("content-length").map_or(0, |value| value.to_str().unwrap().parse().unwrap());
    (body.len() >= length).then(|| ReceivedRequest { method, path, headers, body: body[..length].to_owned() })
}
