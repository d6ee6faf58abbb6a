//! The data verifiers (4.3.2): threads that read ranges back and compare the checksums of their
//! pages with the sender's.
//!
//! Ranges of one file go to all threads. Each thread reads past the host's cache (unless the scheme
//! does not) and computes all checksums before comparing them in one comparison of memory, as the
//! paper does. Only if they differ are the pages compared one by one.
//!
//! An unreadable page is treated as a wrong one: writing it again may put it elsewhere.

use std::io;
use std::time::Instant;

use base::checksum::crc32c;
use env::File;

use crate::concurrency_controller::{Checksums, Range};
use crate::frame::{PAGE_BYTES, PAGES_PER_FRAME};
use crate::memory_manager::Buffer;
use crate::message::Message;
use crate::receiver::Receiving;

/// A verifier.
pub(crate) struct DataVerifier<'a> {
    receiving: &'a Receiving<'a>,
    buffer: Buffer,
    /// The file verified last; the next range is often of the same file.
    open: Option<(u32, Box<dyn File>)>,
}

/// A page that differs from what was sent.
struct BadPage {
    page: u64,
    expected: u32,
    /// Its checksum, or why it cannot be read.
    found: Result<u32, String>,
}

impl<'a> DataVerifier<'a> {
    /// Creates a verifier, which keeps `buffer` for its lifetime.
    pub(crate) fn new(receiving: &'a Receiving<'a>, buffer: Buffer) -> Self {
        Self { receiving, buffer, open: None }
    }

    /// Verifies what the controller allows, until it reports the end.
    pub(crate) fn run(mut self) {
        let mut done = 0;
        loop {
            let ranges = self.receiving.controller.next(done);
            if ranges.is_empty() {
                return;
            }
            let started = Instant::now();
            for range in &ranges {
                if self.receiving.incoming.is_open(range.entry) {
                    self.verify(range);
                }
            }
            self.receiving.totals.verification(started.elapsed());
            done = ranges.len();
        }
    }

    fn verify(&mut self, range: &Range) {
        let receiving = self.receiving;
        let entry = &receiving.entries[range.entry as usize];
        let mut page = range.first_page;
        let end = range.first_page + range.pages;
        let mut good = 0;
        let mut bad = Vec::new();
        while page < end {
            let pages = (end - page).min(PAGES_PER_FRAME as u64);
            let bytes = entry.bytes_of_pages(page, pages);
            let skipped = usize::try_from(page - range.first_page).expect("as many as checksums");
            let count = usize::try_from(pages).expect("at most a frame's");
            let expected = match &range.checksums {
                Checksums::Pages(checksums) => checksums[skipped..skipped + count].to_vec(),
                Checksums::Hole => checksums_of_zeros(bytes),
            };
            let found = self.read(range.entry, page * PAGE_BYTES as u64, bytes);
            let bad_before = bad.len();
            match found {
                Ok(found) if found == expected => {}
                Ok(found) => bad.extend(differences(page, &expected, &found)),
                Err(error) => {
                    bad.extend((page..).zip(expected).map(|(page, expected)| BadPage {
                        page,
                        expected,
                        found: Err(error.to_string()),
                    }));
                }
            }
            let bad_here = (bad.len() - bad_before) as u64;
            if bad_here == 0 {
                receiving.progress.verified(bytes);
                receiving.totals.verified(bytes);
            } else {
                let good_bytes = bytes.saturating_sub(bad_here * PAGE_BYTES as u64);
                receiving.progress.verified(good_bytes);
                receiving.totals.verified(good_bytes);
            }
            good += pages - bad_here;
            page += pages;
        }
        if !bad.is_empty() {
            // The handle itself may be what is bad.
            self.open = None;
            self.complain(range.entry, &bad);
        }
        if receiving.incoming.good(range.entry, good) {
            self.open = None;
            receiving.show(range.entry);
        }
    }

    /// Reads a range and computes the checksums of its pages.
    fn read(&mut self, entry: u32, offset: u64, bytes: u64) -> io::Result<Vec<u32>> {
        let receiving = self.receiving;
        if self.open.as_ref().is_none_or(|(open, _)| *open != entry) {
            let direct = receiving.scheme.reads_the_medium();
            self.open = Some((entry, receiving.destination.open_staged(entry, direct)?));
        }
        let file = &*self.open.as_ref().expect("it was opened").1;
        if receiving.scheme.reads_the_medium() {
            receiving.memory.invalidate(file, offset, bytes);
        }
        read_pages(file, &mut self.buffer, offset, bytes)
    }

    /// Requests bad pages again, or gives the file up.
    fn complain(&self, entry: u32, bad: &[BadPage]) {
        let receiving = self.receiving;
        let mut resend: Option<(u64, u64)> = None;
        for page in bad {
            if !receiving.incoming.bad(entry, page.page, receiving.resends_max) {
                let found = match &page.found {
                    Ok(found) => format!("reads back as 0x{found:08x}"),
                    Err(error) => format!("cannot be read back ({error})"),
                };
                let why = format!(
                    "page {} (bytes {} and following) was sent with CRC32C 0x{:08x} and {found}, \
                     after it was sent again {} times",
                    page.page,
                    page.page * PAGE_BYTES as u64,
                    page.expected,
                    receiving.resends_max,
                );
                receiving.fail(entry, &why);
                return;
            }
            resend = match resend {
                Some((first, count)) if first + count == page.page => Some((first, count + 1)),
                Some(run) => {
                    receiving.ask_again(entry, run);
                    Some((page.page, 1))
                }
                None => Some((page.page, 1)),
            };
        }
        if let Some(run) = resend {
            receiving.ask_again(entry, run);
        }
    }
}

impl Receiving<'_> {
    /// Requests pages of a file from the sender again.
    pub(crate) fn ask_again(&self, entry: u32, (first_page, pages): (u64, u64)) {
        let asked = self.writer.send(&Message::Resend { entry, first_page, pages });
        if let Err(error) = asked {
            self.abort(error);
        }
    }
}

fn checksums_of_zeros(bytes: u64) -> Vec<u32> {
    let zeros = [0; PAGE_BYTES];
    let whole = crc32c(&zeros);
    let pages = usize::try_from(bytes.div_ceil(PAGE_BYTES as u64)).expect("at most a frame's");
    let mut checksums = vec![whole; pages];
    let rest = usize::try_from(bytes % PAGE_BYTES as u64).expect("less than a page");
    if rest > 0 {
        checksums[pages - 1] = crc32c(&zeros[..rest]);
    }
    checksums
}

fn differences<'a>(
    first_page: u64,
    expected: &'a [u32],
    found: &'a [u32],
) -> impl Iterator<Item = BadPage> + 'a {
    (first_page..)
        .zip(expected.iter().zip(found))
        .filter(|(_, (expected, found))| expected != found)
        .map(|(page, (&expected, &found))| BadPage { page, expected, found: Ok(found) })
}

/// Reads at most a frame's pages of a file and returns their checksums. Offsets are page-aligned,
/// so that the file can be one that is read past the host's cache.
pub(crate) fn read_pages(
    file: &dyn File,
    buffer: &mut Buffer,
    offset: u64,
    bytes: u64,
) -> io::Result<Vec<u32>> {
    let wanted = usize::try_from(bytes).expect("at most a frame's pages");
    let memory = buffer.resize(wanted.next_multiple_of(PAGE_BYTES));
    let mut got = 0;
    while got < wanted {
        let read = file.read_at(&mut memory[got..], offset + got as u64)?;
        got += read;
        if read == 0 || (got < wanted && got % PAGE_BYTES != 0) {
            return Err(io::Error::other("the file is shorter than the data written to it"));
        }
    }
    Ok(memory[..wanted].chunks(PAGE_BYTES).map(crc32c).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_have_the_checksums_of_zeros() {
        assert_eq!(checksums_of_zeros(4097), vec![crc32c(&[0; 4096]), crc32c(&[0])]);
        assert_eq!(checksums_of_zeros(8192).len(), 2);
    }
}
