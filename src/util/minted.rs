//! Secrets created at run time, such as exchanged tokens: masked and redacted like keys.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use memchr::memmem;

use super::redact::forms;
use crate::model::Secret;

/// How long a secret is redacted after it has expired: in the responses to calls that it was sent with.
const AFTERLIFE: Duration = Duration::from_mins(10);
/// The longest life of a secret, so that a sum with the present time does not overflow.
const LONGEST_LIFE: Duration = Duration::from_hours(24);
/// The most that are redacted; the oldest are dropped first.
const MOST: usize = 256;

type Finders = Arc<Vec<memmem::Finder<'static>>>;

static HOOK: OnceLock<fn(&Secret)> = OnceLock::new();
static MINTED: RwLock<(Vec<Minted>, Option<Finders>)> = RwLock::new((Vec::new(), None));

struct Minted {
    until: Instant,
    finders: Vec<memmem::Finder<'static>>,
}

/// Calls this with every new secret, before it is used.
pub fn on_mint(hook: fn(&Secret)) {
    let _ = HOOK.set(hook);
}

/// Makes a new secret known, which lives this long.
pub fn announce(secret: &Secret, lifetime: Duration) {
    if let Some(hook) = HOOK.get() {
        hook(secret);
    }
    let now = Instant::now();
    let finders =
        forms(secret.expose()).iter().map(|form| memmem::Finder::new(form.as_bytes()).into_owned()).collect();
    let mut minted = MINTED.write().unwrap_or_else(PoisonError::into_inner);
    let (known, all) = &mut *minted;
    known.retain(|known| now < known.until);
    known.push(Minted { until: now + lifetime.min(LONGEST_LIFE) + AFTERLIFE, finders });
    if known.len() > MOST {
        known.remove(0);
    }
    *all = Some(Arc::new(known.iter().flat_map(|known| known.finders.iter().cloned()).collect()));
}

/// The secrets to look for; `None` before the first one.
pub(super) fn finders() -> Option<Finders> {
    MINTED.read().unwrap_or_else(PoisonError::into_inner).1.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::redact::Redactor;

    #[test]
    fn a_secret_is_redacted_as_long_as_it_lives_whatever_the_others() {
        let secret = |number| Secret::new(&format!("minted-secret-{number:04}-0123456789"));
        announce(&secret(0), Duration::from_hours(1));
        for number in 1..60 {
            announce(&secret(number), Duration::from_mins(5));
        }
        let redactor = Redactor::default();
        for number in 0..60 {
            assert_eq!(redactor.redact(secret(number).expose().to_owned()), "***", "{number}");
        }
    }
}
