//! Sessions: a signed cookie that scripts cannot read, other sites cannot send, and that expires.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::HeaderMap;
use http::header::COOKIE;
use http::request::Parts;
use jiff::Timestamp;

use super::Desk;
use super::format::in_url;
use super::page::redirect;
use crate::serve::App;
use crate::serve::auth::Role;

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_hours(12);
/// The longest path to return to after signing in.
const LONGEST_PATH: usize = 500;

/// The session of a signed-in user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    id: String,
    expires: i64,
    role: Role,
    /// The secret in every form of this session.
    pub(super) csrf: String,
}

impl Session {
    /// Whether its token may change anything; for others, pages have no buttons.
    pub(super) fn can_act(&self) -> bool {
        self.role == Role::Full
    }
}

/// The sessions of this process. Cookies of an earlier process are invalid, so a sign-out is permanent.
#[derive(Debug)]
pub(super) struct Sessions {
    process: [u8; 16],
    /// Sessions that were signed out, until they would expire.
    ended: Mutex<HashMap<String, i64>>,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self { process: random(), ended: Mutex::default() }
    }

    /// Creates a session and returns its cookie value. It is signed with the key of the token and ends with
    /// that token.
    pub(super) fn begin(&self, key: &[u8; 32], now: Timestamp) -> String {
        let expires = now.as_second() + LASTS.as_secs().cast_signed();
        let id = hex::encode(random::<16>());
        let mac = hex::encode(sign(&Key::new(HMAC_SHA256, key), &self.signed("session", &id, expires)));
        format!("{expires}.{id}.{mac}")
    }

    /// The session of a cookie, if its signature is valid, it has not expired, and the user has not signed
    /// out.
    pub(super) fn of(&self, cookie: &str, keys: &[(Role, [u8; 32])], now: Timestamp) -> Option<Session> {
        let mut parts = cookie.split('.');
        let (Some(expires), Some(id), Some(mac), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let (expires, mac): (i64, _) = (expires.parse().ok()?, hex::decode(mac).ok()?);
        let is_signed = |(_, key): &&(Role, [u8; 32])| {
            verify(&Key::new(HMAC_SHA256, key), &self.signed("session", id, expires), &mac).is_ok()
        };
        let (role, key) = keys.iter().find(is_signed)?;
        let has_ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id);
        if expires <= now.as_second() || has_ended {
            return None;
        }
        let csrf = hex::encode(sign(&Key::new(HMAC_SHA256, key), &self.signed("form", id, expires)));
        Some(Session { id: id.to_owned(), expires, role: *role, csrf })
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &Session, now: Timestamp) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, expires| *expires > now.as_second());
        ended.insert(session.id.clone(), session.expires);
    }

    fn signed(&self, purpose: &str, id: &str, expires: i64) -> Vec<u8> {
        [&self.process[..], format!("{purpose}.{expires}.{id}").as_bytes()].concat()
    }
}

/// Rejects requests without a session: redirects to the login page, and back afterwards.
impl FromRequestParts<Desk> for Session {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, desk: &Desk) -> Result<Self, Response> {
        let keys = || desk.app.tokens.session_keys();
        let found = cookie(&parts.headers, &desk.app)
            .and_then(|cookie| desk.studio.sessions.of(&cookie, &keys(), Timestamp::now()));
        found.ok_or_else(|| {
            let wanted = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
            redirect(&if is_own_path(wanted) && parts.method.is_safe() {
                format!("/studio/login?next={}", in_url(wanted))
            } else {
                "/studio/login".to_owned()
            })
        })
    }
}

/// The header that sets or removes the cookie.
pub(super) fn set_cookie(app: &App, value: Option<&str>) -> String {
    let name = name(app);
    let secure = if app.is_https { "; Secure" } else { "" };
    let age = value.map_or(0, |_| LASTS.as_secs());
    format!("{name}={}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}", value.unwrap_or_default())
}

/// Whether this is a path of the studio itself, and so a safe redirect target.
pub(super) fn is_own_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    path.len() <= LONGEST_PATH && path.starts_with("/studio/") && path.bytes().all(is_plain)
}

fn cookie(headers: &HeaderMap, app: &App) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name(app)).map(|(_, value)| value.to_owned())
}

/// With TLS, the name's prefix prevents other hosts of the domain from setting it.
fn name(app: &App) -> &'static str {
    if app.is_https { "__Host-run-evals" } else { "run-evals" }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(clippy::expect_used, reason = "sessions need random numbers")]
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: [u8; 32] = [1; 32];
    const SECOND: [u8; 32] = [2; 32];
    const KEYS: [(Role, [u8; 32]); 2] = [(Role::Full, FIRST), (Role::ReadOnly, SECOND)];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_session_ends_with_its_time_or_its_key() {
        let sessions = Sessions::new();
        let cookie = sessions.begin(&FIRST, at(0));
        assert!(sessions.of(&cookie, &KEYS, at(0)).is_some());
        assert!(sessions.of(&cookie, &[KEYS[1], KEYS[0]], at(43_199)).is_some(), "another token was added");
        assert_eq!(sessions.of(&cookie, &KEYS, at(43_200)), None, "its time is over");
        assert_eq!(sessions.of(&cookie, &KEYS[1..], at(0)), None, "its token is gone");
        assert_eq!(Sessions::new().of(&cookie, &KEYS, at(0)), None, "it is of another process");
        let second = sessions.begin(&SECOND, at(0));
        assert!(
            sessions.of(&second, &KEYS[1..], at(0)).is_some(),
            "the first token has nothing to do with it"
        );
        assert_eq!(sessions.of(&second, &KEYS[..1], at(0)), None, "its token is gone");
    }

    #[test]
    fn a_session_has_the_role_of_the_key_that_signed_it() {
        let sessions = Sessions::new();
        let can_act = |key: &[u8; 32]| {
            let cookie = sessions.begin(key, at(0));
            sessions.of(&cookie, &KEYS, at(0)).unwrap().can_act()
        };
        assert_eq!([can_act(&FIRST), can_act(&SECOND)], [true, false]);
    }

    #[test]
    fn a_modified_cookie_is_rejected() {
        let sessions = Sessions::new();
        let cookie = sessions.begin(&FIRST, at(0));
        for place in 0..cookie.len() {
            let mut forged = cookie.clone().into_bytes();
            forged[place] = if forged[place] == b'1' { b'2' } else { b'1' };
            assert_eq!(sessions.of(std::str::from_utf8(&forged).unwrap(), &KEYS, at(0)), None, "{place}");
        }
        for text in [
            "",
            ".",
            "..",
            "...",
            "1.2.3",
            "9999999999.x.",
            &cookie[..cookie.len() - 2],
            &format!("{cookie}."),
        ] {
            assert_eq!(sessions.of(text, &KEYS, at(0)), None, "{text}");
        }
    }

    #[test]
    fn a_signed_out_session_stays_out_and_is_eventually_forgotten() {
        let sessions = Sessions::new();
        let [one, two] = [0, 1].map(|second| sessions.begin(&FIRST, at(second)));
        let [first, second] = [&one, &two].map(|cookie| sessions.of(cookie, &KEYS, at(1)).unwrap());
        assert_ne!(first.csrf, second.csrf);
        sessions.end(&first, at(1));
        assert_eq!(sessions.of(&one, &KEYS, at(1)), None);
        assert!(sessions.of(&two, &KEYS, at(1)).is_some());
        sessions.end(&second, at(50_000));
        assert_eq!(sessions.ended.lock().unwrap().len(), 1);
    }

    #[test]
    fn only_own_paths_are_redirect_targets() {
        assert!(is_own_path("/studio/leaderboard?skill=a&page=2"));
        for path in [
            "",
            "/",
            "/studio",
            "//evil.example/studio/",
            "/studio/\\evil",
            "https://evil.example/studio/",
            "/studio/\n",
            "/jobs",
        ] {
            assert!(!is_own_path(path), "{path}");
        }
    }
}
