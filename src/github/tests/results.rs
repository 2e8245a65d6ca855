//! The artifact service, as `@actions/artifact` sees it.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json as value};
use tempfile::TempDir;

use super::server::{ReceivedRequest, Reply, Server, answer, empty, json};
use super::{impatient, shown};
use crate::github::retry_policy::RetryPolicy;
use crate::github::{DuplicateArtifact, ResultsService};
use crate::model::Digest;

const PREFIX: &str = "/twirp/github.actions.results.api.v1.ArtifactService/";
const SIGNATURE: &str = "SECRET%2BSIG";

fn token(run: &str, job: &str) -> String {
    let claims = value!({"scp": format!("Actions.Example Actions.Results:{run}:{job}")}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

fn service_with(env: &[(&str, &str)]) -> Option<Result<ResultsService, crate::model::Failure>> {
    let get = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    ResultsService::from_env_with(get, RetryPolicy { tries: 5, ..impatient() })
}

fn service(server: &Server, token: &str) -> ResultsService {
    let url = format!("{}/some/path/", server.url);
    service_with(&[("ACTIONS_RESULTS_URL", &url), ("ACTIONS_RUNTIME_TOKEN", token)]).unwrap().unwrap()
}

fn zip(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.zip");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn method(seen: &ReceivedRequest) -> &str {
    seen.path.strip_prefix(PREFIX).unwrap_or("store")
}

/// The service and its store on one host. Responses in camel case, like `act`, or in snake case.
async fn fake(camel: bool) -> Server {
    Server::start(move |_, seen| {
        let host = seen.header("host").unwrap();
        let signed = format!("http://{host}/store/blob?se=2026&sig={SIGNATURE}");
        let key = |snake: &'static str, other: &'static str| if camel { other } else { snake };
        let body = match method(seen) {
            "CreateArtifact" => value!({"ok": true, key("signed_upload_url", "signedUploadUrl"): signed}),
            "FinalizeArtifact" => value!({"ok": true, key("artifact_id", "artifactId"): "77"}),
            "ListArtifacts" => value!({"artifacts": [
                {key("workflow_run_backend_id", "workflowRunBackendId"): "run-1",
                 key("workflow_job_run_backend_id", "workflowJobRunBackendId"): "job-9",
                 key("database_id", "databaseId"): "77", "name": "rows", "size": "7", "createdAt": "2026-09-01T10:00:00Z",
                 "digest": format!("sha256:{}", Digest::of(b"PK rows"))},
                {key("workflow_run_backend_id", "workflowRunBackendId"): "run-1",
                 key("workflow_job_run_backend_id", "workflowJobRunBackendId"): "job-2",
                 key("database_id", "databaseId"): 12, "name": "rows", "size": 7},
            ]}),
            "GetSignedArtifactURL" => value!({key("signed_url", "signedUrl"): signed}),
            "store" if seen.method == "GET" => return answer(200, "application/zip", b"PK rows"),
            "store" => return empty(201),
            other => panic!("{other}"),
        };
        json(200, &body.to_string())
    })
    .await
}

#[tokio::test]
async fn an_upload_speaks_githubs_protocol() {
    let bytes: Vec<u8> =
        (0..(8 << 20) + 1000).map(|i: u32| i.to_le_bytes()[0] ^ i.to_le_bytes()[2]).collect();
    let (_folder, path) = zip(&bytes);
    let server = fake(false).await;
    let token = token("run-1", "job-1");
    assert_eq!(service(&server, &token).upload("rows", &path, Some(7)).await.unwrap(), 77);
    let seen = server.seen();
    let order: Vec<_> = seen.iter().map(method).collect();
    assert_eq!(order, ["CreateArtifact", "store", "store", "store", "FinalizeArtifact"]);

    let mut create = seen[0].json();
    let expires: jiff::Timestamp =
        create.as_object_mut().unwrap().remove("expires_at").unwrap().as_str().unwrap().parse().unwrap();
    assert_eq!(expires.duration_since(jiff::Timestamp::now()).as_hours(), 7 * 24 - 1);
    let ids = value!({"workflow_run_backend_id": "run-1", "workflow_job_run_backend_id": "job-1"});
    let with = |more: Value| {
        let mut all = ids.as_object().unwrap().clone();
        all.extend(more.as_object().unwrap().clone());
        Value::from(all)
    };
    assert_eq!(create, with(value!({"name": "rows", "version": 7, "mime_type": "application/zip"})));
    let hash = format!("sha256:{}", Digest::of(&bytes));
    assert_eq!(seen[4].json(), with(value!({"name": "rows", "size": bytes.len().to_string(), "hash": hash})));
    for call in [&seen[0], &seen[4]] {
        assert_eq!(call.header("authorization"), Some(format!("Bearer {token}").as_str()));
        assert_eq!(call.header("content-type"), Some("application/json"));
    }

    let mut listed = String::new();
    for (block, expected) in seen[1..3].iter().zip(bytes.chunks(8 << 20)) {
        assert_eq!((block.method.as_str(), block.header("authorization")), ("PUT", None));
        assert!(block.header("x-ms-version").is_some());
        assert_eq!(block.header("content-length"), Some(expected.len().to_string().as_str()));
        assert!(block.body == expected);
        let id = block
            .path
            .strip_prefix(&format!("/store/blob?se=2026&sig={SIGNATURE}&comp=block&blockid="))
            .unwrap();
        let id = id.replace("%3D", "=");
        assert_eq!(STANDARD.decode(&id).unwrap().len(), 14);
        listed = format!("{listed}<Latest>{id}</Latest>");
    }
    assert_eq!(seen[3].path, format!("/store/blob?se=2026&sig={SIGNATURE}&comp=blocklist"));
    assert_eq!(
        (seen[3].header("content-type"), seen[3].header("authorization")),
        (Some("application/xml"), None)
    );
    assert_eq!(seen[3].header("x-ms-blob-content-type"), Some("application/zip"));
    let body = String::from_utf8(seen[3].body.clone()).unwrap();
    assert_eq!(body, format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{listed}</BlockList>"));
}

#[tokio::test]
async fn servers_of_the_first_version_get_nothing_newer() {
    let (_folder, path) = zip(b"PK");
    let server = fake(true).await;
    assert_eq!(service(&server, &token("1", "1")).upload("rows", &path, None).await.unwrap(), 77);
    let create = server.seen()[0].json();
    assert_eq!(
        (create["version"].as_u64(), create.get("mime_type"), create.get("expires_at")),
        (Some(4), None, None)
    );

    let act = [
        ("ACTIONS_RESULTS_URL", server.url.as_str()),
        ("ACTIONS_RUNTIME_TOKEN", &token("a-b", "c-d")),
        ("GITHUB_SERVER_URL", "https://git.acme.example"),
        ("ACT", "true"),
    ];
    service_with(&act).unwrap().unwrap().upload("rows", &path, None).await.unwrap();
    assert_eq!(server.seen()[4].json()["version"], 4);
}

#[tokio::test]
async fn artifacts_of_other_jobs_are_listed_and_downloaded() {
    for camel in [false, true] {
        let server = fake(camel).await;
        let service = service(&server, &token("run-1", "job-1"));
        let listed: Vec<_> = service
            .list()
            .await
            .unwrap()
            .into_iter()
            .map(|found| (found.name, found.id, found.size))
            .collect();
        assert_eq!(listed, [("rows".to_owned(), 77, 7), ("rows".to_owned(), 12, 7)]);
        let (_folder, path) = zip(b"old");
        service.download("rows", &path).await.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"PK rows");
        let seen = server.seen();
        assert_eq!(seen[1].json()["name_filter"], "rows");
        // The newest, by the id of its job.
        assert_eq!(seen[2].json()["workflow_job_run_backend_id"], "job-9");
        assert_eq!((seen[3].method.as_str(), seen[3].header("authorization")), ("GET", None));
    }
}

#[tokio::test]
async fn a_missing_or_changed_artifact_is_reported() {
    let server = Server::start(|_, seen| match method(seen) {
        "ListArtifacts" if seen.json()["name_filter"] == "gone" => json(200, "{}"),
        "ListArtifacts" => {
            let entry = value!({"workflow_run_backend_id": "1", "workflow_job_run_backend_id": "1", "database_id": "1",
                "name": "rows", "size": "7", "digest": format!("sha256:{}", Digest::of(b"PK rows"))});
            json(200, &value!({"artifacts": [entry]}).to_string())
        }
        "GetSignedArtifactURL" => {
            json(200, &value!({"signed_url": format!("http://{}/x", seen.header("host").unwrap())}).to_string())
        }
        _ => answer(200, "application/zip", "PK changed"),
    })
    .await;
    let service = service(&server, &token("1", "1"));
    let (_folder, path) = zip(b"old");
    let told = async |name: &str| format!("{:#}", service.download(name, &path).await.unwrap_err());
    insta::assert_snapshot!(told("gone").await, @"cannot download the artifact `gone`: the run has no such artifact");
    insta::assert_snapshot!(told("rows").await, @"cannot download the artifact `rows`: the artifact `rows` has the digest 18e7494fc3eb5927bad00ca6a174481e231916a1db3e3d6ab4022cf2dd8e566f, expected 4b1291c311908564e9def482038a2ec78019dcd8792ed50f0a4d6bef00358c19");
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[tokio::test]
async fn errors_are_retried_five_times() {
    let (_folder, path) = zip(b"PK");
    let server = Server::start(|index, seen| match (method(seen), index) {
        (_, 0) => empty(503),
        (_, 1) => answer(200, "text/html", "<html>"),
        ("CreateArtifact", _) => {
            let url = format!("http://{}/blob?sig={SIGNATURE}", seen.header("host").unwrap());
            json(200, &value!({"ok": true, "signed_upload_url": url}).to_string())
        }
        ("store", 3) => empty(500),
        ("store", 4) => Reply::Hangup,
        ("store", _) => empty(201),
        (_, 7) => empty(429).header("retry-after", "0"),
        _ => json(200, r#"{"ok":true,"artifact_id":"5"}"#),
    })
    .await;
    assert_eq!(service(&server, &token("1", "1")).upload("rows", &path, None).await.unwrap(), 5);
    assert_eq!(server.seen().len(), 9);

    let server = Server::start(|_, _| empty(502)).await;
    let error = service(&server, &token("1", "1")).upload("rows", &path, None).await.unwrap_err();
    assert_eq!(server.seen().len(), 5);
    insta::assert_snapshot!(format!("{error:#}"), @"cannot upload the artifact `rows`: the artifact service returned 502 to CreateArtifact: no readable reason (tried 5 times)");
}

#[tokio::test]
async fn an_upload_whose_confirmation_was_lost_is_found_again() {
    let (_folder, path) = zip(b"PK");
    let listed = |digest: Digest| {
        Server::start(move |_, seen| match method(seen) {
            "CreateArtifact" => {
                let url = format!("http://{}/blob?sig={SIGNATURE}", seen.header("host").unwrap());
                json(200, &value!({"ok": true, "signed_upload_url": url}).to_string())
            }
            "FinalizeArtifact" => json(404, r#"{"code":"not_found","msg":"there is no such upload"}"#),
            "ListArtifacts" => {
                let entry = value!({"workflow_run_backend_id": "1", "workflow_job_run_backend_id": "1", "database_id": "8",
                    "name": "rows", "size": "2", "digest": format!("sha256:{digest}")});
                json(200, &value!({"artifacts": [entry]}).to_string())
            }
            _ => empty(201),
        })
    };
    let whole = listed(Digest::of(b"PK")).await;
    assert_eq!(service(&whole, &token("1", "1")).upload("rows", &path, None).await.unwrap(), 8);
    let other = listed(Digest::of(b"other")).await;
    let error = service(&other, &token("1", "1")).upload("rows", &path, None).await.unwrap_err();
    insta::assert_snapshot!(format!("{error:#}"), @"cannot upload the artifact `rows`: the artifact service returned 404 to FinalizeArtifact: there is no such upload");
}

#[tokio::test]
async fn a_403_without_a_reason_is_a_rate_limit() {
    let (_folder, path) = zip(b"PK");
    let server = Server::start(|index, seen| match (method(seen), index) {
        (_, 0) | ("store", 2) => json(403, r#"{"message":"You have exceeded a secondary rate limit"}"#),
        ("CreateArtifact", _) => {
            let url = format!("http://{}/blob?sig={SIGNATURE}", seen.header("host").unwrap());
            json(200, &value!({"ok": true, "signed_upload_url": url}).to_string())
        }
        ("store", _) => empty(201),
        _ => json(200, r#"{"ok":true,"artifact_id":"5"}"#),
    })
    .await;
    assert_eq!(service(&server, &token("1", "1")).upload("rows", &path, None).await.unwrap(), 5);
}

#[tokio::test]
async fn a_conflicting_name_has_its_own_error() {
    let (_folder, path) = zip(b"PK");
    let taken =
        r#"{"code":"already_exists","msg":"an artifact with this name already exists on the workflow run"}"#;
    let server = Server::start(move |_, _| json(409, taken)).await;
    let error = service(&server, &token("1", "1")).upload("rows", &path, None).await.unwrap_err();
    assert_eq!(error.downcast_ref::<DuplicateArtifact>().unwrap().name, "rows");
    assert_eq!(server.seen().len(), 1);
    insta::assert_snapshot!(format!("{error:#}"), @"cannot upload the artifact `rows`: the run already has an artifact named `rows`");
}

#[tokio::test]
async fn rejections_are_reported_without_the_signature() {
    let (_folder, path) = zip(b"PK");
    let quota =
        r#"{"code":"resource_exhausted","msg":"Artifact storage quota has been hit. insufficient usage"}"#;
    let server = Server::start(move |_, _| json(403, quota)).await;
    let upload = async |server: &Server, name: &str| {
        let error = service(server, &token("1", "1")).upload(name, &path, None).await.unwrap_err();
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
        format!("{error:#}")
    };
    insta::assert_snapshot!(upload(&server, "rows").await, @"cannot upload the artifact `rows`: the artifact service returned 403 to CreateArtifact: Artifact storage quota has been hit. insufficient usage");
    insta::assert_snapshot!(upload(&server, "eval-results/b1").await, @"cannot upload the artifact `eval-results/b1`: illegal artifact name");

    let store = |reply: fn() -> Reply| {
        Server::start(move |_, seen| match method(seen) {
            "CreateArtifact" => {
                let url = format!("http://{}/blob?sig={SIGNATURE}", seen.header("host").unwrap());
                json(200, &value!({"ok": true, "signed_upload_url": url}).to_string())
            }
            _ => reply(),
        })
    };
    let denied = store(|| {
        answer(403, "application/xml", "sig=SECRET").header("x-ms-error-code", "AuthenticationFailed")
    })
    .await;
    insta::assert_snapshot!(upload(&denied, "rows").await, @"cannot upload the artifact `rows`: the artifact store returned 403 (AuthenticationFailed)");
    let gone = store(|| Reply::Hangup).await;
    insta::assert_snapshot!(upload(&gone, "rows").await, @"cannot upload the artifact `rows`: the artifact store cannot be reached: the connection broke: connection closed before message completed (tried 5 times)");
    let nowhere =
        Server::start(|_, _| json(200, r#"{"ok":true,"signed_upload_url":"blob?sig=SECRET"}"#)).await;
    insta::assert_snapshot!(upload(&nowhere, "rows").await, @"cannot upload the artifact `rows`: the artifact service returned an invalid URL");
    let no = Server::start(|_, _| json(200, r#"{"ok":false}"#)).await;
    insta::assert_snapshot!(upload(&no, "rows").await, @"cannot upload the artifact `rows`: the artifact service refused without a reason");
}

#[test]
fn outside_of_a_container_action_there_is_no_service() {
    assert!(service_with(&[]).is_none());
    assert!(service_with(&[("ACTIONS_RESULTS_URL", "http://127.0.0.1:1")]).is_none());
    assert!(service_with(&[("ACTIONS_RUNTIME_TOKEN", "x"), ("ACTIONS_RESULTS_URL", "")]).is_none());
}

#[test]
fn unusable_services_are_reported() {
    let good = token("1", "1");
    let told = |url: &str, token: &str, server: &str| {
        let env =
            [("ACTIONS_RESULTS_URL", url), ("ACTIONS_RUNTIME_TOKEN", token), ("GITHUB_SERVER_URL", server)];
        match service_with(&env).unwrap() {
            Ok(service) => format!("{service:?}"),
            Err(failure) => shown(&failure),
        }
    };
    let url = "https://results.example/path?query";
    for server in
        ["https://github.com", "https://acme.ghe.com", "http://127.0.0.1:8080", "http://github.localhost"]
    {
        assert_eq!(told(url, &good, server), r#"ResultsService { origin: "https://results.example/", .. }"#);
    }
    insta::assert_snapshot!(told(url, &good, "https://git.acme.example"), @r"
    Config: GitHub Enterprise Server does not support artifacts of version 4
    hint: hand over by branch: `--handover branch`, and `results_branch` instead of `results_artifact`
    ");
    insta::assert_snapshot!(told("results", &good, "https://github.com"), @r"
    Failure: `ACTIONS_RESULTS_URL` of this job is invalid
    hint: none
    ");
    insta::assert_snapshot!(told(url, "no token", "https://github.com"), @r"
    Failure: `ACTIONS_RUNTIME_TOKEN` of this job is invalid
    hint: none
    ");
}
