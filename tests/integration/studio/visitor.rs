//! A visitor without JavaScript: URLs, forms and a cookie, as they go over the wire.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::PATIENCE;

/// A visitor, with or without a session.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) address: String,
    pub(crate) cookie: Option<String>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The response, if it has this status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Visitor {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), cookie: None }
    }

    /// Signs in with a token.
    pub(crate) fn sign_in(&mut self, token: &str) -> Answer {
        let answer = self.post("/studio/login", &[], &[("token", token)]);
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = Some(set.split(';').next().unwrap().to_owned());
        }
        answer
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a form.
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Answer {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let kind = [("Content-Type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &[&kind[..], headers].concat(), &body.join("&"))
    }

    /// Presses a button of a freshly loaded page.
    pub(crate) fn press(&self, path: &str) -> Answer {
        self.post(path, &[], &[("csrf", &self.csrf())])
    }

    /// The CSRF token of this session's forms.
    pub(crate) fn csrf(&self) -> String {
        let page = self.get("/studio/jobs").expect(200);
        between(&page.body, "name=\"csrf\" value=\"", "\"").to_owned()
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{cookie}{headers}\r\n{body}",
            self.address,
            body.len()
        );
        // The server may close the connection before the end.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// The text between two others.
pub(crate) fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let start = text.find(before).unwrap_or_else(|| panic!("no {before} in {text}")) + before.len();
    &text[start..start + text[start..].find(after).unwrap()]
}

fn encoded(value: &str) -> String {
    value
        .bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
