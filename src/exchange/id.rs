//! The id of an exchange: 32 random hexadecimal digits in its file `id`, by which a user's own exchanges are recognized.

use anyhow::Context as _;

use super::LocalExchange;
use crate::util::{durable, regular_file};

const FILE: &str = "id";
const DIGITS: usize = 32;

impl LocalExchange {
    /// Its id, if it has a valid one.
    pub fn id(&self) -> Option<String> {
        let id = regular_file::read_to_string(&self.path().join(FILE), regular_file::SETTINGS).ok()?;
        let id = id.trim_end();
        let is_valid = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then(|| id.to_ascii_lowercase())
    }

    /// A new id; [`Self::set_id`] stores it.
    pub fn new_id() -> String {
        format!("{:032x}", fastrand::u128(..))
    }

    /// Stores this id.
    pub fn set_id(&self, id: &str) -> anyhow::Result<()> {
        let path = self.path().join(FILE);
        durable::write(&path, format!("{id}\n").as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}
