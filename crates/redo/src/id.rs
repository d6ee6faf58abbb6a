//! Names of databases and devices.

use std::fmt;
use std::str::FromStr;

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

impl FromStr for Id {
    type Err = NoId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut id = [0; 16];
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoId);
        }
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NoId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoId)?;
        }
        Ok(Self(id))
    }
}

/// A text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 hexadecimal digits")]
pub struct NoId;

impl Id {
    /// The first four bytes, as block headers hold them.
    #[must_use]
    pub fn tag(self) -> u32 {
        u32::from_le_bytes(self.0[..4].try_into().expect("four bytes"))
    }
}
