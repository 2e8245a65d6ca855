//! The client against servers on this machine that answer with given bytes.

mod app;
mod artifacts;
mod calls;
mod dispatch;
mod hints;
mod network;
mod results;
mod runs;
mod server;
mod token;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::server::Server;
use super::retry_policy::RetryPolicy;
use super::{Auth, Client, ClientOptions};
use crate::model::{Failure, Secret};

const TOKEN: &str = "github_pat_0123456789abcdef";
const REPO: &str = "acme/runner";

/// The waits that a client reported.
type ReportedWaits = Arc<Mutex<Vec<String>>>;

/// Waits of milliseconds.
fn impatient() -> RetryPolicy {
    RetryPolicy {
        connect: Duration::from_secs(30),
        silence: Duration::from_secs(30),
        tries: 3,
        pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
        limit_pause: Duration::from_millis(30),
        longest_limit: Duration::from_secs(3),
    }
}

fn client(server: &Server) -> Client {
    client_with(&server.url, Auth::Token(Secret::new(TOKEN)), impatient()).0
}

fn client_with(api_url: &str, auth: Auth, patience: RetryPolicy) -> (Client, ReportedWaits) {
    let heard = ReportedWaits::default();
    let notes = Arc::clone(&heard);
    let options = ClientOptions {
        ca_pem: Vec::new(),
        api_url: api_url.to_owned(),
        auth,
        notify: Some(Arc::new(move |text: &str| notes.lock().unwrap().push(text.to_owned()))),
    };
    (Client::with_patience(options, patience).unwrap(), heard)
}

fn shown(failure: &Failure) -> String {
    format!("{:?}: {failure}\nhint: {}", failure.exit(), failure.hint_text().unwrap_or("none"))
}
