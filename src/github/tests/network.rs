//! Certificates and proxies from the environment, in a child process.

use std::net::SocketAddr;
use std::process::Command;

use axum::Router;
use axum::routing::get;
use axum_server::tls_rustls::RustlsConfig;
use tokio::task::spawn_blocking;

use super::server::{Server, json};
use super::{REPO, TOKEN, client_with, impatient};
use crate::github::Auth;
use crate::model::Secret;

const REPOSITORY: &str =
    r#"{"full_name":"acme/runner","default_branch":"main","clone_url":"c","html_url":"h"}"#;
const URL: &str = "RUN_EVALS_TEST_API_URL";
/// What the child prints for a repository that it could read.
const READ: &str = "read: main";

/// The child process of the tests below.
#[tokio::test]
#[ignore = "run by the other tests of this file, in an environment that they make"]
async fn reads_a_repository() {
    let Ok(url) = std::env::var(URL) else { return };
    let (client, _) = client_with(&url, Auth::Token(Secret::new(TOKEN)), impatient());
    let text = match client.repository(REPO).await {
        Ok(repository) => format!("read: {}", repository.default_branch),
        Err(error) => super::shown(&error.into_failure()),
    };
    std::fs::write(std::env::var("RUN_EVALS_TEST_OUTPUT").unwrap(), text).unwrap();
}

/// The output of a process with this environment.
async fn read_with(url: &str, env: &[(&'static str, String)]) -> String {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
        .args(["--exact", "github::tests::network::reads_a_repository", "--ignored", "--quiet"])
        .env(URL, url)
        .env("RUN_EVALS_TEST_OUTPUT", output.path())
        .envs(env.iter().cloned());
    let ended = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    std::fs::read_to_string(output.path()).unwrap()
}

#[tokio::test]
async fn a_custom_certificate_is_trusted_when_it_is_named() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let config =
        RustlsConfig::from_pem(made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes())
            .await
            .unwrap();
    let router = Router::new().route("/api/v3/repos/acme/runner", get(async || REPOSITORY));
    let handle = axum_server::Handle::<SocketAddr>::new();
    let server =
        axum_server::bind_rustls(SocketAddr::from(([127, 0, 0, 1], 0)), config).handle(handle.clone());
    let task = tokio::spawn(server.serve(router.into_make_service()));
    let port = handle.listening().await.unwrap().port();
    let url = format!("https://localhost:{port}/api/v3");

    let certificate = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(certificate.path(), made.cert.pem()).unwrap();
    let named = ("SSL_CERT_FILE", certificate.path().display().to_string());
    assert_eq!(read_with(&url, &[named]).await, READ);
    let told = read_with(&url, &[]).await.replace(&port.to_string(), "PORT");
    insta::assert_snapshot!(told, @r"
    Failure: cannot reach `localhost:PORT`: invalid peer certificate: UnknownIssuer
    hint: a server with a private CA needs `SSL_CERT_FILE=<file with the CA certificate>`
    ");
    task.abort();
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    let proxy = Server::start(|_, _| json(200, REPOSITORY)).await;
    let variable = ("HTTP_PROXY", proxy.url.clone());
    assert_eq!(read_with("http://api.acme.invalid", std::slice::from_ref(&variable)).await, READ);
    assert_eq!(proxy.lines(), ["GET http://api.acme.invalid/repos/acme/runner"]);

    let direct = Server::start(|_, _| json(200, REPOSITORY)).await;
    let env = [variable, ("NO_PROXY", "127.0.0.1".to_owned())];
    assert_eq!(read_with(&direct.url, &env).await, READ);
    assert_eq!((proxy.seen().len(), direct.seen().len()), (1, 1));
}
