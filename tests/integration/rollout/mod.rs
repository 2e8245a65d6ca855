//! Rollouts, both sides of the contract, and the gateway between them.

mod contract;
mod dispatching;
mod gateway;
mod hostile;
mod limits;
mod private_ca;
mod published;
mod stage;
