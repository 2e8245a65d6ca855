//! The certificate: read at the start, and again whenever its files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum_server::tls_rustls::RustlsConfig;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::model::Failure;
use crate::util::clock;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The two PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and those between it and the root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The certificate in use.
#[derive(Debug)]
pub(in crate::serve) struct Tls {
    files: TlsFiles,
    config: RustlsConfig,
    seen: Mutex<Stamp>,
}

/// What changes with the files.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    pub(super) fn load(files: TlsFiles) -> Result<Self, Failure> {
        let seen = Mutex::new(stamp(&files));
        let config = RustlsConfig::from_config(Arc::new(read(&files)?));
        Ok(Self { files, config, seen })
    }

    pub(super) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Looks at the files for ever, and reads them when they have changed.
    pub(in crate::serve) async fn follow(self: Arc<Self>) {
        loop {
            clock::sleep(LOOK_EVERY).await;
            let now = stamp(&self.files);
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen != now {
                *seen = now;
                drop(seen);
                self.reload();
            }
        }
    }

    /// Reads the files again; one that is of no use leaves the certificate as it is.
    pub(in crate::serve) fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                self.config.reload_from_config(Arc::new(config));
                tracing::info!(cert = %self.files.cert.display(), "certificate read");
            }
            Err(failure) => tracing::error!("the old certificate stays: {failure}"),
        }
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.cert, &files.key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn read(files: &TlsFiles) -> Result<ServerConfig, Failure> {
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| cannot("certificate", &files.cert, &error))?;
    if certs.is_empty() {
        return Err(cannot("certificate", &files.cert, &"no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| cannot("key", &files.key, &error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key))
        .map_err(|error| cannot("certificate", &files.cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::config(format!("cannot use the {what} `{}`: {why}", path.display()))
        .hint("`--tls-cert` and `--tls-key` name PEM files that belong together")
}
