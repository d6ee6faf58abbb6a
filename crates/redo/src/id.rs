//! Names of databases and devices.

use std::fmt;

/// Sixteen random bytes that name a database or a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Id {
    /// The first four bytes, as block headers hold them.
    #[must_use]
    pub fn tag(self) -> u32 {
        u32::from_le_bytes(self.0[..4].try_into().expect("four bytes"))
    }
}
