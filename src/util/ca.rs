//! Certificates of private CAs, in PEM format.

use std::io;
use std::path::{Path, PathBuf};

use reqwest::{Certificate, ClientBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::WorkDir;
use super::error::innermost;
use crate::model::Failure;

/// The largest file of certificates; the largest bundles of operating systems are below one megabyte.
pub const MOST_BYTES: u64 = 4 << 20;

/// The certificate bundles of operating systems.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Checks that a text contains certificates and that each is usable. The error is the end of a sentence about it.
pub fn check(pem: &[u8]) -> Result<(), String> {
    let mut certificates = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| "is not in PEM format".to_owned())?;
        certificates.add(certificate).map_err(|_| "has a certificate that cannot be read".to_owned())?;
    }
    if certificates.is_empty() {
        return Err("has no certificate in PEM format".to_owned());
    }
    Ok(())
}

/// Makes an HTTP client trust these CAs, in PEM format, besides the system's.
pub fn trusting(builder: ClientBuilder, pem: &[u8]) -> Result<ClientBuilder, Failure> {
    if pem.is_empty() {
        return Ok(builder);
    }
    let certificates = Certificate::from_pem_bundle(pem).map_err(|error| {
        Failure::config(format!("cannot use the certificates of the CA: {}", innermost(&error)))
    })?;
    Ok(builder.tls_certs_merge(certificates))
}

/// The system's certificates and those of private CAs as one file, for git.
#[derive(Debug)]
pub struct CaBundle {
    pem: Vec<u8>,
    dir: WorkDir,
}

impl CaBundle {
    const FILE: &str = "certificates.pem";

    /// Writes the file into a new directory; `system` is the file that replaces the system's, if there is one.
    pub fn write(pem: Vec<u8>, system: Option<&Path>, temporary: &Path) -> io::Result<Self> {
        let known = SYSTEM_FILES.iter().map(Path::new);
        let file = system.into_iter().chain(known).find(|path| path.is_file());
        let mut bundle = file.map(std::fs::read).transpose()?.unwrap_or_default();
        bundle.push(b'\n');
        bundle.extend(&pem);
        let dir = WorkDir::within(temporary)?;
        std::fs::write(dir.path().join(Self::FILE), bundle)?;
        Ok(Self { pem, dir })
    }

    /// The certificates of the private CAs.
    pub fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// The file with all certificates.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join(Self::FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_accepted() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let pem = made.cert.pem();
        assert_eq!(check(pem.as_bytes()), Ok(()));
        assert_eq!(check(format!("# ours\n{pem}\n{pem}").as_bytes()), Ok(()));
        for (text, problem) in [
            ("", "has no certificate in PEM format"),
            ("hello\n", "has no certificate in PEM format"),
            (made.signing_key.serialize_pem().as_str(), "has no certificate in PEM format"),
            ("-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n", "is not in PEM format"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "has a certificate that cannot be read",
            ),
        ] {
            assert_eq!(check(text.as_bytes()), Err(problem.to_owned()), "{text}");
        }
        assert_eq!(check(&pem.as_bytes()[..pem.len() / 2]), Err("is not in PEM format".to_owned()));
    }

    #[test]
    fn git_gets_the_certificates_of_the_system_too() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("system.pem");
        std::fs::write(&system, "system").unwrap();
        let bundle = CaBundle::write(b"private".to_vec(), Some(&system), dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(bundle.file()).unwrap(), "system\nprivate");
    }
}
