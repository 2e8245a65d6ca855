//! Request bodies: bounded in size, in time, and in total memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::Extensions;
use http_body_util::BodyExt as _;

use super::CallRefusal;
use crate::util::caller::counted_as;

/// Bytes of each body that do not count, so that small requests are served next to large ones.
const FREE: usize = 64 << 10;
/// The memory of all bodies beyond that, and of one caller's.
const HELD_BY_ALL: usize = 128 << 20;
const HELD_BY_ONE: usize = 64 << 20;
/// Bodies being received at once, in total and per caller.
const OPEN_OF_ALL: usize = 256;
const OPEN_OF_ONE: usize = 64;

/// The caller's address, which the service puts into the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Caller(pub IpAddr);

impl Caller {
    /// The caller of a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }
}

/// The memory held by all request bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    within: Duration,
    counts: Mutex<HashMap<IpAddr, Counts>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    open: usize,
    held: usize,
}

/// The memory of one body, released on drop.
#[derive(Debug)]
pub(super) struct BodyPermit {
    bodies: Arc<Bodies>,
    caller: IpAddr,
    counts: Counts,
}

impl Bodies {
    /// Bodies with this time limit.
    pub(super) fn new(within: Duration) -> Self {
        Self { within, counts: Mutex::default() }
    }

    /// Reads a body up to a size; its memory is held until the second part is dropped.
    pub(super) async fn read(
        self: &Arc<Self>,
        Caller(caller): Caller,
        body: Body,
        most: usize,
    ) -> Result<(Vec<u8>, BodyPermit), CallRefusal> {
        let mut held =
            BodyPermit { bodies: Arc::clone(self), caller: counted_as(caller), counts: Counts::default() };
        held.open()?;
        let read = read(body, most, &mut held);
        let bytes = tokio::time::timeout(self.within, read).await.unwrap_or_else(|_| {
            Err(CallRefusal::new(
                408,
                format!("the body did not arrive within {} s", self.within.as_secs_f64()),
            ))
        })?;
        held.close();
        Ok((bytes, held))
    }
}

async fn read(mut body: Body, most: usize, held: &mut BodyPermit) -> Result<Vec<u8>, CallRefusal> {
    use axum::body::HttpBody as _;
    let too_large = || CallRefusal::new(413, format!("the body is larger than {} KiB", most >> 10));
    let hint = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if hint > most {
        return Err(too_large());
    }
    // Reserved memory is not used until it is written.
    let mut bytes = Vec::with_capacity(hint);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| CallRefusal::new(400, "the body is incomplete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(too_large());
        }
        held.hold(bytes.len() + data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

impl BodyPermit {
    /// Counts a body that is being received.
    fn open(&mut self) -> Result<(), CallRefusal> {
        let mut counts = self.bodies.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().map(|counts| counts.open).sum();
        let own = counts.get(&self.caller).map_or(0, |counts| counts.open);
        if all >= OPEN_OF_ALL || own >= OPEN_OF_ONE {
            return Err(busy());
        }
        counts.entry(self.caller).or_default().open += 1;
        self.counts.open = 1;
        Ok(())
    }

    /// Counts a body that has been received.
    fn close(&mut self) {
        let mut counts = self.bodies.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_caller) = counts.get_mut(&self.caller) {
            of_caller.open -= self.counts.open;
        }
        self.counts.open = 0;
    }

    /// Reserves this many bytes in total.
    fn hold(&mut self, bytes: usize) -> Result<(), CallRefusal> {
        let more = bytes.saturating_sub(FREE).saturating_sub(self.counts.held);
        if more == 0 {
            return Ok(());
        }
        let mut counts = self.bodies.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().map(|counts| counts.held).sum();
        let of_caller = counts.entry(self.caller).or_default();
        if all + more > HELD_BY_ALL || of_caller.held + more > HELD_BY_ONE {
            return Err(busy());
        }
        of_caller.held += more;
        self.counts.held += more;
        Ok(())
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        let mut counts = self.bodies.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_caller) = counts.get_mut(&self.caller) else { return };
        of_caller.open -= self.counts.open;
        of_caller.held -= self.counts.held;
        if of_caller.open == 0 && of_caller.held == 0 {
            counts.remove(&self.caller);
        }
    }
}

fn busy() -> CallRefusal {
    CallRefusal {
        retry_after: Some(1),
        ..CallRefusal::new(503, "too many large or unfinished requests at once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bodies: &Arc<Bodies>, caller: &str, bytes: usize) -> Result<BodyPermit, u16> {
        let caller = Caller(caller.parse().unwrap());
        let read = bodies.read(caller, Body::from(vec![0; bytes]), 16 << 20).await;
        read.map(|(_, held)| held).map_err(|refused| refused.status.as_u16())
    }

    #[tokio::test]
    async fn one_caller_leaves_memory_for_others_and_releases_its_own() {
        let bodies = Arc::new(Bodies::new(Duration::from_mins(1)));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(read(&bodies, "2001:db8::1", 16 << 20).await.unwrap());
        }
        assert_eq!(
            read(&bodies, "2001:db8::2", 16 << 20).await.unwrap_err(),
            503,
            "one network is one caller"
        );
        held.push(read(&bodies, "2001:db8::2", FREE).await.unwrap());
        for _ in 0..4 {
            held.push(read(&bodies, "192.0.2.1", 16 << 20).await.unwrap());
        }
        assert_eq!(
            read(&bodies, "192.0.2.2", 16 << 20).await.unwrap_err(),
            503,
            "all together hold too much"
        );
        held.push(read(&bodies, "192.0.2.2", FREE).await.unwrap());
        drop(held);
        assert!(bodies.counts.lock().unwrap().is_empty());
        assert_eq!(read(&bodies, "192.0.2.2", (16 << 20) + 1).await.unwrap_err(), 413);
        drop(read(&bodies, "192.0.2.2", 16 << 20).await.unwrap());
        assert!(bodies.counts.lock().unwrap().is_empty());
    }
}
