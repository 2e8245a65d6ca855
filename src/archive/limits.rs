//! How large a batch may be.

/// The bounds within which an archive is packed and unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of the archive itself.
    pub archive_bytes: u64,
    /// The most bytes it may unpack to, tar headers included.
    pub unpacked_bytes: u64,
    /// The most bytes that each byte of the archive may unpack to, once `free_bytes` are passed.
    pub ratio: u64,
    /// Up to here the ratio is not looked at: small batches of equal prompts compress very well.
    pub free_bytes: u64,
    /// The most entries, the manifest and the requests included.
    pub entries: u64,
}

impl Default for Limits {
    /// Far above any real batch, far below a runner's disk.
    fn default() -> Self {
        Self {
            archive_bytes: 512 << 20,
            unpacked_bytes: 2 << 30,
            ratio: 400,
            free_bytes: 64 << 20,
            entries: 100_000,
        }
    }
}

impl Limits {
    /// The most bytes that an archive of this length may unpack to.
    pub(super) fn unpacked_bytes_of(&self, archive_bytes: u64) -> u64 {
        archive_bytes.saturating_mul(self.ratio).max(self.free_bytes).min(self.unpacked_bytes)
    }
}
