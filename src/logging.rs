//! The log for `-v`, on stderr; `RUN_EVALS_LOG` takes a filter instead.

use std::io::Write;

use tracing_subscriber::EnvFilter;

use crate::console::stderr;

/// What is never logged, whatever the filter says.
const OFF: [&str; 1] = ["aws_sigv4=off"];

/// Starts the log. Warnings are shown without `-v`, unless the command is to be silent; everything of ours with `-vv`.
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
    // Control characters are escaped on their way to stderr, and colors are made of them.
    log.with_ansi(false).init();
}

/// Stderr as everything else is written to it; a line comes in one piece.
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
