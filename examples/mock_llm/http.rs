//! The subset of HTTP/1.1 that a client with keep-alive, pipelining and `Content-Length` needs.

use std::io::Write as _;
use std::str;

use memchr::memmem;

/// The maximum body length.
pub(crate) const LONGEST_BODY: usize = 32 << 20;

const LONGEST_HEAD: usize = 64 << 10;

/// A request, borrowed from the bytes that were read.
#[derive(Debug, PartialEq)]
pub(crate) struct Request<'a> {
    /// For example `POST`.
    pub(crate) method: &'a str,
    /// Without the query.
    pub(crate) path: &'a str,
    /// The key of the `Authorization` header; empty without one.
    pub(crate) key: &'a str,
    /// Whether the client will send another one on this connection.
    pub(crate) keep_alive: bool,
    /// The body; empty without one.
    pub(crate) body: &'a [u8],
}

/// The result of parsing the bytes so far.
#[derive(Debug, PartialEq)]
pub(crate) enum Parsed<'a> {
    /// A request; the next one begins behind `length` bytes.
    Whole {
        /// The request.
        request: Request<'a>,
        /// How many bytes it takes.
        length: usize,
    },
    /// An incomplete request: at least `missing` more bytes follow.
    Partial {
        /// 1 if the head is incomplete.
        missing: usize,
    },
    /// Not a request; the connection is unusable.
    Refused {
        /// The status to answer.
        status: u16,
        /// Why.
        message: &'static str,
    },
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// The status.
    pub(crate) status: u16,
    /// The `Retry-After` header, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether the connection stays open.
    pub(crate) keep_alive: bool,
    /// JSON.
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// Appends the answer as bytes, head and body, so that one write sends it.
    pub(crate) fn append_to(&self, output: &mut Vec<u8>) {
        let Self { status, retry_after, keep_alive, body } = self;
        output.reserve(192 + body.len());
        // Writing to a `Vec` cannot fail.
        let _ = write!(
            output,
            "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            reason(*status),
            body.len()
        );
        if let Some(seconds) = retry_after {
            let _ = write!(output, "retry-after: {seconds}\r\n");
        }
        if !keep_alive {
            output.extend_from_slice(b"connection: close\r\n");
        }
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(body);
    }
}

/// Reads the first request of these bytes.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(head_length) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > LONGEST_HEAD {
            refused(431, "the head of the request is too long")
        } else {
            Parsed::Partial { missing: 1 }
        };
    };
    let Ok(head) = str::from_utf8(&bytes[..head_length]) else {
        return refused(400, "the head of the request is not UTF-8");
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return refused(400, "the request line is not `METHOD TARGET VERSION`");
    };
    let mut keep_alive = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return refused(505, "only HTTP/1.1 is spoken here"),
    };
    let mut body_length = None;
    let mut key = "";
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return refused(400, "a header has no colon");
        };
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("content-length") {
            match length_of(value) {
                Some(length) if body_length.is_none_or(|known| known == length) => body_length = Some(length),
                _ => return refused(400, "`Content-Length` is not one number"),
            }
        } else if name.eq_ignore_ascii_case("authorization") {
            key = value.strip_prefix("Bearer ").unwrap_or(value);
        } else if name.eq_ignore_ascii_case("connection") {
            keep_alive &= !value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return refused(411, "a body needs a `Content-Length`");
        }
    }
    let body_length = body_length.unwrap_or(0);
    if body_length > LONGEST_BODY {
        return refused(413, "the body is longer than 32 MiB");
    }
    let length = head_length + 4 + body_length;
    match bytes.get(head_length + 4..length) {
        Some(body) => {
            let path = target.split_once('?').map_or(target, |(path, _)| path);
            Parsed::Whole { request: Request { method, path, key, keep_alive, body }, length }
        }
        None => Parsed::Partial { missing: length - bytes.len() },
    }
}

fn refused(status: u16, message: &'static str) -> Parsed<'static> {
    Parsed::Refused { status, message }
}

/// `str::parse` alone would also accept a sign.
fn length_of(value: &str) -> Option<usize> {
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn post(path: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    fn status_of(bytes: &[u8]) -> u16 {
        match parse(bytes) {
            Parsed::Refused { status, .. } => status,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_request_without_a_body_ends_with_its_head() {
        let bytes = b"GET /counters?x=1 HTTP/1.1\r\nConnection: Close\r\n\r\n";
        let request = Request { method: "GET", path: "/counters", key: "", keep_alive: false, body: b"" };
        assert_eq!(parse(bytes), Parsed::Whole { request, length: bytes.len() });
    }

    #[test]
    fn the_missing_bytes_of_a_body_are_counted() {
        let bytes = post("/", &[b'x'; 1000]);
        assert_eq!(parse(&bytes[..bytes.len() - 400]), Parsed::Partial { missing: 400 });
        assert_eq!(parse(b"POST / HT"), Parsed::Partial { missing: 1 });
        assert_eq!(parse(b""), Parsed::Partial { missing: 1 });
    }

    #[test]
    fn the_longest_body_is_read_and_a_longer_one_is_rejected() {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {LONGEST_BODY}\r\n\r\n");
        assert_eq!(parse(head.as_bytes()), Parsed::Partial { missing: LONGEST_BODY });
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", LONGEST_BODY + 1);
        assert_eq!(status_of(head.as_bytes()), 413);
    }

    #[test]
    fn invalid_http_is_rejected() {
        assert_eq!(status_of(b"hello\r\n\r\n"), 400);
        assert_eq!(status_of(b"GET / HTTP/2\r\n\r\n"), 505);
        assert_eq!(status_of(b"GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
        assert_eq!(status_of(b"GET /\xff HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status_of(b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n"), 400);
        assert_eq!(status_of(b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n"), 400);
        assert_eq!(status_of(b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
        assert_eq!(status_of(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
        assert_eq!(status_of(&vec![b'a'; LONGEST_HEAD + 1]), 431);
    }

    #[test]
    fn a_response_is_one_write() {
        let mut bytes = Vec::new();
        Answer { status: 429, retry_after: Some(1), keep_alive: false, body: b"{}" }.append_to(&mut bytes);
        let text = String::from_utf8(bytes).unwrap().replace('\r', "");
        insta::assert_snapshot!(text, @r"
        HTTP/1.1 429 Too Many Requests
        content-type: application/json
        content-length: 2
        retry-after: 1
        connection: close

        {}
        ");
    }

    proptest! {
        #[test]
        fn pipelined_requests_are_parsed_however_they_are_split(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..5),
            cuts in proptest::collection::vec(1_usize..200, 1..40),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| post("/v1", body)).collect();
            let (mut read, mut used, mut seen) = (0, 0, Vec::new());
            let mut cuts = cuts.into_iter().cycle();
            while used < stream.len() {
                match parse(&stream[used..read]) {
                    Parsed::Whole { request, length } => {
                        prop_assert_eq!(request.path, "/v1");
                        seen.push(request.body.to_vec());
                        used += length;
                    }
                    Parsed::Partial { missing } => {
                        prop_assert!(read + missing <= stream.len(), "asks for more than there is");
                        read = (read + cuts.next().unwrap_or(1)).min(stream.len());
                    }
                    Parsed::Refused { message, .. } => prop_assert!(false, "{}", message),
                }
            }
            prop_assert_eq!(seen, bodies);
        }
    }
}
