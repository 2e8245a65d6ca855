//! A fast server that speaks OpenAI's chat completions, for benchmarks and tests.
//!
//! It echoes the last user message and can be slow, rate-limited or faulty on purpose. It shares the machine with the
//! measured program, so it uses little CPU: hand-written HTTP/1.1, one write per response, no dependency
//! beyond those of the crate. `options` is the command line, `http` the wire, `chat` the JSON, `limit` the rate limits,
//! `hold` the latency, `gateway` the models and their answers; `server` puts them together.

mod chat;
mod gateway;
mod hold;
mod http;
mod limit;
mod options;
mod server;

use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;

use options::{Invocation, Options};
use server::Server;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(Invocation::Serve(options)) => options,
        Ok(Invocation::Help) => {
            // Without stdout there is no reader to inform.
            let _ = io::stdout().write_all(options::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            let _ = writeln!(io::stderr(), "error: {message}\n\nhint: `--help` lists the options");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let exit_with_stdin = options.exit_with_stdin;
        let server = Arc::new(Server::new(options));
        if exit_with_stdin {
            end_with_stdin(Arc::clone(&server));
        }
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "listening on http://{address}")?;
        stdout.flush()?;
        drop(stdout);
        server.serve(listener).await
    })
}

/// A plain thread, because the runtime would wait for its blocking tasks before it ends.
fn end_with_stdin(server: Arc<Server>) {
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut ignored = [0; 256];
        while matches!(stdin.read(&mut ignored), Ok(length) if length > 0) {}
        server.shut_down();
    });
}
