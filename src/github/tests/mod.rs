//! The client against servers on this machine.
