//! The service that jobs upload artifacts to, and the blob store behind it: on a separate host, as on GitHub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::reply::{self, Query, encoded, json_response};
use crate::wire::Recorded;
use crate::world::{Artifact, Blob, Upload, World, random_hex, shown};

/// How long a download URL is valid.
const DOWNLOAD: Duration = Duration::from_mins(1);
const UPLOAD: Duration = Duration::from_hours(1);
const LARGEST_BLOCK: usize = 128 << 20;
const MOST_ARTIFACTS_OF_A_JOB: usize = 500;
const RETENTION_DAYS: i64 = 90;
const FORBIDDEN_IN_NAMES: [char; 11] = ['"', ':', '<', '>', '|', '*', '?', '\r', '\n', '\\', '/'];

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/twirp/github.actions.results.api.v1.ArtifactService/{method}", post(twirp))
        .route("/blobs/{name}", any(blob))
}

/// A token for the job, with the claims that clients read.
pub(crate) fn runtime_token(
    world: &World,
    run: u64,
    run_backend: &str,
    job: u64,
    job_backend: &str,
) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let scope = format!(
        "Actions.GenericRead:00000000-0000-0000-0000-000000000000 Actions.Results:{run_backend}:{job_backend} Actions.UploadArtifacts:00000000-0000-0000-0000-000000000000"
    );
    let claims = json!({ "scp": scope, "iss": "simulated", "exp": crate::world::now().as_second() + 21600 });
    let token =
        format!("{}.{}.{}", part(json!({ "typ": "JWT", "alg": "HS256" })), part(claims), random_hex(43));
    world.lock().runtime_tokens.insert(token.clone(), (run, job));
    token
}

/// Stores bytes for a download within a minute, and returns the URL.
pub(crate) fn offer(world: &World, content: Vec<u8>, content_type: &str) -> String {
    let name = random_hex(32);
    let blob = Blob { content: Some(content), content_type: content_type.to_owned(), ..Blob::default() };
    world.lock().blobs.insert(name.clone(), blob);
    offer_blob(world, &name)
}

/// The URL of a blob, valid for a minute.
pub(crate) fn offer_blob(world: &World, name: &str) -> String {
    address(world, name, DOWNLOAD)
}

fn address(world: &World, name: &str, lifetime: Duration) -> String {
    // With characters that must stay encoded, as real signatures have.
    let signature = format!("{}+/{}=", random_hex(20), random_hex(20));
    if let Some(blob) = world.lock().blobs.get_mut(name) {
        blob.signatures.insert(signature.clone(), Instant::now() + lifetime);
    }
    format!("{}/blobs/{name}?sv=2025-01-05&sig={}", world.urls.results_url, encoded(&signature))
}

async fn twirp(
    State(world): State<Arc<World>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let called = format!("TWIRP {method}");
    record(&world, &called, &method, serde_json::from_slice(&body).ok());
    let before = world.lock().faults.answer_to(&called, false);
    let right = async { answered(&world, &method, &headers, &body) };
    let response = match before {
        Some(wrong) => reply::wrong(wrong, right).await,
        None => right.await,
    };
    let after = world.lock().faults.answer_to(&called, true);
    match after {
        Some(wrong) => reply::wrong(wrong, async { response }).await,
        None => response,
    }
}

fn answered(world: &World, method: &str, headers: &HeaderMap, body: &[u8]) -> Response {
    let token =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some((run, job)) = token.and_then(|token| world.lock().runtime_tokens.get(token).copied()) else {
        return error(401, "unauthenticated", "bad token");
    };
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return error(400, "malformed", "the json request could not be decoded");
    };
    let backends = {
        let state = world.lock();
        let run = state.runs.get(&run);
        let job = run.and_then(|run| run.jobs.iter().find(|one| one.id == job));
        run.zip(job).map(|(run, job)| (run.backend_id.clone(), job.backend_id.clone()))
    };
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    if backends != Some((text("workflow_run_backend_id"), text("workflow_job_run_backend_id"))) {
        return error(403, "permission_denied", "the backend ids are not those of the token");
    }
    if let Some(unknown) = body.as_object().and_then(|map| map.keys().find(|key| !is_field(method, key))) {
        world.violation(format!("TWIRP {method}"), format!("there is no field `{unknown}`"));
    }
    match method {
        "CreateArtifact" => create(world, run, &text("name"), &body),
        "FinalizeArtifact" => finalize(world, run, &text("name"), &body),
        "ListArtifacts" => list(world, run, &body),
        "GetSignedArtifactURL" => signed_url(world, run, &text("name")),
        "DeleteArtifact" => delete(world, run, &text("name")),
        _ => error(404, "bad_route", "no such method"),
    }
}

/// The fields of the requests, by protobuf name.
fn is_field(method: &str, name: &str) -> bool {
    let own: &[&str] = match method {
        "CreateArtifact" => &["name", "expires_at", "version", "mime_type"],
        "FinalizeArtifact" => &["name", "size", "hash"],
        "ListArtifacts" => &["name_filter", "id_filter"],
        _ => &["name"],
    };
    matches!(name, "workflow_run_backend_id" | "workflow_job_run_backend_id") || own.contains(&name)
}

fn create(world: &World, run: u64, name: &str, body: &Value) -> Response {
    if name.is_empty() || name.contains(FORBIDDEN_IN_NAMES) {
        return error(400, "invalid_argument", "the artifact name is not valid");
    }
    if body["version"].as_u64().is_none_or(|version| version < 4) {
        return error(400, "invalid_argument", "the version must be 4 or later");
    }
    let expires_at = match body["expires_at"].as_str().map(str::parse::<Timestamp>) {
        None => crate::world::now() + SignedDuration::from_hours(24 * RETENTION_DAYS),
        Some(Ok(moment)) => moment,
        Some(Err(_)) => return error(400, "invalid_argument", "expires_at is not a timestamp"),
    };
    let mut state = world.lock();
    let names = state.names_of_artifacts(run);
    if names.len() >= MOST_ARTIFACTS_OF_A_JOB {
        return error(403, "resource_exhausted", "too many artifacts");
    }
    let is_uploading = state
        .blobs
        .values()
        .any(|blob| blob.upload.as_ref().is_some_and(|upload| upload.run == run && upload.name == name));
    if names.contains(name) || is_uploading {
        return error(409, "already_exists", "an artifact with this name already exists on the workflow run");
    }
    let blob = random_hex(32);
    let upload = Some(Upload { run, name: name.to_owned(), expires_at });
    state.blobs.insert(blob.clone(), Blob { upload, ..Blob::default() });
    drop(state);
    json_response(StatusCode::OK, &json!({ "ok": true, "signed_upload_url": address(world, &blob, UPLOAD) }))
}

fn finalize(world: &World, run: u64, name: &str, body: &Value) -> Response {
    let mut state = world.lock();
    let id = state.new_id();
    let is_it = |upload: &Upload| upload.run == run && upload.name == name;
    let Some((blob_name, blob)) =
        state.blobs.iter_mut().find(|(_, blob)| blob.upload.as_ref().is_some_and(is_it))
    else {
        return error(404, "not_found", "there is no such upload");
    };
    let Some(content) = &blob.content else {
        return error(400, "failed_precondition", "nothing was uploaded");
    };
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(content)));
    if body["size"].as_str().and_then(|text| text.parse().ok()) != Some(content.len()) {
        return error(400, "invalid_argument", "the size is not that of what was uploaded");
    }
    if body["hash"].as_str().is_some_and(|hash| hash != digest) {
        return error(400, "invalid_argument", "the hash is not that of what was uploaded");
    }
    let Some(upload) = blob.upload.take() else {
        return error(404, "not_found", "there is no such upload");
    };
    let artifact = Artifact {
        id,
        run,
        name: upload.name,
        size: content.len() as u64,
        digest,
        created_at: crate::world::now(),
        expires_at: upload.expires_at,
        blob: blob_name.clone(),
    };
    state.artifacts.insert(id, artifact);
    drop(state);
    world.changed.notify_waiters();
    json_response(StatusCode::OK, &json!({ "ok": true, "artifact_id": id.to_string() }))
}

fn list(world: &World, run: u64, body: &Value) -> Response {
    let state = world.lock();
    let is_wanted = |artifact: &&Artifact| {
        artifact.run == run
            && body["name_filter"].as_str().is_none_or(|name| artifact.name == name)
            && body["id_filter"].as_str().is_none_or(|id| artifact.id.to_string() == id)
    };
    let shown = |artifact: &Artifact| {
        json!({
            "workflow_run_backend_id": body["workflow_run_backend_id"],
            "workflow_job_run_backend_id": body["workflow_job_run_backend_id"],
            "database_id": artifact.id.to_string(),
            "name": artifact.name,
            "size": artifact.size.to_string(),
            "created_at": shown(artifact.created_at),
            "digest": artifact.digest,
        })
    };
    let all: Vec<Value> = state.artifacts.values().filter(is_wanted).map(shown).collect();
    json_response(StatusCode::OK, &json!({ "artifacts": all }))
}

fn of_name(world: &World, run: u64, name: &str) -> Option<Artifact> {
    world.lock().artifacts.values().find(|artifact| artifact.run == run && artifact.name == name).cloned()
}

fn signed_url(world: &World, run: u64, name: &str) -> Response {
    match of_name(world, run, name) {
        Some(artifact) => json_response(
            StatusCode::OK,
            &json!({ "name": name, "signed_url": offer_blob(world, &artifact.blob) }),
        ),
        None => error(404, "not_found", "there is no such artifact"),
    }
}

fn delete(world: &World, run: u64, name: &str) -> Response {
    let Some(artifact) = of_name(world, run, name) else {
        return error(404, "not_found", "there is no such artifact");
    };
    world.lock().artifacts.remove(&artifact.id);
    json_response(StatusCode::OK, &json!({ "ok": true, "artifact_id": artifact.id.to_string() }))
}

fn error(status: u16, code: &str, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(status, &json!({ "code": code, "msg": message }))
}

async fn blob(State(world): State<Arc<World>>, Path(name): Path<String>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let called = format!("BLOB {}", parts.method);
    record(&world, &called, &name, None);
    let body = to_bytes(body, LARGEST_BLOCK).await.unwrap_or_default();
    let before = world.lock().faults.answer_to(&called, false);
    let right = async { stored(&world, &name, &parts.method, &parts.headers, &query, &body) };
    let response = match before {
        Some(wrong) => reply::wrong(wrong, right).await,
        None => right.await,
    };
    let after = world.lock().faults.answer_to(&called, true);
    match after {
        Some(wrong) => reply::wrong(wrong, async { response }).await,
        None => response,
    }
}

fn stored(
    world: &World,
    name: &str,
    method: &Method,
    headers: &HeaderMap,
    query: &Query,
    body: &[u8],
) -> Response {
    if headers.contains_key(header::AUTHORIZATION) {
        return azure(400, "InvalidAuthenticationInfo");
    }
    let mut state = world.lock();
    let Some(blob) = state.blobs.get_mut(name) else {
        return azure(404, "BlobNotFound");
    };
    let signature = query.get("sig").unwrap_or_default();
    if blob.signatures.get(signature).is_none_or(|end| Instant::now() >= *end) {
        return azure(403, "AuthenticationFailed");
    }
    if method == Method::GET {
        return match &blob.content {
            Some(content) => {
                ([(header::CONTENT_TYPE, blob.content_type.clone())], content.clone()).into_response()
            }
            None => azure(404, "BlobNotFound"),
        };
    }
    if method != Method::PUT || blob.upload.is_none() {
        return azure(403, "AuthorizationPermissionMismatch");
    }
    if !headers.contains_key(header::CONTENT_LENGTH) {
        return azure(411, "MissingContentLengthHeader");
    }
    match query.get("comp") {
        Some("block") => {
            let id = query.get("blockid").unwrap_or_default();
            let is_id = STANDARD.decode(id).is_ok_and(|bytes| (1..=64).contains(&bytes.len()));
            if !is_id || blob.blocks.keys().any(|known| known.len() != id.len()) {
                return azure(400, "InvalidBlobOrBlock");
            }
            blob.blocks.insert(id.to_owned(), body.to_vec());
        }
        Some("blocklist") => {
            let text = String::from_utf8_lossy(body);
            let ids: Vec<&str> =
                text.split("<Latest>").skip(1).filter_map(|rest| rest.split("</Latest>").next()).collect();
            let mut content = Vec::new();
            for id in ids {
                match blob.blocks.get(id) {
                    Some(block) => content.extend_from_slice(block),
                    None => return azure(400, "InvalidBlockList"),
                }
            }
            let content_type = headers.get("x-ms-blob-content-type").and_then(|value| value.to_str().ok());
            content_type.unwrap_or("application/octet-stream").clone_into(&mut blob.content_type);
            blob.content = Some(content);
            blob.blocks.clear();
        }
        None if headers.get("x-ms-blob-type").is_some_and(|value| value == "BlockBlob") => {
            let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            content_type.unwrap_or("application/octet-stream").clone_into(&mut blob.content_type);
            blob.content = Some(body.to_vec());
        }
        _ => return azure(400, "InvalidQueryParameterValue"),
    }
    StatusCode::CREATED.into_response()
}

fn azure(status: u16, code: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    );
    (status, [("content-type", "application/xml"), ("x-ms-error-code", code)], body).into_response()
}

/// The services are recorded, although they do not count against the limit.
fn record(world: &World, called: &str, path: &str, body: Option<Value>) {
    let (method, _) = called.split_once(' ').unwrap_or((called, ""));
    let at_ms = world.at_ms();
    world.lock().requests.push(Recorded {
        method: method.to_owned(),
        path: path.to_owned(),
        query: String::new(),
        route: called.to_owned(),
        login: String::new(),
        headers: std::collections::BTreeMap::new(),
        body,
        status: 0,
        counted: false,
        at_ms,
    });
}
