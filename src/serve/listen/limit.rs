//! Limits open connections, in total and per address, and closes those that accept no bytes for a minute.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::util::caller::counted_as;

/// A client that reads nothing for this long is disconnected.
const WRITE_WITHIN: Duration = Duration::from_mins(1);

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    most_of_one: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

impl Connections {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self { most, most_of_one, open: Mutex::default() }
    }

    fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = open.of.get(&peer).copied().unwrap_or(0);
        if open.all >= self.most || of_one >= self.most_of_one {
            return None;
        }
        open.all += 1;
        *open.of.entry(peer).or_default() += 1;
        Some(ConnectionPermit { connections: Arc::clone(self), peer })
    }
}

/// One open connection.
#[derive(Debug)]
struct ConnectionPermit {
    connections: Arc<Connections>,
    peer: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(count) = open.of.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                open.of.remove(&self.peer);
            }
        }
    }
}

/// Wraps an acceptor and accepts while there is room.
#[derive(Debug, Clone)]
pub(super) struct LimitedAcceptor<A> {
    inner: A,
    connections: Arc<Connections>,
}

impl<A> LimitedAcceptor<A> {
    pub(super) fn new(inner: A, connections: Arc<Connections>) -> Self {
        Self { inner, connections }
    }
}

impl<A, S> Accept<TcpStream, S> for LimitedAcceptor<A>
where
    A: Accept<TcpStream, S>,
    A::Future: Send + 'static,
{
    type Stream = CountedStream<A::Stream>;
    type Service = A::Service;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let place = stream.peer_addr().map(|peer| self.connections.take(counted_as(peer.ip())));
        let _ = stream.set_nodelay(true);
        let accepted = self.inner.accept(stream, service);
        Box::pin(async move {
            let Some(place) = place? else {
                tracing::debug!("too many connections");
                return Err(io::Error::other("too many connections"));
            };
            let (stream, service) = accepted.await?;
            Ok((CountedStream { stream, stalled: None, _place: place }, service))
        })
    }
}

/// A connection that counts until it ends.
#[derive(Debug)]
pub(super) struct CountedStream<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    _place: ConnectionPermit,
}

impl<S> CountedStream<S> {
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let deadline = || Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_WITHIN));
        match self.stalled.get_or_insert_with(deadline).as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.within(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.within(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.within(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others_and_releases_its_own() {
        let connections = Arc::new(Connections::new(4, 3));
        let (one, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let held: Vec<_> = (0..3).map(|_| connections.take(one).unwrap()).collect();
        assert!(connections.take(one).is_none());
        let last = connections.take(other).unwrap();
        assert!(connections.take(other).is_none(), "four of all");
        drop(held);
        assert!(connections.take(one).is_some());
        drop(last);
        assert!(connections.open.lock().unwrap().of.is_empty());
    }
}
