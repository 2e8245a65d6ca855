//! Artifacts through the REST API.

use std::path::PathBuf;

use serde_json::json as value;
use tempfile::TempDir;

use super::server::{Reply, Server, answer, empty, json};
use super::{REPO, client, shown};
use crate::github::{ApiError, Artifact};
use crate::model::Digest;

const ZIP: &[u8] = b"PK not really";

fn artifact() -> Artifact {
    Artifact {
        id: 7,
        name: "batch-b1".to_owned(),
        size: ZIP.len() as u64,
        digest: Some(format!("sha256:{}", Digest::of(ZIP))),
        expired: false,
    }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("batch.zip");
    (folder, to)
}

/// An API that points to a store.
async fn api(store: &Server) -> Server {
    let signed = format!("{}/blob?se=2026&sig=SECRETSIG", store.url);
    Server::start(move |_, _| empty(302).header("location", &signed)).await
}

fn files_in(folder: &TempDir) -> usize {
    std::fs::read_dir(folder.path()).unwrap().count()
}

#[tokio::test]
async fn all_artifacts_are_listed() {
    let entry = |id: u64| {
        value!({"id": id, "name": format!("a-{id}"), "size_in_bytes": 5, "expired": false, "digest": null,
            "created_at": null, "expires_at": null, "updated_at": null})
    };
    let server = Server::start(move |index, _| {
        let entries: Vec<_> =
            (0..if index < 2 { 100 } else { 0 }).map(|id| entry(index as u64 * 100 + id)).collect();
        json(200, &value!({"total_count": 200, "artifacts": entries}).to_string())
    })
    .await;
    let all = client(&server).artifacts(REPO, 42).await.unwrap();
    assert_eq!((all.len(), all[199].name.as_str()), (200, "a-199"));
    assert_eq!(server.lines()[1], "GET /repos/acme/runner/actions/runs/42/artifacts?per_page=100&page=2");
}

#[tokio::test]
async fn a_download_follows_the_redirect_without_the_token() {
    let store = Server::start(|_, _| answer(200, "application/zip", ZIP)).await;
    let server = api(&store).await;
    let (folder, to) = place();
    client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), ZIP);
    assert_eq!(files_in(&folder), 1);
    assert_eq!(server.lines(), ["GET /repos/acme/runner/actions/artifacts/7/zip"]);
    assert!(server.seen()[0].header("authorization").is_some());
    assert_eq!(store.lines(), ["GET /blob?se=2026&sig=SECRETSIG"]);
    assert_eq!(store.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn a_store_on_the_same_host_gets_no_token_either() {
    let server = Server::start(|_, seen| match seen.path.as_str() {
        "/blob" => answer(200, "application/zip", ZIP),
        _ => empty(302).header("location", "/blob"),
    })
    .await;
    let (_folder, to) = place();
    client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap();
    assert_eq!(server.seen()[1].header("authorization"), None);
}

#[tokio::test]
async fn each_attempt_gets_a_fresh_url() {
    let torn = Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nPK".to_vec());
    let store = Server::script(vec![empty(403), torn, answer(200, "application/zip", ZIP)]).await;
    let server = api(&store).await;
    let (folder, to) = place();
    client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap();
    assert_eq!((server.seen().len(), store.seen().len(), files_in(&folder)), (3, 3, 1));
}

#[tokio::test]
async fn a_failing_store_is_reported_without_the_signature() {
    let store = Server::start(|_, _| empty(503)).await;
    let server = api(&store).await;
    let (folder, to) = place();
    let error = client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap_err();
    let host = store.url.trim_start_matches("http://");
    insta::assert_snapshot!(shown(&error.into_failure()).replace(host, "STORE"), @r"
    Failure: `STORE` returned 503 instead of the artifact `batch-b1`
    hint: GitHub stores such files at `STORE`: try again, and allow it in your proxy
    ");
    assert_eq!((store.seen().len(), files_in(&folder)), (4, 0));
    drop(store);
    let error = client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap_err();
    assert!(!format!("{error:?}").contains("SECRETSIG"), "{error:?}");
    assert!(matches!(error, ApiError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn other_bytes_are_rejected() {
    let store = Server::start(|_, _| answer(200, "application/zip", "PK something else")).await;
    let server = api(&store).await;
    let (folder, to) = place();
    let error = client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: the artifact `batch-b1` has the digest 01ce07b3d8d896d48f2d98b046439a910633b8f1ea211a6aefab4315032c5318, expected 20fb6fc49fd7b9d59e57f1d6b8731c72d57d9f440770a97bff73f7e579e67dfa
    hint: it was truncated or changed in transit: try again
    ");
    assert_eq!(files_in(&folder), 0);
}

#[tokio::test]
async fn more_bytes_than_announced_are_rejected() {
    let store = Server::start(|_, _| answer(200, "application/zip", vec![0; (1 << 20) + 1])).await;
    let server = api(&store).await;
    let (folder, to) = place();
    let error = client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap_err();
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: the download of the artifact `batch-b1` is larger than 1048576 bytes
    hint: run-evals never uploads files that large
    ");
    assert_eq!(files_in(&folder), 0);
}

#[tokio::test]
async fn expired_artifacts_are_reported() {
    let server = Server::start(|_, _| json(410, r#"{"message":"Artifact has expired"}"#)).await;
    let (_folder, to) = place();
    let error = client(&server).download_artifact(REPO, &artifact(), &to).await.unwrap_err();
    assert_eq!(error.status(), Some(410));
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Failure: the artifact `batch-b1` of `acme/runner` has expired
    hint: its retention has ended: dispatch the batch again, and keep the results on a branch (`results_branch`)
    ");
    let expired = Artifact { expired: true, ..artifact() };
    let error = client(&server).download_artifact(REPO, &expired, &to).await.unwrap_err();
    assert!(matches!(error, ApiError::Expired { .. }));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_unwritable_directory_is_reported() {
    let store = Server::start(|_, _| answer(200, "application/zip", ZIP)).await;
    let server = api(&store).await;
    let error = client(&server)
        .download_artifact(REPO, &artifact(), "/nonexistent/folder/x.zip".as_ref())
        .await
        .unwrap_err();
    assert!(error.to_string().starts_with("cannot write `/nonexistent/folder/x.zip`: "), "{error}");
    assert_eq!(store.seen().len(), 1);
}
