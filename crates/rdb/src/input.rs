//! The bytes of a dump: a window on the source, and strings and lengths read through it.
//!
//! ```text
//!   source ──► window (256 KiB): … read │ to read … ──► bytes, lengths, strings that fit
//!                 │                                 └─► digits: integers as text
//!                 ├─► long: strings that are longer than the window, as they arrive
//!                 └─► unpacked: compressed strings, as they unfold
//! ```
//!
//! Nothing is reserved for a length that is merely announced: what is longer than the window grows by
//! what has arrived, what is compressed by what has come out. Every byte is summed once, when it leaves
//! the window.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use crate::Limits;
use crate::crc64::Crc64;
use crate::error::Error;
use crate::lzf;

/// Bytes of the window on a file.
const WINDOW_BYTES: usize = 256 << 10;

/// Bytes that a window has at least: what is read as one number fits.
const WINDOW_BYTES_MIN: usize = 64;

/// What a scratch buffer keeps for the next string.
const KEPT_BYTES: usize = 1 << 20;

/// The bits of the first byte of a length.
pub(crate) mod length {
    pub(crate) const BITS_32: u8 = 0x80;
    pub(crate) const BITS_64: u8 = 0x81;
    pub(crate) const INT8: u8 = 0xc0;
    pub(crate) const INT16: u8 = 0xc1;
    pub(crate) const INT32: u8 = 0xc2;
    pub(crate) const LZF: u8 = 0xc3;
}

const CUT_SHORT: &str = "it ends before its end mark: it was cut short";

/// Where a string that was read lies, until the next read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Text {
    Window { start: usize, end: usize },
    Long,
    Unpacked,
    Digits,
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct Input<R> {
    source: R,
    window: Box<[u8]>,
    /// What of the window is to be read.
    start: usize,
    end: usize,
    /// Where the window begins, in bytes from the beginning of the dump.
    window_offset: u64,
    /// The sum of what was read, up to `summed` in the window; `None` where nothing asks for it.
    sum: Option<Crc64>,
    summed: usize,
    long: Vec<u8>,
    unpacked: Vec<u8>,
    digits: Vec<u8>,
    string_bytes_max: u64,
}

impl<R: Read> Input<R> {
    /// A dump from its first byte on.
    pub(crate) fn of_file(source: R, limits: Limits) -> Self {
        Self::new(source, WINDOW_BYTES, Some(Crc64::new()), limits.string_bytes_max)
    }

    fn new(source: R, window_bytes: usize, sum: Option<Crc64>, string_bytes_max: u64) -> Self {
        Self {
            source,
            window: vec![0; window_bytes].into_boxed_slice(),
            start: 0,
            end: 0,
            window_offset: 0,
            sum,
            summed: 0,
            long: Vec::new(),
            unpacked: Vec::new(),
            digits: Vec::new(),
            string_bytes_max,
        }
    }

    /// The next byte's place, in bytes from the beginning of the dump.
    pub(crate) fn offset(&self) -> u64 {
        self.window_offset + self.start as u64
    }

    /// The error that what was just read is.
    pub(crate) fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { offset: self.offset(), what }
    }

    /// The sum of all bytes that were read.
    pub(crate) fn sum(&mut self) -> Option<u64> {
        self.add_up();
        self.sum.as_ref().map(Crc64::sum)
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, Error> {
        Ok(self.start == self.end && self.read_more(0)? == 0)
    }

    /// What was fetched from the source and not read, and the source.
    pub(crate) fn into_rest(self) -> (Vec<u8>, R) {
        (self.window[self.start..self.end].to_vec(), self.source)
    }

    /// The bytes of a string.
    pub(crate) fn bytes(&self, text: Text) -> &[u8] {
        match text {
            Text::Window { start, end } => &self.window[start..end],
            Text::Long => &self.long,
            Text::Unpacked => &self.unpacked,
            Text::Digits => &self.digits,
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        const { assert!(N <= WINDOW_BYTES_MIN) };
        let mut array = [0; N];
        let place = self.take(N)?;
        array.copy_from_slice(&self.window[place]);
        Ok(array)
    }

    pub(crate) fn length(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        self.length_after(first)
    }

    fn length_after(&mut self, first: u8) -> Result<u64, Error> {
        match first {
            0x00..=0x3f => Ok(first.into()),
            0x40..=0x7f => Ok(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            length::BITS_32 => Ok(u32::from_be_bytes(self.array()?).into()),
            length::BITS_64 => Ok(u64::from_be_bytes(self.array()?)),
            _ => Err(self.corrupt("a length has a first byte that no length has")),
        }
    }

    pub(crate) fn string(&mut self) -> Result<Text, Error> {
        let number = match self.byte()? {
            length::INT8 => i8::from_le_bytes(self.array()?).into(),
            length::INT16 => i16::from_le_bytes(self.array()?).into(),
            length::INT32 => i32::from_le_bytes(self.array()?),
            length::LZF => return self.packed_string(),
            first => {
                let bytes = self.length_after(first)?;
                return self.plain_string(bytes);
            }
        };
        self.digits.clear();
        self.digits.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(Text::Digits)
    }

    fn plain_string(&mut self, bytes: u64) -> Result<Text, Error> {
        match self.checked(bytes)? {
            bytes if bytes <= self.window.len() => {
                let Range { start, end } = self.take(bytes)?;
                Ok(Text::Window { start, end })
            }
            bytes => {
                self.take_long(bytes)?;
                Ok(Text::Long)
            }
        }
    }

    fn packed_string(&mut self) -> Result<Text, Error> {
        let (packed, bytes) = (self.length()?, self.length()?);
        let bytes = self.checked(bytes)?;
        let packed = self.plain_string(packed)?;
        let packed = match packed {
            Text::Window { start, end } => &self.window[start..end],
            _ => &self.long,
        };
        clear(&mut self.unpacked);
        if !lzf::decompress(packed, bytes, &mut self.unpacked) {
            return Err(self.corrupt("a compressed string does not unfold to its length"));
        }
        Ok(Text::Unpacked)
    }

    /// Reads a number that is written as so many bytes of text; `None` if it is none.
    pub(crate) fn text_number(&mut self, bytes: u8) -> Result<Option<f64>, Error> {
        let place = self.take(bytes.into())?;
        Ok(std::str::from_utf8(&self.window[place]).ok().and_then(|text| text.parse().ok()))
    }

    /// Passes over a string, which is held nowhere.
    pub(crate) fn skip_string(&mut self) -> Result<(), Error> {
        let bytes = match self.byte()? {
            length::INT8 => 1,
            length::INT16 => 2,
            length::INT32 => 4,
            length::LZF => {
                let packed = self.length()?;
                self.length()?;
                packed
            }
            first => self.length_after(first)?,
        };
        self.skip(bytes)
    }

    pub(crate) fn skip(&mut self, mut bytes: u64) -> Result<(), Error> {
        while bytes > 0 {
            if self.start == self.end {
                self.fill(1)?;
            }
            let here = self.end - self.start;
            let step = usize::try_from(bytes).map_or(here, |bytes| bytes.min(here));
            self.start += step;
            bytes -= step as u64;
        }
        Ok(())
    }

    fn checked(&self, bytes: u64) -> Result<usize, Error> {
        let bytes_max = self.string_bytes_max;
        let fits = usize::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        fits.ok_or(Error::TooLong { offset: self.offset(), bytes, bytes_max })
    }

    /// How many bytes a dump may make this program hold for one string.
    pub(crate) fn string_bytes_max(&self) -> u64 {
        self.string_bytes_max
    }

    /// Passes over bytes that fit into the window, and says where they are.
    fn take(&mut self, bytes: usize) -> Result<Range<usize>, Error> {
        if self.end - self.start < bytes {
            self.fill(bytes)?;
        }
        let start = self.start;
        self.start += bytes;
        Ok(start..self.start)
    }

    /// Fetches until the window has so many bytes to read, which it has room for.
    #[cold]
    fn fill(&mut self, bytes: usize) -> Result<(), Error> {
        self.add_up();
        self.window.copy_within(self.start..self.end, 0);
        self.window_offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        self.summed = 0;
        while self.end < bytes {
            if self.read_more(self.end)? == 0 {
                let offset = self.window_offset + self.end as u64;
                return Err(Error::Corrupt { offset, what: CUT_SHORT });
            }
        }
        Ok(())
    }

    /// Fetches once, to behind `end`, which is where the window ends or, if all was read, its beginning.
    fn read_more(&mut self, end: usize) -> Result<usize, Error> {
        if end == 0 {
            self.add_up();
            self.window_offset += self.start as u64;
            (self.start, self.end, self.summed) = (0, 0, 0);
        }
        loop {
            match self.source.read(&mut self.window[end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io(error)),
                Ok(fetched) => {
                    self.end += fetched;
                    return Ok(fetched);
                }
            }
        }
    }

    /// Reads a string that is longer than the window.
    fn take_long(&mut self, bytes: usize) -> Result<(), Error> {
        self.add_up();
        clear(&mut self.long);
        self.long.extend_from_slice(&self.window[self.start..self.end]);
        self.window_offset += self.end as u64;
        (self.start, self.end, self.summed) = (0, 0, 0);
        while self.long.len() < bytes {
            let step = (bytes - self.long.len()).min(self.long.len().max(self.window.len()));
            self.long.reserve(step);
            let fetched = (&mut self.source).take(step as u64).read_to_end(&mut self.long)?;
            self.window_offset += fetched as u64;
            if fetched < step {
                return Err(self.corrupt(CUT_SHORT));
            }
        }
        if let Some(sum) = &mut self.sum {
            sum.update(&self.long);
        }
        Ok(())
    }

    /// Sums what was read since the last time.
    fn add_up(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.update(&self.window[self.summed..self.start]);
        }
        self.summed = self.start;
    }
}

impl<'a> Input<&'a [u8]> {
    /// The body of a payload, which has its own checksum and is in memory as a whole.
    pub(crate) fn of_payload(body: &'a [u8], limits: Limits) -> Self {
        let window_bytes = body.len().clamp(WINDOW_BYTES_MIN, WINDOW_BYTES);
        Self::new(body, window_bytes, None, limits.string_bytes_max)
    }
}

/// Empties a scratch buffer, and gives back what a string of unusual length has left.
pub(crate) fn clear(scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.shrink_to(KEPT_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { string_bytes_max: 1 << 30 };

    /// A source that gives a few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let bytes = self.0.len().min(self.1).min(out.len());
            let (now, later) = self.0.split_at(bytes);
            out[..bytes].copy_from_slice(now);
            self.0 = later;
            Ok(bytes)
        }
    }

    #[test]
    fn strings_longer_than_the_window_are_read_and_summed() {
        let long: Vec<u8> = (0..=250).cycle().take(3 * WINDOW_BYTES + 17).collect();
        let head = [&[0x02][..], b"ab", &[length::BITS_32]].concat();
        let dump = [&head[..], &u32::try_from(long.len()).unwrap().to_be_bytes(), &long, b"\x01c"]
            .concat();
        for piece_bytes in [1000, usize::MAX] {
            let mut input = Input::of_file(Slowly(&dump, piece_bytes), LIMITS);
            let short = input.string().unwrap();
            assert_eq!(input.bytes(short), b"ab");
            let read = input.string().unwrap();
            assert_eq!(input.bytes(read), long);
            assert_eq!(input.offset(), dump.len() as u64 - 2);
            let last = input.string().unwrap();
            assert_eq!(input.bytes(last), b"c");
            assert!(input.is_at_end().unwrap());
            assert_eq!(input.sum(), Some(crate::crc64::crc64(&dump)));
        }
    }

    #[test]
    fn a_length_that_lies_reserves_nothing() {
        let dump = [&[length::BITS_64][..], &(1_u64 << 29).to_be_bytes(), &[7; 1000]].concat();
        let mut input = Input::of_file(&dump[..], LIMITS);
        let error = input.string().unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { offset, .. } if offset == dump.len() as u64),
            "{error}"
        );
        assert!(input.long.capacity() <= 4 * WINDOW_BYTES, "{}", input.long.capacity());
        let mut input = Input::of_file(&dump[..], Limits { string_bytes_max: 1 << 20 });
        assert!(matches!(
            input.string(),
            Err(Error::TooLong { offset: 9, bytes: 0x2000_0000, .. })
        ));
    }

    #[test]
    fn what_is_skipped_is_summed_and_counted() {
        let dump = [&[0x41, 0x00][..], &[9; 256], b"\xc1\x01\x02\x05"].concat();
        let mut input = Input::of_file(Slowly(&dump, 100), LIMITS);
        input.skip_string().unwrap();
        input.skip_string().unwrap();
        assert_eq!(input.byte().unwrap(), 5);
        assert_eq!(input.sum(), Some(crate::crc64::crc64(&dump)));
        assert!(input.is_at_end().unwrap());
        assert!(input.skip(1).is_err());
    }
}
