//! Benchmarks in git: a registry lists them, and only `sync` changes them.
//!
//! `registry` reads `benchmarks.yaml` (with `entry`) and AgentV's own `projects:` (`agentv`); `address` decides which URLs are allowed and
//! which get the token. `update` is one sync: it takes the `lock`, inspects the clone (`clone_state`) and queries the remote (`upstream`).
//! If the result is a fast-forward, it makes a replica beside the clone (`staging_dir`), updates it (`checkout`, with our own `config`, also for submodules: `modules`; `save` keeps what `--reset` discards) and swaps
//! the two in one step (`exchange`; `inventory` finds what was added to the clone meanwhile). It refuses anything else (`failure`), with the command that resolves it. `record` is
//! the last sync as stored in the clone, `state` as stored in the registry's directory (with the `history` of syncs); `status` shows both. `register` adds a benchmark to
//! AgentV's own registry. `outcome` syncs several benchmarks at once, and `render` prints the tables of the command.

mod address;
mod agentv;
mod checkout;
mod clone_state;
mod config;
mod entry;
mod exchange;
mod failure;
mod history;
mod inventory;
mod lock;
mod modules;
mod outcome;
mod record;
mod register;
mod registry;
mod render;
mod save;
mod staging_dir;
mod state;
mod status;
mod step;
mod update;
mod upstream;

pub use failure::Failure;
pub use history::{CommitInfo, SyncRecord};
pub use outcome::{SyncOutcome, for_each};
pub use register::{Registration, register};
pub use registry::{Benchmark, Registry};
pub use render::Table;
pub use status::{Status, status};
pub use step::SyncStep;
pub use update::{Change, Options, SyncResult, sync_one};
