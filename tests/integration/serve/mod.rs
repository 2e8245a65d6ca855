//! `serve`, through its port: access, responses, jobs, and outside interference.

mod access;
mod allow_github;
mod busy;
mod cancel;
mod checkout_failures;
mod crash;
mod evaluate_form;
mod failures;
mod fuzz;
mod graded;
mod http;
mod job_requests;
mod leaderboard;
mod load;
mod logs;
mod openapi;
mod operator;
mod power;
mod read_only;
mod repeated_requests;
mod service;
mod slow_clients;
mod split;
mod tls;
