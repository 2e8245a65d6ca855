//! The certificate: read at the start, and again when its files change.

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

/// How often the files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The two PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate and its intermediate certificates.
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

/// Changes when the files change.
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

    /// Checks the files forever, and reads them when they have changed.
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

    /// Reads the files again; if they are unusable, the old certificate stays.
    pub(in crate::serve) fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                self.config.reload_from_config(Arc::new(config));
                tracing::info!(cert = %self.files.cert.display(), "certificate read");
            }
            Err(failure) => tracing::error!("keeping the old certificate: {failure}"),
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
        return Err(cannot("certificate", &files.cert, &"it contains no certificate"));
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
        .hint("`--tls-cert` and `--tls-key` must be PEM files of the same key pair")
}
