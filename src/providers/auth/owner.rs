//! Owns a vendor's short-lived credentials: one instance per process and target, for any number of calls.
//!
//! Calls read the current credentials and wait only if none are valid. One exchange is in flight at a time; all waiting calls
//! share its result, whether credentials or an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::HeaderValue;

use super::exchange::{self, Issue, Issued};
use super::job_token::{Claims, mint};
use super::{bearer, refusal};
use crate::model::{AcceptedIdentity, AwsKeys, Failure, Federation};
use crate::providers::{Refusal, Retry, http};
use crate::util::backoff::{self, at_least};
use crate::util::clock;
use crate::util::redact::Redactor;

/// Credentials are renewed this long before they expire, or after half of their lifetime.
const REFRESH_BEFORE: Duration = Duration::from_mins(2);
/// Credentials this close to expiry are not used for a new call.
const MARGIN: Duration = Duration::from_secs(5);
/// The longest `Retry-After` of an exchange that is honored.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The pause after a failed renewal while the credentials are still valid.
const PAUSE: Duration = Duration::from_secs(10);

static OWNERS: Mutex<Vec<Arc<TokenOwner>>> = Mutex::new(Vec::new());

/// Valid credentials.
#[derive(Debug)]
pub(in crate::providers) struct Token {
    pub(super) credentials: Credentials,
    /// The number of the exchange.
    serial: u64,
    refresh_at: Instant,
    expires_at: Instant,
    /// Whether it replaces rejected credentials.
    replaces_rejected: bool,
    is_accepted: AtomicBool,
}

/// Credentials, ready for use.
#[derive(Debug)]
pub(super) enum Credentials {
    Bearer(HeaderValue),
    Aws(AwsKeys),
}

impl Token {
    /// Records that the vendor accepted a call.
    pub(in crate::providers) fn accepted(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }
}

/// Exchanges the identity of the job, and keeps the result.
pub(in crate::providers) struct TokenOwner {
    federation: Federation,
    ca_pem: Vec<u8>,
    client: Client,
    current: RwLock<Option<Arc<Token>>>,
    /// What the vendor accepted last.
    accepted: Mutex<Option<AcceptedIdentity>>,
    /// Held during an exchange; the error of the last one.
    exchange: tokio::sync::Mutex<Option<Refusal>>,
    /// Finished exchanges.
    rounds: AtomicU64,
    is_refreshing: AtomicBool,
}

/// A background renewal; another one may start when it is dropped.
struct Refresh(Arc<TokenOwner>);

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.is_refreshing.store(false, Ordering::Release);
    }
}

impl TokenOwner {
    /// The owner of these credentials in this process.
    pub(super) fn of(federation: &Federation, ca_pem: &[u8]) -> Result<Arc<Self>, Failure> {
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |owner: &&Arc<Self>| {
            let known = &owner.federation;
            known.exchange == federation.exchange
                && known.audience == federation.audience
                && known.token_url == federation.token_url
                && known.job.request_url == federation.job.request_url
                && owner.ca_pem == ca_pem
        };
        if let Some(owner) = owners.iter().find(is_same) {
            return Ok(Arc::clone(owner));
        }
        let owner = Arc::new(Self {
            federation: federation.clone(),
            ca_pem: ca_pem.to_vec(),
            client: http::client(ca_pem)?,
            current: RwLock::new(None),
            accepted: Mutex::new(None),
            exchange: tokio::sync::Mutex::new(None),
            rounds: AtomicU64::new(0),
            is_refreshing: AtomicBool::new(false),
        });
        owners.push(Arc::clone(&owner));
        Ok(owner)
    }

    /// Valid credentials. If they expire soon, they are renewed in the background.
    pub(super) async fn token(self: &Arc<Self>) -> Result<Arc<Token>, Refusal> {
        let Some(token) = self.valid() else { return self.replace(None, false).await };
        if Instant::now() >= token.refresh_at {
            self.refresh_in_background(token.serial);
        }
        Ok(token)
    }

    /// New credentials after these were rejected; `None` if new ones were rejected as well.
    pub(super) async fn renew(&self, rejected: &Token) -> Result<Option<Arc<Token>>, Refusal> {
        if rejected.replaces_rejected && !rejected.is_accepted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.replace(Some(rejected.serial), true).await.map(Some)
    }

    fn valid(&self) -> Option<Arc<Token>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|token| Instant::now() < token.expires_at).map(Arc::clone)
    }

    fn refresh_in_background(self: &Arc<Self>, serial: u64) {
        if self.is_refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let refresh = Refresh(Arc::clone(self));
        tokio::spawn(async move {
            if let Err(refusal) = refresh.0.replace(Some(serial), false).await {
                let message = refusal.redacted(&Redactor::default()).message;
                tracing::warn!("the token expires soon and could not be refreshed: {message}");
                clock::sleep(PAUSE).await;
            }
        });
    }

    /// Credentials other than the `stale` ones: from an exchange that finished meanwhile, or from a new one.
    async fn replace(&self, stale: Option<u64>, is_rejected: bool) -> Result<Arc<Token>, Refusal> {
        let seen = self.rounds.load(Ordering::Acquire);
        let mut last = self.exchange.lock().await;
        if let Some(token) = self.valid().filter(|token| Some(token.serial) != stale) {
            return Ok(token);
        }
        if let Some(refusal) = last.as_ref().filter(|_| self.rounds.load(Ordering::Acquire) != seen) {
            return Err(refusal.clone());
        }
        let result = self.exchange().await;
        let serial = self.rounds.fetch_add(1, Ordering::AcqRel) + 1;
        let token = result.and_then(|issued| Token::new(&issued, serial, is_rejected));
        *last = token.as_ref().err().cloned();
        let token = Arc::new(token?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&token));
        Ok(token)
    }

    /// Exchanges a new token of the job, again after a passing failure.
    async fn exchange(&self) -> Result<Issued, Refusal> {
        let mut attempts = backoff::TOKEN_EXCHANGE.attempts();
        loop {
            let refusal = match self.exchange_once().await {
                Ok(issued) => return Ok(issued),
                Err(refusal) => refusal,
            };
            let (Retry::After(asked), Some(own)) = (refusal.retry, attempts.failed()) else {
                return Err(refusal);
            };
            tokio::time::sleep(asked.map_or(own, |wait| at_least(wait.min(LONGEST_WAIT)))).await;
        }
    }

    async fn exchange_once(&self) -> Result<Issued, Refusal> {
        let job = mint(&self.client, &self.federation).await?;
        let issued = exchange::exchange(&self.client, &self.federation, &job).await.map_err(|refusal| {
            // A vendor may repeat the assertion in its error message.
            let message = Redactor::new([&job.jwt]).redact(refusal.message);
            Refusal { message, ..refusal }
        })?;
        tracing::debug!(subject = job.claims.sub, lifetime = ?issued.lifetime, "exchanged the identity of the job");
        let Claims { sub, environment, repository_id, job_workflow_ref, .. } = job.claims;
        let identity = AcceptedIdentity {
            vendor: refusal::vendor(&self.federation.exchange).to_owned(),
            subject: sub,
            audience: self.federation.audience.clone(),
            environment,
            repository_id,
            job_workflow_ref,
            lifetime_seconds: issued.lifetime.as_secs(),
        };
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
        Ok(issued)
    }

    /// What the vendor accepted last, if anything.
    pub(super) fn accepted(&self) -> Option<AcceptedIdentity> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Exchanges once more and says what the vendor accepted.
    pub(super) async fn identity(&self) -> Result<Option<AcceptedIdentity>, Refusal> {
        self.exchange().await?;
        Ok(self.accepted())
    }
}

impl Token {
    fn new(issued: &Issued, serial: u64, replaces_rejected: bool) -> Result<Self, Refusal> {
        let now = Instant::now();
        let (refresh_after, valid_for) = schedule(issued.lifetime);
        let credentials = match &issued.credentials {
            Issue::Bearer(token) => Credentials::Bearer(bearer(token)?),
            Issue::Aws(keys) => Credentials::Aws(keys.clone()),
        };
        Ok(Self {
            credentials,
            serial,
            refresh_at: now + refresh_after,
            expires_at: now + valid_for,
            replaces_rejected,
            is_accepted: AtomicBool::new(false),
        })
    }
}

/// When credentials are replaced, and how long they are used.
fn schedule(lifetime: Duration) -> (Duration, Duration) {
    let less = |margin: Duration, most: Duration| lifetime.saturating_sub(margin.min(most));
    (less(REFRESH_BEFORE, lifetime / 2), less(MARGIN, lifetime / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_replaced_two_minutes_before_they_expire_or_at_half_their_life() {
        let seconds = |lifetime| {
            let (refresh_after, valid_for) = schedule(Duration::from_secs(lifetime));
            (refresh_after.as_secs(), valid_for.as_secs())
        };
        assert_eq!(seconds(12 * 3600), (12 * 3600 - 120, 12 * 3600 - 5));
        assert_eq!(seconds(3600), (3480, 3595));
        assert_eq!(seconds(300), (180, 295));
        assert_eq!(seconds(240), (120, 235));
        assert_eq!(seconds(100), (50, 95));
        assert_eq!(seconds(20), (10, 18));
    }
}
