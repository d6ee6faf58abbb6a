//! Packets: three bytes of length, a number, and the bytes. A packet of maximum length is continued
//! by the next, so a payload may be longer than 16 MiB.
//!
//! ```text
//!   ff ff ff 00 ……  │  ff ff ff 01 ……  │  05 00 00 02 …    one payload
//! ```

/// The maximum length: the payload continues in the next packet.
pub(crate) const LEN_MAX: usize = 0xff_ffff;

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 4;

/// Bytes kept of a server's payload: all of a greeting, and of what ends a response.
const HEAD_BYTES: usize = 512;

/// Returns the payload length of the packet that begins with `header`.
pub(crate) fn len_of(header: &[u8]) -> usize {
    usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16
}

/// Returns the payload of a request whose packets are complete in `raw`, joined if there are
/// several.
pub(crate) fn payload(raw: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let (first, rest) = split(raw);
    if rest.is_empty() || first.len() < LEN_MAX {
        return first.into();
    }
    let (mut joined, mut rest) = (first.to_vec(), rest);
    loop {
        let (next, behind) = split(rest);
        joined.extend_from_slice(next);
        rest = behind;
        if next.len() < LEN_MAX {
            return joined.into();
        }
    }
}

/// Splits off the payload of the first packet in `raw`.
pub(crate) fn split(raw: &[u8]) -> (&[u8], &[u8]) {
    let Some((header, rest)) = raw.split_at_checked(HEADER_BYTES) else { return (&[], &[]) };
    rest.split_at(len_of(header).min(rest.len()))
}

/// Appends `payload` as packets, the first of which has number `sequence`.
pub(crate) fn write(out: &mut Vec<u8>, mut sequence: u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (here, behind) = rest.split_at(rest.len().min(LEN_MAX));
        let len = u32::try_from(here.len()).expect("at most 16 MiB").to_le_bytes();
        out.extend_from_slice(&[len[0], len[1], len[2], sequence]);
        out.extend_from_slice(here);
        sequence = sequence.wrapping_add(1);
        rest = behind;
        if here.len() < LEN_MAX {
            return;
        }
    }
}

/// Returns the length, with headers, of the payload that begins `bytes`. The error is the minimum
/// number of missing bytes.
pub(crate) fn whole(bytes: &[u8]) -> Result<usize, usize> {
    let mut at = 0;
    loop {
        let Some(header) = bytes.get(at..at + HEADER_BYTES) else {
            return Err(at + HEADER_BYTES - bytes.len());
        };
        let len = len_of(header);
        let end = at + HEADER_BYTES + len;
        if bytes.len() < end {
            return Err(end - bytes.len());
        }
        at = end;
        if len < LEN_MAX {
            return Ok(at);
        }
    }
}

/// The beginning of a server's payload.
#[derive(Debug)]
pub(crate) struct Head {
    /// The number of its first packet.
    pub(crate) sequence: u8,
    /// The length of the payload.
    pub(crate) len: u64,
    /// The bytes that are kept.
    pub(crate) bytes: Vec<u8>,
}

impl Head {
    pub(crate) fn first(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(0)
    }
}

/// The position in a server's packets.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    header: [u8; HEADER_BYTES],
    header_len: usize,
    /// Bytes of the packet still to come.
    left: usize,
    /// Whether the payload continues in the next packet.
    continues: bool,
    head: Head,
}

impl Default for Head {
    fn default() -> Self {
        Self { sequence: 0, len: 0, bytes: Vec::with_capacity(HEAD_BYTES) }
    }
}

impl Packets {
    /// The last complete payload.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Whether no payload has begun.
    pub(crate) fn is_between(&self) -> bool {
        self.header_len == 0 && !self.continues
    }

    /// Takes bytes off the front of `bytes` until a payload is complete.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Option<&Head> {
        while !bytes.is_empty() {
            if self.header_len < HEADER_BYTES {
                self.header[self.header_len] = bytes[0];
                self.header_len += 1;
                *bytes = &bytes[1..];
                if self.header_len < HEADER_BYTES {
                    continue;
                }
                self.left = len_of(&self.header);
                if !self.continues {
                    self.head.sequence = self.header[3];
                    self.head.len = 0;
                    self.head.bytes.clear();
                }
                self.continues = self.left == LEN_MAX;
            }
            let (here, rest) = bytes.split_at(self.left.min(bytes.len()));
            let kept = here.len().min(HEAD_BYTES - self.head.bytes.len());
            self.head.bytes.extend_from_slice(&here[..kept]);
            self.head.len += here.len() as u64;
            self.left -= here.len();
            *bytes = rest;
            if self.left == 0 {
                self.header_len = 0;
                if !self.continues {
                    return Some(&self.head);
                }
            }
        }
        None
    }

    /// Skips `missing` bytes if they certainly belong to the current packet and lie behind its kept
    /// beginning. Returns whether they did.
    pub(crate) fn skip(&mut self, missing: u64) -> bool {
        let is_within = self.header_len == HEADER_BYTES
            && self.head.bytes.len() == HEAD_BYTES
            && missing > 0
            && missing < self.left as u64;
        if is_within {
            self.left -= usize::try_from(missing).expect("less than the length of a packet");
            self.head.len += missing;
        }
        is_within
    }
}

/// Reads the fields of a payload in order; `None` at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (here, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(here)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Takes an integer whose first byte gives its length.
    pub(crate) fn length_encoded(&mut self) -> Option<u64> {
        let more = match self.u8()? {
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            0xfb | 0xff => return None,
            small => return Some(u64::from(small)),
        };
        let bytes = self.bytes(more)?;
        Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Takes the bytes before the next zero byte.
    pub(crate) fn zero_ended(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let here = self.bytes(end)?;
        self.u8()?;
        Some(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_any_length_are_split_and_joined() {
        for len in [0, 1, 300, LEN_MAX - 1, LEN_MAX, LEN_MAX + 5] {
            let payload_bytes = vec![7; len];
            let mut raw = Vec::new();
            write(&mut raw, 0, &payload_bytes);
            assert_eq!(whole(&raw), Ok(raw.len()));
            assert_eq!(whole(&raw[..raw.len() - 1]), Err(1));
            assert!(payload(&raw) == payload_bytes);
            for step in [raw.len(), 1 << 20] {
                let (mut packets, mut heads) = (Packets::default(), Vec::new());
                for piece in raw.chunks(step) {
                    let mut piece = piece;
                    while let Some(head) = packets.next(&mut piece) {
                        heads.push(head.len);
                    }
                }
                assert!(packets.is_between());
                assert_eq!(heads, [len as u64]);
            }
        }
    }

    #[test]
    fn integers_have_the_length_that_they_say() {
        let mut fields =
            Fields(&[250, 0xfc, 1, 2, 0xfd, 1, 2, 3, 0xfe, 1, 0, 0, 0, 0, 0, 0, 1, 0xfb]);
        assert_eq!(fields.length_encoded(), Some(250));
        assert_eq!(fields.length_encoded(), Some(0x201));
        assert_eq!(fields.length_encoded(), Some(0x30201));
        assert_eq!(fields.length_encoded(), Some(0x0100_0000_0000_0001));
        assert_eq!(fields.length_encoded(), None);
    }
}
