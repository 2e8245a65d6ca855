//! The port: bound before anything else, with TLS or behind a TLS proxy, and with limits.

mod limit;
mod tls;

pub(super) use tls::Tls;
pub use tls::TlsFiles;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::accept::DefaultAcceptor;
use axum_server::tls_rustls::RustlsAcceptor;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpSocket;

use self::limit::{Connections, LimitedAcceptor};
use crate::model::{Exit, Failure};

/// The time limit for a request head, and for an idle connection.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const LARGEST_HEAD: usize = 32 * 1024;
/// The listen backlog. With the standard library's 128, further clients wait a second for their retry.
const BACKLOG: u32 = 1024;

/// Where to listen, and how.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// The address and port.
    pub address: SocketAddr,
    /// The certificate, if this port speaks TLS.
    pub tls: Option<TlsFiles>,
    /// Whether a TLS proxy is in front of the port.
    pub behind_proxy: bool,
    /// The most connections at once.
    pub most_connections: usize,
}

/// A bound port.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    connections: Arc<Connections>,
}

fn bound(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let failure = Failure::new(Exit::Failure, format!("cannot listen on `{address}`: {error}"));
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => {
            let mut other = address;
            other.set_port(port.checked_add(1).unwrap_or(8080));
            failure.hint(format!(
                "another program uses port {port}: stop it, or choose another port, for example `--listen {other}`"
            ))
        }
        ErrorKind::PermissionDenied => {
            let mut other = address;
            other.set_port(8080);
            failure.hint(format!("port {port} needs root: choose one above 1023, for example `--listen {other}`"))
        }
        ErrorKind::AddrNotAvailable => failure.hint(
            "no network interface of this machine has this address: `--listen 127.0.0.1:8080` is reachable only from this machine, \
             `--listen 0.0.0.0:8080` from everywhere",
        ),
        _ => failure,
    }
}

impl Listener {
    /// Binds the port; refuses plain HTTP on an address that others could eavesdrop on.
    pub(super) fn bind(options: &ListenOptions) -> anyhow::Result<Self> {
        let address = options.address;
        if options.tls.is_none() && !options.behind_proxy && !address.ip().is_loopback() {
            let text = format!("without TLS, clients of `{address}` would send tokens in cleartext");
            return Err(Failure::new(Exit::Usage, text)
                .hint("pass `--tls-cert` and `--tls-key`, or `--behind-proxy` behind a TLS proxy, or listen on `127.0.0.1`")
                .into());
        }
        let tls = options.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let socket = bound(address).map_err(|error| cannot_listen(address, &error))?;
        // Behind a proxy, all connections come from the proxy.
        let of_one = if options.behind_proxy {
            options.most_connections
        } else {
            options.most_connections.div_ceil(4)
        };
        let connections = Arc::new(Connections::new(options.most_connections, of_one));
        Ok(Self { socket, tls, connections })
    }

    /// The URL, with the port that the system chose for port 0.
    pub(super) fn url(&self) -> anyhow::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.socket.local_addr()?))
    }

    /// The certificate to reload, if this port uses TLS.
    pub(super) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Serves until the handle is stopped.
    pub(super) async fn serve(self, router: Router, handle: Handle<SocketAddr>) -> anyhow::Result<()> {
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let mut server = axum_server::from_tcp(self.socket)?.handle(handle);
        server
            .http_builder()
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(LARGEST_HEAD);
        let connections = self.connections;
        match self.tls {
            None => {
                let limited = LimitedAcceptor::new(DefaultAcceptor::new(), connections);
                server.acceptor(limited).http1_only().serve(service).await?;
            }
            Some(tls) => {
                let acceptor = RustlsAcceptor::new(tls.config()).handshake_timeout(HEAD_WITHIN);
                server
                    .acceptor(LimitedAcceptor::new(acceptor, connections))
                    .http1_only()
                    .serve(service)
                    .await?;
            }
        }
        Ok(())
    }
}
