//! What was handed to flushers and is not given back.

/// See the file's top.
pub(crate) struct InFlight {
    bytes: u64,
    bytes_max: u64,
}

impl InFlight {
    /// Nothing; more than `bytes_max` is too much.
    pub(crate) const fn new(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max }
    }

    /// A block was handed over.
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A block's buffer has come back.
    pub(crate) const fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is too much.
    pub(crate) const fn is_over(&self) -> bool {
        self.bytes > self.bytes_max
    }
}
