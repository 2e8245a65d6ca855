//! Deterministic gzip.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

/// For JSON lines, level 1 output is a third larger; level 6 output is a tenth smaller but takes a third
/// longer.
const LEVEL: Compression = Compression::new(2);

/// Header value for "unknown operating system", the same on every machine.
const UNKNOWN_OS: u8 = 255;

/// A gzip writer; call `finish` at the end.
pub type Compressor<W> = GzEncoder<W>;

/// A gzip writer whose output depends only on the data: no timestamp, no name, no operating system.
pub fn compressor<W: Write>(to: W) -> Compressor<W> {
    GzBuilder::new().mtime(0).operating_system(UNKNOWN_OS).write(to, LEVEL)
}
