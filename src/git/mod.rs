//! The git command line, wrapped. Only this module runs git.
//!
//! - `command`, `process`, `watchdog`: start git without the user's environment, configuration or hooks, and end it
//! - `git_dir`, `trust`: keep the configuration of untrusted repositories out, and reject dangerous ones
//! - `locks`: removes remains of killed processes
//! - `repository`, `objects`, `commit`, `packs`: a bare repository on disk
//! - `remote`, `access`, `transient`: fetch and push, push access, and which failures to retry
//! - `history`, `worktree`, `times`: clones and checkouts of users
//! - `isolated_repo`, `transport`: clones that `sync` manages, and how to reach their origin
//!
//! A process costs some milliseconds, so there are few of them.

mod access;
mod command;
mod commit;
mod config;
mod git_dir;
mod history;
mod identity;
mod isolated_repo;
mod locks;
mod objects;
mod packs;
mod process;
mod remote;
mod repository;
mod times;
mod transient;
mod transport;
mod trust;
mod watchdog;
mod worktree;

pub use access::may_push;
pub use command::GitError;
pub use commit::{CommitOutcome, NewFile};
pub use config::{config_file, harmless, set_config};
pub use history::{EntryKind, TreeEntry, fast_forward};
pub use isolated_repo::{IsolatedRepo, LFS_FILTER, has_lfs};
pub use objects::{DamagedTree, ObjectId};
pub use packs::{index_pack, salvage_pack, verify_pack};
pub use process::{end_all, end_all_at_signal};
pub use remote::{PushOutcome, Remote, fetch_files};
pub use repository::Repository;
pub use times::commit_times;
pub use transient::retry;
pub use transport::Transport;
pub use trust::{own_config, reject_untrusted};
pub use watchdog::{ARGUMENT as WATCHDOG_ARGUMENT, enable as enable_watchdog, watch as watch_git_processes};
pub use worktree::{Worktree, resolve_ref};
