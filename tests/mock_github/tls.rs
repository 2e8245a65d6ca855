//! Our own CA, and a certificate for this machine.

use std::path::Path;

use anyhow::Context as _;
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// Creates both; the CA's certificate is written to a file for the clients.
pub(crate) async fn certify(ca_file: &Path) -> anyhow::Result<RustlsConfig> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "simulated GitHub");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    std::fs::write(ca_file, ca.pem()).context("cannot write the CA's certificate")?;
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &ca)?;
    let config = RustlsConfig::from_pem(certificate.pem().into_bytes(), key.serialize_pem().into_bytes());
    config.await.context("cannot use the certificate")
}
