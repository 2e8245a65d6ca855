//! The runner role: a batch in, every answer out.
