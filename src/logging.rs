//! The log for `-v`, on stderr; `RUN_EVALS_LOG` sets a filter instead.

use std::io::Write;

use tracing_subscriber::EnvFilter;

use crate::console::stderr;

/// Never logged, whatever the filter.
const OFF: [&str; 1] = ["aws_sigv4=off"];

/// Starts the log. Shows warnings without `-v`, unless the command is silent; everything of ours with `-vv`.
pub fn init(verbose: u8, silent: bool) {
    let default = match verbose {
        0 if silent => "off",
        0 => "run_evals=warn",
        1 => "run_evals=info",
        _ => "run_evals=debug",
    };
    let filter = EnvFilter::try_from_env("RUN_EVALS_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // The signer logs what it signs, with the session token.
    let filter = OFF.iter().filter_map(|off| off.parse().ok()).fold(filter, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr).with_target(false);
    // Stderr escapes control characters, which colors consist of.
    log.with_ansi(false).init();
}

/// Stderr, written like all other output; each line at once.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        stderr(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
