//! Rollouts, both sides of the contract, and the gateway between them.

mod contract;
mod dispatching;
mod gateway;
mod limits;
mod stage;
