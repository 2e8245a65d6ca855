//! The model vendors' wires: the only place that knows them.
