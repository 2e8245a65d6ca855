//! Helpers shared by several modules.

pub mod backoff;
pub mod ca;
pub mod caller;
pub mod clock;
pub mod durable;
pub mod error;
pub mod event;
pub mod figures;
pub mod gzip;
pub mod js_regex;
pub mod lock_file;
pub mod markdown;
pub mod minted;
pub mod own_dir;
pub mod path;
pub mod percent;
pub mod process_env;
pub mod process_group;
pub mod programs;
pub mod redact;
pub mod regular_file;
pub mod schema_check;
pub mod sealed_json;
pub mod secrets;
mod tokens;
pub mod truncate;
mod work_dir;
pub mod zip;

pub use tokens::{redact_tokens, register_token};
pub use work_dir::WorkDir;
