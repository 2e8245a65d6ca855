//! A model behind a certificate that no system trusts.

use std::net::TcpListener;

use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

/// A model that speaks TLS until the test process ends: its URL, and the certificate to trust.
pub(crate) fn tls_model() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let pem = certificate.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tls = RustlsConfig::from_pem(pem.into_bytes(), key.into_bytes()).await.unwrap();
            let answer = post(async |Json(asked): Json<Value>| {
                let message = json!({"role": "assistant", "content": asked["messages"][0]["content"]});
                Json(json!({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
            });
            let router = Router::new().route("/v1/chat/completions", answer);
            axum_server::from_tcp_rustls(listener, tls).unwrap().serve(router.into_make_service()).await
        })
    });
    (url, certificate)
}
