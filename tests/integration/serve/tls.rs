//! TLS: the certificate is served, replaced without a restart, and kept if the new one is unusable.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use nix::sys::signal::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::http::{self, Answer};
use super::service::{OURS, Service, bare_workspace, bearer, log};
use crate::support::{Workspace, until};

/// A certificate for 127.0.0.1, and its key.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn start(workspace: &Workspace, (cert, key): &(String, String)) -> Service {
    workspace.write("cert.pem", cert);
    workspace.write("key.pem", key);
    Service::bare(workspace, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"])
}

/// Sends a request that trusts only this certificate.
fn ask(service: &Service, trusted: &str) -> Result<Answer, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(&service.address).unwrap());
    let request = http::request("GET", "/jobs", &[("Authorization", &bearer(OURS))], b"");
    stream.write_all(&request).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    http::parse(&answer).ok_or_else(|| "no answer".to_owned())
}

#[test]
fn a_certificate_is_replaced_without_a_restart() {
    let workspace = bare_workspace();
    let (old, new) = (certificate(), certificate());
    let service = start(&workspace, &old);
    assert!(service.stderr().starts_with("listening on https://127.0.0.1:"), "{}", service.stderr());
    assert_eq!(ask(&service, &old.0).unwrap().status, 200);
    assert!(ask(&service, &new.0).is_err(), "it is another one");

    workspace.write("cert.pem", &new.0);
    workspace.write("key.pem", &new.1);
    until("it", || ask(&service, &new.0).is_ok_and(|answer| answer.status == 200));
    assert!(ask(&service, &old.0).is_err(), "the old one is gone");
}

#[test]
fn an_unusable_certificate_keeps_the_old_one() {
    let workspace = bare_workspace();
    let (old, new) = (certificate(), certificate());
    let service = start(&workspace, &old);
    let complaints = || {
        let told = log(&workspace).into_iter().filter(|line| line["level"] == "error");
        told.map(|line| line["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    workspace.write("cert.pem", "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n");
    until("it", || complaints().len() == 1);
    assert_eq!(ask(&service, &old.0).unwrap().status, 200);
    // A certificate whose key has not arrived yet.
    workspace.write("cert.pem", &new.0);
    until("it", || complaints().len() == 2);
    assert_eq!(ask(&service, &old.0).unwrap().status, 200);
    std::fs::remove_file(workspace.path("key.pem")).unwrap();
    until("it", || complaints().len() == 3);
    assert_eq!(ask(&service, &old.0).unwrap().status, 200);
    assert!(
        complaints().iter().all(|told| told.starts_with("keeping the old certificate: ")),
        "{:?}",
        complaints()
    );
    workspace.write("key.pem", &new.1);
    until("it", || ask(&service, &new.0).is_ok_and(|answer| answer.status == 200));
    assert_eq!(service.stop(Signal::SIGTERM), Some(0));
}

#[test]
fn a_plain_request_to_a_tls_port_gets_no_response() {
    let workspace = bare_workspace();
    let cert = certificate();
    let service = start(&workspace, &cert);
    let plain = http::send(&service.address, &http::request("GET", "/health", &[], b""));
    assert!(plain.is_none(), "{plain:?}");
    assert_eq!(ask(&service, &cert.0).unwrap().status, 200);
}
