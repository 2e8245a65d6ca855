//! `serve`: the service, with what the command line says.

use super::args::ServeArgs;
use super::display::Display;
use crate::config::Env;
use crate::model::{Exit, Secret};
use crate::serve::auth::{TOKENS_VARIABLE, TokenSource};
use crate::serve::{self, ListenOptions, LogOptions, LogTo, Options, TlsFiles};

pub(super) async fn serve(args: ServeArgs, verbose: bool, display: &Display) -> anyhow::Result<Exit> {
    let env = Env::from_process();
    let tls = args.listen.tls_cert.zip(args.listen.tls_key).map(|(cert, key)| TlsFiles { cert, key });
    let log_dir = args.keep.log_dir.unwrap_or_else(|| args.keep.state.join("log"));
    let log = match args.keep.log_stderr {
        true => LogTo::Stderr,
        false => LogTo::Files { dir: log_dir.clone(), keep_days: args.keep.keep_logs },
    };
    let secrets: Vec<Secret> = env.get(TOKENS_VARIABLE).into_iter().map(Secret::new).collect();
    let gateway = super::rollout::gateway(&args.traces, &secrets, display)?;
    let options = Options {
        gateway,
        listen: ListenOptions {
            address: args.listen.listen,
            tls,
            behind_proxy: args.listen.behind_proxy,
            most_connections: args.listen.max_connections as usize,
        },
        tokens: TokenSource {
            files: args.access.auth_token_file,
            variable: env.get(TOKENS_VARIABLE).map(Secret::new),
        },
        allow_from: args.access.allow_from,
        log: LogOptions { to: log.clone(), verbose },
    };
    let started = |url: &str, app: &serve::App| {
        let tokens = match app.tokens.count() {
            1 => "1 token".to_owned(),
            count => format!("{count} tokens"),
        };
        let networks = match app.allowed.count() {
            None => String::new(),
            Some(1) => ", 1 network may connect".to_owned(),
            Some(count) => format!(", {count} networks may connect"),
        };
        display.note(&format!("listening on {url} ({tokens}{networks})"));
        if let LogTo::Files { dir, keep_days } = &log {
            display.note(&format!("log: {} (kept {keep_days} days)", dir.display()));
        }
    };
    serve::serve(options, started).await?;
    Ok(Exit::Ok)
}
