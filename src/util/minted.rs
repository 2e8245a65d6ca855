//! Secrets created at run time, such as exchanged tokens: masked and redacted like keys.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use memchr::memmem;

use super::redact::forms;
use crate::model::Secret;

/// How many of the newest are redacted: enough for several exchanges, each of which replaces expired tokens.
const MOST: usize = 16;

type Finders = Arc<Vec<memmem::Finder<'static>>>;

static HOOK: OnceLock<fn(&Secret)> = OnceLock::new();
static MINTED: RwLock<(VecDeque<Finders>, Option<Finders>)> = RwLock::new((VecDeque::new(), None));

/// Calls this with every new secret, before it is used.
pub fn on_mint(hook: fn(&Secret)) {
    let _ = HOOK.set(hook);
}

/// Registers a new secret.
pub fn announce(secret: &Secret) {
    if let Some(hook) = HOOK.get() {
        hook(secret);
    }
    let finders: Vec<_> =
        forms(secret.expose()).iter().map(|form| memmem::Finder::new(form.as_bytes()).into_owned()).collect();
    let mut minted = MINTED.write().unwrap_or_else(PoisonError::into_inner);
    let (newest, all) = &mut *minted;
    newest.push_back(Arc::new(finders));
    if newest.len() > MOST {
        newest.pop_front();
    }
    *all = Some(Arc::new(newest.iter().flat_map(|finders| finders.iter().cloned()).collect()));
}

/// The secrets to look for; `None` before the first one.
pub(super) fn finders() -> Option<Finders> {
    MINTED.read().unwrap_or_else(PoisonError::into_inner).1.clone()
}
