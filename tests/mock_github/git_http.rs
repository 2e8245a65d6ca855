//! git over HTTP: `git http-backend` as a CGI program, behind GitHub's access rules.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::auth;
use crate::git;
use crate::pkt_line::{self, Update};
use crate::push_rules;
use crate::reply;
use crate::wire::{Push, Recorded, TokenKind};
use crate::world::{Repo, Token, World};

/// A request to a repository.
struct Call {
    repo: Repo,
    rest: String,
    login: String,
}

/// Whether a path belongs to git.
pub(crate) fn is_git(path: &str) -> bool {
    split(path).is_some()
}

/// `owner/name` and what follows.
fn split(path: &str) -> Option<(String, String)> {
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (owner, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_known = matches!(rest, "info/refs" | "git-upload-pack" | "git-receive-pack" | "HEAD")
        || rest.starts_with("objects/");
    is_known.then(|| (format!("{owner}/{}", name.trim_end_matches(".git")), rest.to_owned()))
}

/// Serves one git request.
pub(crate) async fn serve(world: Arc<World>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some((full_name, rest)) = split(parts.uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let is_push = rest == "git-receive-pack" || parts.uri.query() == Some("service=git-receive-pack");
    let called = format!("GIT {rest}");
    let record = record(&world, &parts, &called);
    let before = world.lock().faults.answer_to(&called, false);
    let right = async {
        let call = match admitted(&world, &parts.headers, &full_name, is_push) {
            Ok((repo, login)) => Call { repo, rest, login },
            Err((status, text)) => return refuse(status, &text),
        };
        let answered = if call.rest == "git-receive-pack" {
            receive(&world, &parts, body, &call).await
        } else {
            pass_on(&world, &parts, body, &call).await
        };
        answered
            .unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response())
    };
    let response = match before {
        Some(wrong) => reply::wrong(wrong, right).await,
        None => right.await,
    };
    let after = world.lock().faults.answer_to(&called, true);
    let response = match after {
        Some(wrong) => reply::wrong(wrong, async { response }).await,
        None => response,
    };
    world.lock().requests[record].status = response.status().as_u16();
    response
}

fn record(world: &World, parts: &Parts, called: &str) -> usize {
    let at_ms = world.at_ms();
    let mut state = world.lock();
    state.requests.push(Recorded {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        route: called.to_owned(),
        login: String::new(),
        headers: BTreeMap::new(),
        body: None,
        status: 0,
        counted: false,
        at_ms,
    });
    state.requests.len() - 1
}

/// The repository and the name of the caller, if access is allowed.
fn admitted(
    world: &World,
    headers: &HeaderMap,
    full_name: &str,
    is_push: bool,
) -> Result<(Repo, String), (u16, String)> {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token: Option<Token> = match sent {
        None => None,
        Some(text) => {
            let password = text.strip_prefix("Basic ").and_then(auth::basic).map(|(_, password)| password);
            match password.and_then(|password| auth::token(world, &password)) {
                Some(token) => Some(token),
                None => {
                    return Err((401, "Invalid username or token. Password authentication is not supported for Git operations.".to_owned()));
                }
            }
        }
    };
    let repo = world.repo(full_name);
    let Some(token) = token else {
        // Without public access, GitHub asks for credentials, whether the repository exists or not.
        return match repo {
            Some(repo) if !repo.private && !is_push => Ok((repo, String::new())),
            _ => Err((401, "Repository not found.".to_owned())),
        };
    };
    let grants = token.grants_in(full_name);
    let Some(repo) = repo.filter(|repo| !repo.private || grants.is_some()) else {
        return Err((404, "Repository not found.".to_owned()));
    };
    let access = grants.and_then(|grants| grants.get("contents")).map_or("none", String::as_str);
    let may_write = access == "write" || token.kind == TokenKind::Classic && grants.is_some();
    if !(may_write || !is_push && (access == "read" || !repo.private)) {
        let text = format!("Permission to {}.git denied to {}.", repo.full_name(), token.login);
        let text = if is_push { text } else { "Write access to repository not granted.".to_owned() };
        return Err((403, text));
    }
    if repo.archived && is_push {
        return Err((403, "This repository was archived so it is read-only.".to_owned()));
    }
    Ok((repo, token.login))
}

fn refuse(status: u16, text: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    let mut response =
        (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.to_owned()).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"GitHub\""));
    }
    response
}

/// Anything but a push: streamed to git and back.
async fn pass_on(world: &World, parts: &Parts, mut body: Body, call: &Call) -> anyhow::Result<Response> {
    let (mut child, mut stdin, mut stdout) = backend(world, parts, call)?;
    let sender = tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            let Some(data) = frame.data_ref() else { continue };
            if stdin.write_all(data).await.is_err() {
                break;
            }
        }
    });
    let (status, headers, first) = head(&mut stdout).await?;
    let (mut channel, answer) = Channel::<Bytes, std::io::Error>::new(4);
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        let mut chunk = Bytes::from(first);
        loop {
            if !chunk.is_empty() && channel.send_data(chunk).await.is_err() {
                break;
            }
            match stdout.read(&mut buffer).await {
                Ok(length) if length > 0 => chunk = Bytes::copy_from_slice(&buffer[..length]),
                _ => break,
            }
        }
        sender.abort();
        let _ = child.wait().await;
    });
    let mut response = (status, Body::new(answer)).into_response();
    response.headers_mut().extend(headers);
    Ok(response)
}

/// A push: checked before git sees it, and recorded afterwards.
async fn receive(world: &World, parts: &Parts, mut body: Body, call: &Call) -> anyhow::Result<Response> {
    let mut begun = Vec::new();
    let (updates, has_side_band) = loop {
        if let Some(found) = pkt_line::updates(&begun) {
            break found;
        }
        match body.frame().await {
            Some(frame) => begun.extend_from_slice(
                frame.context("the push is torn")?.data_ref().map_or(&[][..], |data| data),
            ),
            None => break (Vec::new(), false),
        }
    };
    let mut has_key = false;
    if push_rules::is_protected(world) {
        while let Some(frame) = body.frame().await {
            begun.extend_from_slice(
                frame.context("the push is torn")?.data_ref().map_or(&[][..], |data| data),
            );
        }
        has_key = push_rules::has_key(&call.repo, &begun).await?;
    }
    if let Some((text, reason)) = push_rules::refusal(world, &call.repo, &updates, has_key) {
        // git reads the response only after it has sent everything.
        while body.frame().await.is_some() {}
        note(world, call, &updates, false).await;
        let answer = pkt_line::refusal(&updates, has_side_band, &text, reason);
        return Ok(
            ([(header::CONTENT_TYPE, "application/x-git-receive-pack-result")], answer).into_response()
        );
    }
    push_rules::move_first(world, &call.repo, &updates).await?;
    let (mut child, mut stdin, mut stdout) = backend(world, parts, call)?;
    let sender = tokio::spawn(async move {
        let mut is_open = stdin.write_all(&begun).await.is_ok();
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(data) = frame.data_ref().filter(|_| is_open) {
                is_open = stdin.write_all(data).await.is_ok();
            }
        }
    });
    let (status, headers, mut answer) = head(&mut stdout).await?;
    stdout.read_to_end(&mut answer).await?;
    let _ = sender.await;
    child.wait().await?;
    note(world, call, &updates, true).await;
    let mut response = (status, answer).into_response();
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Records the result of a push.
async fn note(world: &World, call: &Call, updates: &[Update], was_tried: bool) {
    for update in updates {
        let now = call.repo.bare.resolve(&update.reference).await;
        let is_there = if update.is_deletion() { now.is_none() } else { now.as_deref() == Some(&update.new) };
        let push = Push {
            repo: call.repo.full_name(),
            reference: update.reference.clone(),
            login: call.login.clone(),
            accepted: was_tried && is_there,
            at_ms: world.at_ms(),
        };
        world.lock().pushes.push(push);
    }
    world.changed.notify_waiters();
}

/// Starts the CGI program.
fn backend(world: &World, parts: &Parts, call: &Call) -> anyhow::Result<(Child, ChildStdin, ChildStdout)> {
    let header =
        |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = git::command();
    command.arg("http-backend");
    command
        .env("GIT_PROJECT_ROOT", world.git_root())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{}.git/{}", call.repo.full_name(), call.rest))
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", if call.login.is_empty() { "anonymous" } else { &call.login })
        .env("REMOTE_ADDR", "127.0.0.1");
    if let Some(length) = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()) {
        command.env("CONTENT_LENGTH", length);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stdin = child.stdin.take().context("no pipe to git")?;
    let stdout = child.stdout.take().context("no pipe from git")?;
    Ok((child, stdin, stdout))
}

/// The head of the program's response, and the bytes that followed it.
async fn head(stdout: &mut ChildStdout) -> anyhow::Result<(StatusCode, HeaderMap, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let found = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = found {
            break end;
        }
        if stdout.read_buf(&mut bytes).await? == 0 {
            anyhow::bail!("git http-backend gave no answer");
        }
    };
    let (mut status, mut headers) = (StatusCode::OK, HeaderMap::new());
    for line in String::from_utf8_lossy(&bytes[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            status = code.parse::<StatusCode>().unwrap_or(StatusCode::OK);
        } else {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::from_str(value)?);
        }
    }
    Ok((status, headers, bytes[end + 4..].to_vec()))
}
