//! Request bodies, with limits on size and time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use bytes::Bytes;

use super::error::Refusal;

/// Time limit of a body, so that a slow sender cannot hold a connection.
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
            None => Refusal::Malformed("the body is incomplete".to_owned()),
        }
    })
}
