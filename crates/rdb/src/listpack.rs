//! Listpacks, Redis' packed sequences of strings and integers, and integer sets; read-only.
//!
//! ```text
//!   total bytes u32 │ count u16 │ entry … entry │ 0xff
//!   entry: encoding and data │ how long that was, for reading backwards
//! ```

/// Six bytes of header.
const HEADER_BYTES: usize = 6;
const END: u8 = 0xff;

/// Returns the elements of a listpack, integers in decimal; `None` if it is damaged.
pub(crate) fn elements(pack: &[u8]) -> Option<Vec<Vec<u8>>> {
    let total = u32::from_le_bytes(*pack.first_chunk()?);
    if usize::try_from(total).ok()? != pack.len() {
        return None;
    }
    let mut rest = pack.get(HEADER_BYTES..)?;
    let mut elements = Vec::new();
    loop {
        if *rest.first()? == END {
            return (rest.len() == 1).then_some(elements);
        }
        let (element, entry_bytes) = entry(rest)?;
        elements.push(element);
        rest = rest.get(entry_bytes + back_length_bytes(entry_bytes)..)?;
    }
}

/// Returns the first entry and its length without its back length.
fn entry(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let first = *bytes.first()?;
    let int = |data_bytes: usize| {
        let mut wide = [0; 8];
        let data = bytes.get(1..=data_bytes)?;
        wide[8 - data_bytes..].copy_from_slice(data);
        let shift = 64 - 8 * u32::try_from(data_bytes).ok()?;
        Some((decimal(i64::from_le_bytes(wide) >> shift), 1 + data_bytes))
    };
    let string = |head_bytes: usize, length: usize| {
        let data = bytes.get(head_bytes..head_bytes.checked_add(length)?)?;
        Some((data.to_vec(), head_bytes + length))
    };
    let second = || bytes.get(1).map(|&byte| i64::from(byte));
    match first {
        0x00..=0x7f => Some((decimal(first.into()), 1)),
        0x80..=0xbf => string(1, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let value = i64::from(first & 0x1f) << 8 | second()?;
            let value = if value >= 1 << 12 { value - (1 << 13) } else { value };
            Some((decimal(value), 2))
        }
        0xe0..=0xef => {
            let length = i64::from(first & 0x0f) << 8 | second()?;
            string(2, usize::try_from(length).ok()?)
        }
        0xf0 => {
            let length = u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?);
            string(5, usize::try_from(length).ok()?)
        }
        0xf1 => int(2),
        0xf2 => int(3),
        0xf3 => int(4),
        0xf4 => int(8),
        _ => None,
    }
}

/// The bytes of an entry's back length: seven bits in each.
const fn back_length_bytes(entry_bytes: usize) -> usize {
    match entry_bytes {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Returns the members of an integer set, in decimal; `None` if it is damaged.
pub(crate) fn intset_members(set: &[u8]) -> Option<Vec<Vec<u8>>> {
    let width = u32::from_le_bytes(*set.first_chunk()?);
    let count = u32::from_le_bytes(*set.get(4..)?.first_chunk()?);
    let (width, count) = (usize::try_from(width).ok()?, usize::try_from(count).ok()?);
    let data = &set[8..];
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width)? != data.len() {
        return None;
    }
    let member = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(bytes);
        decimal(i64::from_le_bytes(wide) >> (64 - 8 * width))
    };
    Some(data.chunks_exact(width).map(member).collect())
}

fn decimal(value: i64) -> Vec<u8> {
    itoa::Buffer::new().format(value).as_bytes().to_vec()
}
