//! Bodies: so large, and in so much time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use bytes::Bytes;

use super::answer::Refusal;

/// How long a body may take. Whoever sends it by the byte keeps no connection for longer.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Reads a whole body.
pub async fn read_body(body: Body, most: usize) -> Result<Bytes, Refusal> {
    use http_body_util::LengthLimitError;
    let read = to_bytes(body, most);
    let Ok(read) = tokio::time::timeout(BODY_WITHIN, read).await else { return Err(Refusal::TooSlow) };
    read.map_err(|error| {
        let source = std::error::Error::source(&error);
        match source.and_then(|source| source.downcast_ref::<LengthLimitError>()) {
            Some(_) => Refusal::TooLarge(most),
            None => Refusal::Malformed("the body ends too early".to_owned()),
        }
    })
}
