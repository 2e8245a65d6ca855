//! `serve`, through its port: who may ask, what is answered, what becomes of jobs, and what others do to it meanwhile.

mod access;
mod again;
mod busy;
mod crash;
mod failures;
mod fuzz;
mod http;
mod load;
mod logs;
mod openapi;
mod operator;
mod orders;
mod service;
mod slow;
mod tls;
mod trouble;
