//! The server: connections, endpoints, and the outcome of each request.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::chat::{self, Question, Trouble};
use crate::gateway::Said;
use crate::hold::Holder;
use crate::http::{self, Answer, Parsed, Request};
use crate::limit::Limiter;
use crate::options::Options;

/// The server, shared by its connections.
pub(crate) struct Server {
    options: Options,
    started: Instant,
    holder: Holder,
    state: Mutex<State>,
    ended: Notify,
}

/// Everything that `POST /reset` resets.
struct State {
    counters: Counters,
    limiter: Option<Limiter>,
    served: HashMap<String, u64>,
}

/// The response of `GET /counters`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Counters {
    requests: u64,
    ok: u64,
    s429: u64,
    s5xx: u64,
    dropped: u64,
    in_flight: u64,
    max_in_flight: u64,
    held_us: u64,
}

/// The random fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Limited,
    Overloaded,
    Dropped,
}

/// What happens after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Request,
    Close,
    Shutdown,
}

impl Server {
    /// A server without connections.
    pub(crate) fn new(options: Options) -> Self {
        let state = Mutex::new(State::new(&options, 0));
        Self { options, started: Instant::now(), holder: Holder::new(), state, ended: Notify::new() }
    }

    /// Serves until shutdown.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => accepted?.0,
                () = self.ended.notified() => return Ok(()),
            };
            stream.set_nodelay(true)?;
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                // A broken connection is the client's problem.
                let _ = server.connection(stream).await;
            });
        }
    }

    /// Ends `serve`.
    pub(crate) fn shut_down(&self) {
        self.ended.notify_one();
    }

    async fn connection(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut input = Vec::with_capacity(4096);
        let mut output = Vec::with_capacity(4096);
        loop {
            match http::parse(&input) {
                Parsed::Partial { missing } => {
                    input.reserve(missing.max(1024));
                    if stream.read_buf(&mut input).await? == 0 {
                        return Ok(());
                    }
                }
                Parsed::Whole { request, length } => {
                    let next = self.answer(&request, &mut output).await;
                    stream.write_all(&output).await?;
                    output.clear();
                    match next {
                        Next::Request => drop(input.drain(..length)),
                        Next::Close => return Ok(()),
                        Next::Shutdown => {
                            self.shut_down();
                            return Ok(());
                        }
                    }
                }
                Parsed::Refused { status, message } => {
                    let body = chat::error(Trouble::BadRequest, message);
                    Answer { status, retry_after: None, keep_alive: false, body: &body }
                        .append_to(&mut output);
                    return stream.write_all(&output).await;
                }
            }
        }
    }

    /// Appends the answer to `output`; a dropped request has none.
    async fn answer(&self, request: &Request<'_>, output: &mut Vec<u8>) -> Next {
        let mut next = if request.keep_alive { Next::Request } else { Next::Close };
        let mut retry_after = None;
        let gateway = &self.options.gateway;
        let (status, body) = match (request.method, request.path) {
            ("POST", "/v1/chat/completions") | ("GET", "/v1/models")
                if self.options.require_key.as_deref().is_some_and(|key| key != request.key) =>
            {
                let message = format!("Incorrect API key provided: {}", request.key);
                (401, chat::error(Trouble::BadRequest, &message))
            }
            ("POST", "/v1/chat/completions") => match self.chat(request.body).await {
                Some((429, body)) => {
                    retry_after = (!gateway.mindrouter).then_some(self.options.retry_after);
                    (429, body)
                }
                Some(answer) => answer,
                None => return Next::Close,
            },
            ("GET", "/v1/models") => (200, gateway.list()),
            ("GET", path) if let Some(body) = gateway.health(path) => (200, body),
            ("GET", "/counters") => (200, chat::json(&self.state().counters)),
            ("GET", "/served") if self.options.record => (200, chat::json(&self.state().served)),
            ("GET", "/served") => (404, chat::error(Trouble::BadRequest, "start the server with `--record`")),
            ("POST", "/reset") => {
                let mut state = self.state();
                *state = State::new(&self.options, state.counters.in_flight);
                (200, b"{}".to_vec())
            }
            ("POST", "/shutdown") => {
                next = Next::Shutdown;
                (200, b"{}".to_vec())
            }
            _ => (404, chat::error(Trouble::BadRequest, "there is no such endpoint")),
        };
        let body = gateway.shaped(status, body);
        let keep_alive = next == Next::Request;
        Answer { status, retry_after, keep_alive, body: &body }.append_to(output);
        next
    }

    /// The response to a chat completion; none if the connection is dropped. Everything is counted before the
    /// response is sent, so that a client that has it also sees it in the counters.
    async fn chat(&self, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let (arrived, number, admitted) = {
            let mut state = self.state();
            // Under the lock, so that arrivals are ordered.
            let arrived = Instant::now();
            let (number, admitted) = state.arrive(&self.options, arrived - self.started);
            (arrived, number, admitted)
        };
        if let Err(message) = admitted {
            return Some((429, chat::error(Trouble::RateLimited, message)));
        }
        let question = match Question::read(body) {
            Ok(question) => question,
            Err(message) => {
                self.state().counters.in_flight -= 1;
                return Some((400, chat::error(Trouble::BadRequest, &message)));
            }
        };
        let (fate, latency) = fate(&self.options, number);
        if fate != Fate::Limited {
            self.holder.hold(arrived, latency).await;
        }
        let mut state = self.state();
        state.counters.in_flight -= 1;
        match fate {
            Fate::Answered => {
                let answer = match self.options.gateway.answer(&question.model, &question.text) {
                    Said::Echo => question.echo(number),
                    Said::Content(content) => question.complete(number, &content),
                    Said::Refused(status, message) => {
                        return Some((status, chat::error(Trouble::BadRequest, &message)));
                    }
                };
                state.counters.ok += 1;
                state.counters.held_us += u64::try_from(arrived.elapsed().as_micros()).unwrap_or(u64::MAX);
                if self.options.record {
                    *state.served.entry(question.text).or_default() += 1;
                }
                Some((200, answer))
            }
            Fate::Limited => {
                state.counters.s429 += 1;
                Some((429, chat::error(Trouble::RateLimited, "rate limit reached, by chance")))
            }
            Fate::Overloaded => {
                state.counters.s5xx += 1;
                Some((503, chat::error(Trouble::Overloaded, "the server is overloaded, by chance")))
            }
            Fate::Dropped => {
                state.counters.dropped += 1;
                None
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(options: &Options, in_flight: u64) -> Self {
        let limiter =
            options.limit_per_second.map(|limit| Limiter::new(options.limit_mode, limit, options.burst));
        let counters = Counters { in_flight, max_in_flight: in_flight, ..Counters::default() };
        Self { counters, limiter, served: HashMap::new() }
    }

    /// Counts a request: its number, and whether the limits accept it.
    fn arrive(&mut self, options: &Options, now: Duration) -> (u64, Result<(), &'static str>) {
        let counters = &mut self.counters;
        let number = counters.requests;
        counters.requests += 1;
        let refusal = if options.max_in_flight.is_some_and(|most| counters.in_flight >= u64::from(most.get()))
        {
            "too many requests at once"
        } else if self.limiter.as_mut().is_some_and(|limiter| !limiter.admit(now)) {
            "too many requests in a second"
        } else {
            counters.in_flight += 1;
            counters.max_in_flight = counters.max_in_flight.max(counters.in_flight);
            return (number, Ok(()));
        };
        counters.s429 += 1;
        (number, Err(refusal))
    }
}

/// The outcome and the latency of the n-th request: a function of the seed and n.
fn fate(options: &Options, number: u64) -> (Fate, Duration) {
    let luck = unit(options.seed, 2 * number);
    let limited = options.rate_429;
    let overloaded = limited + options.rate_5xx;
    let fate = match luck {
        _ if luck < limited => Fate::Limited,
        _ if luck < overloaded => Fate::Overloaded,
        _ if luck < overloaded + options.rate_drop => Fate::Dropped,
        _ => Fate::Answered,
    };
    let jitter = options.jitter.mul_f64(unit(options.seed, 2 * number + 1));
    (fate, options.latency + jitter)
}

/// The n-th uniformly distributed number from 0 to below 1 of a seed (`SplitMix64`).
#[expect(clippy::cast_precision_loss, reason = "53 bits are what an `f64` holds exactly")]
fn unit(seed: u64, number: u64) -> f64 {
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bits = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(step.wrapping_mul(number + 1));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests;
