//! Size limits of a batch.

/// Limits for packing and unpacking an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Size of the archive itself.
    pub archive_bytes: u64,
    /// Unpacked size, including tar headers.
    pub unpacked_bytes: u64,
    /// Unpacked bytes per archive byte, beyond `free_bytes`.
    pub ratio: u64,
    /// The ratio is not checked up to this size: small batches of equal prompts compress very well.
    pub free_bytes: u64,
    /// Number of entries, including the manifest and the requests.
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
    /// Limit of the unpacked size for an archive of this length.
    pub(super) fn unpacked_bytes_of(&self, archive_bytes: u64) -> u64 {
        archive_bytes.saturating_mul(self.ratio).max(self.free_bytes).min(self.unpacked_bytes)
    }
}
