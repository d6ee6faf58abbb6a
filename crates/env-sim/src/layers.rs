//! A storage device with three layers, each of which can damage what passes through it (paper 001,
//! Figure 4.4).
//!
//! ```text
//!   write ──► host memory ──sync──► device cache ──when full, the oldest──► flash
//!                │ ①                    │ ②                                  │ ③
//!   read ◄───────┘ buffered   direct ◄──┴──────── else ◄─────────────────────┘ else zeros
//! ```
//!
//! The unit is a page of 4 KiB. A page is written into host memory and stays there, even after a
//! sync, until it is dropped. A sync moves dirty pages to the device's cache. The cache moves its
//! oldest page to flash when it has no room for a new one: nothing else makes it do so, neither a
//! sync nor a read. A buffered read takes the page from host memory, which is filled from the
//! device if needed; a direct read bypasses host memory.
//!
//! # Faults
//! A [`Fault`] says which of the pages that enter a layer, counted from 0 for each layer, are
//! damaged there, and how: a bit flipped, the write dropped, the write stored over another page of
//! the file, or only half of it done (shorn). The layers above keep the undamaged data, which is
//! why a reader of them notices nothing.
//!
//! Not modelled: crashes (see [`crate::SimDisk`]), and reads that fill the device's cache.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::File;

use crate::cells::{Cells, PAGE_BYTES, Page, Place};

const PAGE: u64 = PAGE_BYTES as u64;

/// A layer that holds pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The page cache of the host.
    HostMemory,
    /// The memory in the device.
    DeviceCache,
    /// The permanent storage of the device.
    Flash,
}

/// The damage to a page that enters a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Flips its lowest bit.
    FlippedBit,
    /// Drops it.
    Dropped,
    /// Stores it at the place of the previous page (or of the next one, if it is the first).
    Misdirected,
    /// Stores only its first half.
    Shorn,
}

/// Damage to some of the pages that enter a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The layer that the pages enter.
    pub layer: Layer,
    /// The kind of damage.
    pub damage: Damage,
    /// The pages that are damaged, counted from 0 as they enter that layer.
    pub pages: Range<u64>,
}

#[derive(Default)]
struct State {
    cache_pages_max: usize,
    lengths: BTreeMap<u64, u64>,
    host: HashMap<Place, (Page, bool)>,
    cache: HashMap<Place, Page>,
    /// The pages in the cache, oldest first.
    cache_order: VecDeque<Place>,
    flash: Cells,
    faults: Vec<Fault>,
    entered: BTreeMap<Layer, u64>,
    damaged: u64,
    written: u64,
    read_from: BTreeMap<Layer, u64>,
}

/// A device. A clone is another handle on the same one.
#[derive(Clone)]
pub struct LayeredDevice {
    state: Arc<Mutex<State>>,
}

impl LayeredDevice {
    /// Creates a device whose cache holds `cache_bytes` bytes, with faults.
    #[must_use]
    pub fn new(cache_bytes: u64, faults: Vec<Fault>) -> Self {
        Self::with_flash(cache_bytes, faults, Cells::default())
    }

    /// As [`LayeredDevice::new`], with its flash in an empty file instead of in memory.
    #[must_use]
    pub fn backed_by(cache_bytes: u64, faults: Vec<Fault>, flash: Box<dyn File>) -> Self {
        Self::with_flash(cache_bytes, faults, Cells::in_file(flash))
    }

    fn with_flash(cache_bytes: u64, faults: Vec<Fault>, flash: Cells) -> Self {
        let cache_pages_max = usize::try_from(cache_bytes / PAGE).unwrap_or(usize::MAX).max(1);
        let state = State { cache_pages_max, faults, flash, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file by its number, creating an empty one if needed. Reads through a `direct` handle
    /// bypass host memory.
    #[must_use]
    pub fn open(&self, file: u64, direct: bool) -> Box<dyn File> {
        self.state().lengths.entry(file).or_insert(0);
        Box::new(LayeredFile { device: self.clone(), file, direct })
    }

    /// Truncates a file to nothing, in every layer.
    pub fn truncate(&self, file: u64) {
        let mut state = self.state();
        state.lengths.insert(file, 0);
        state.host.retain(|place, _| place.0 != file);
        state.cache.retain(|place, _| place.0 != file);
        state.flash.forget(file);
        state.cache_order.retain(|place| place.0 != file);
    }

    /// Syncs all files at one moment. Later writes come after it, so pages reach the device in the
    /// order of the files if they were written in that order.
    pub fn sync_all(&self) {
        let mut state = self.state();
        let mut dirty: Vec<Place> =
            state.host.iter().filter(|(_, (_, dirty))| *dirty).map(|(&place, _)| place).collect();
        dirty.sort_unstable();
        dirty.into_iter().for_each(|place| state.sync(place));
    }

    /// Returns the contents of a file after all layers have passed on what they hold: what is read
    /// in a year.
    #[must_use]
    pub fn contents_in_the_end(&self, file: u64) -> Vec<u8> {
        let mut state = self.state();
        let dirty: Vec<Place> = state.dirty_of(file);
        dirty.into_iter().for_each(|place| state.sync(place));
        while let Some(place) = state.cache_order.pop_front() {
            state.evict(place);
        }
        let length = usize::try_from(state.lengths.get(&file).copied().unwrap_or(0)).expect("fits");
        let mut contents = Vec::with_capacity(length);
        for page in 0..(length.div_ceil(PAGE_BYTES) as u64) {
            contents.extend(state.flash.read((file, page)).unwrap_or([0; PAGE_BYTES]));
        }
        contents.truncate(length);
        contents
    }

    /// The number of damaged pages.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        self.state().damaged
    }

    /// The number of bytes written to the device so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.state().written
    }

    /// The number of pages read from a layer.
    #[must_use]
    pub fn pages_read_from(&self, layer: Layer) -> u64 {
        self.state().read_from.get(&layer).copied().unwrap_or(0)
    }
}

impl State {
    fn dirty_of(&self, file: u64) -> Vec<Place> {
        let mut dirty: Vec<Place> = self
            .host
            .iter()
            .filter(|(place, (_, dirty))| place.0 == file && *dirty)
            .map(|(&place, _)| place)
            .collect();
        dirty.sort_unstable();
        dirty
    }

    /// Returns the damage to the next page that enters a layer.
    fn damage(&mut self, layer: Layer) -> Option<Damage> {
        let count = self.entered.entry(layer).or_insert(0);
        let this = *count;
        *count += 1;
        let fault = self.faults.iter().find(|f| f.layer == layer && f.pages.contains(&this));
        let damage = fault.map(|fault| fault.damage);
        self.damaged += u64::from(damage.is_some());
        damage
    }

    /// Returns the place and contents of a page after entering a layer; `None` if it is dropped.
    fn enter(&mut self, layer: Layer, place: Place, mut page: Page) -> Option<(Place, Page)> {
        match self.damage(layer) {
            None => Some((place, page)),
            Some(Damage::FlippedBit) => {
                page[0] ^= 1;
                Some((place, page))
            }
            Some(Damage::Dropped) => None,
            Some(Damage::Misdirected) => {
                let wrong = if place.1 == 0 { 1 } else { place.1 - 1 };
                Some(((place.0, wrong), page))
            }
            Some(Damage::Shorn) => {
                let before = self.below(layer, place);
                page[PAGE_BYTES / 2..].copy_from_slice(&before[PAGE_BYTES / 2..]);
                Some((place, page))
            }
        }
    }

    /// Returns the contents of a place in a layer or below it.
    fn below(&self, layer: Layer, place: Place) -> Page {
        let in_host = self.host.get(&place).map(|(page, _)| page);
        let in_cache = self.cache.get(&place);
        let found = match layer {
            Layer::HostMemory => in_host.or(in_cache),
            Layer::DeviceCache => in_cache,
            Layer::Flash => None,
        };
        found.copied().or_else(|| self.flash.read(place)).unwrap_or([0; PAGE_BYTES])
    }

    fn write(&mut self, place: Place, at: usize, bytes: &[u8]) {
        let mut page = self.below(Layer::HostMemory, place);
        page[at..at + bytes.len()].copy_from_slice(bytes);
        if let Some((place, page)) = self.enter(Layer::HostMemory, place, page) {
            self.host.insert(place, (page, true));
        }
    }

    fn sync(&mut self, place: Place) {
        let (page, dirty) = self.host.get_mut(&place).expect("a dirty page is in host memory");
        *dirty = false;
        let page = *page;
        self.written += PAGE;
        let Some((place, page)) = self.enter(Layer::DeviceCache, place, page) else { return };
        if self.cache.insert(place, page).is_some() {
            self.cache_order.retain(|&other| other != place);
        }
        self.cache_order.push_back(place);
        while self.cache_order.len() > self.cache_pages_max {
            let oldest = self.cache_order.pop_front().expect("there are more than the maximum");
            self.evict(oldest);
        }
    }

    fn evict(&mut self, place: Place) {
        let page = self.cache.remove(&place).expect("the order names what the cache holds");
        if let Some((place, page)) = self.enter(Layer::Flash, place, page) {
            self.flash.program(place, &page);
        }
    }

    fn read_page(&mut self, place: Place, direct: bool) -> Page {
        let layer = if !direct && self.host.contains_key(&place) {
            Layer::HostMemory
        } else if self.cache.contains_key(&place) {
            Layer::DeviceCache
        } else {
            Layer::Flash
        };
        *self.read_from.entry(layer).or_insert(0) += 1;
        let page = self.below(layer, place);
        if !direct && layer != Layer::HostMemory {
            self.host.insert(place, (page, false));
        }
        page
    }
}

/// An open file of a device.
struct LayeredFile {
    device: LayeredDevice,
    file: u64,
    direct: bool,
}

/// The pages that a range touches, wholly or partly.
fn pages(offset: u64, len: u64) -> Range<u64> {
    offset / PAGE..(offset + len).div_ceil(PAGE)
}

impl File for LayeredFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.direct && !(offset.is_multiple_of(PAGE) && buf.len().is_multiple_of(PAGE_BYTES)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.device.state();
        let length = state.lengths[&self.file];
        let wanted = (buf.len() as u64).min(length.saturating_sub(offset));
        let mut done = 0;
        for page in pages(offset, wanted) {
            let bytes = state.read_page((self.file, page), self.direct);
            let from = usize::try_from((offset + done as u64) % PAGE).expect("fits");
            let left = usize::try_from(wanted).expect("at most the buffer") - done;
            let count = left.min(PAGE_BYTES - from);
            buf[done..done + count].copy_from_slice(&bytes[from..from + count]);
            done += count;
        }
        Ok(done)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.device.state();
        let mut done = 0;
        for page in pages(offset, bytes.len() as u64) {
            let from = usize::try_from((offset + done as u64) % PAGE).expect("fits");
            let count = (bytes.len() - done).min(PAGE_BYTES - from);
            state.write((self.file, page), from, &bytes[done..done + count]);
            done += count;
        }
        let end = offset + bytes.len() as u64;
        let length = state.lengths.get_mut(&self.file).expect("an open file has a length");
        *length = end.max(*length);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.device.state();
        for place in state.dirty_of(self.file) {
            state.sync(place);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.device.state().lengths[&self.file])
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.device.state();
        let kept = pages(0, len);
        state.host.retain(|place, _| place.0 != self.file || kept.contains(&place.1));
        state.lengths.insert(self.file, len);
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn drop_cache(&self, offset: u64, len: u64) {
        let range = pages(offset, len);
        self.device.state().host.retain(|place, (_, dirty)| {
            place.0 != self.file || *dirty || !range.contains(&place.1)
        });
    }

    fn cached_bytes(&self, offset: u64, len: u64) -> Option<u64> {
        let state = self.device.state();
        let cached = pages(offset, len).filter(|&page| state.host.contains_key(&(self.file, page)));
        Some(cached.count() as u64 * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(layer: Layer, damage: Damage) -> Vec<Fault> {
        vec![Fault { layer, damage, pages: 0..1 }]
    }

    /// What a buffered read, a direct read, and a direct read after displacement return for a page
    /// of ones.
    fn seen(faults: Vec<Fault>) -> [u8; 3] {
        let device = LayeredDevice::new(2 * PAGE, faults);
        let file = device.open(1, false);
        file.write_all_at(&[1; PAGE_BYTES], 0).unwrap();
        file.sync_data().unwrap();
        let mut page = [9; PAGE_BYTES];
        let mut read = |direct| {
            assert_eq!(device.open(1, direct).read_at(&mut page, 0).unwrap(), PAGE_BYTES);
            page[0]
        };
        let (buffered, direct) = (read(false), read(true));
        let other = device.open(2, false);
        other.write_all_at(&[2; 2 * PAGE_BYTES], 0).unwrap();
        other.sync_data().unwrap();
        [buffered, direct, read(true)]
    }

    #[test]
    fn damage_is_seen_from_its_layer_downwards() {
        assert_eq!(seen(vec![]), [1, 1, 1]);
        assert_eq!(seen(fault(Layer::HostMemory, Damage::FlippedBit)), [0, 0, 0]);
        assert_eq!(seen(fault(Layer::DeviceCache, Damage::FlippedBit)), [1, 0, 0]);
        assert_eq!(seen(fault(Layer::Flash, Damage::FlippedBit)), [1, 1, 0]);
        assert_eq!(seen(fault(Layer::Flash, Damage::Dropped)), [1, 1, 0]);
        assert_eq!(seen(fault(Layer::DeviceCache, Damage::Misdirected)), [1, 0, 0]);
    }

    #[test]
    fn a_shorn_write_leaves_half_of_what_was_there() {
        let device = LayeredDevice::new(PAGE, fault(Layer::Flash, Damage::Shorn));
        let file = device.open(1, false);
        file.write_all_at(&[7; PAGE_BYTES], 0).unwrap();
        let contents = device.contents_in_the_end(1);
        assert_eq!((contents[0], contents[PAGE_BYTES - 1]), (7, 0));
        assert_eq!(device.damaged_pages(), 1);
    }

    #[test]
    fn host_memory_answers_until_it_is_dropped_and_dirty_pages_are_not() {
        let device = LayeredDevice::new(8 * PAGE, vec![]);
        let file = device.open(1, false);
        file.write_all_at(&[3; 5000], 10).unwrap();
        file.drop_cache(0, PAGE);
        assert_eq!(file.cached_bytes(0, 3 * PAGE), Some(2 * PAGE));
        file.sync_data().unwrap();
        file.drop_cache(0, PAGE);
        assert_eq!(file.cached_bytes(0, 3 * PAGE), Some(PAGE));
        let mut bytes = [0; 6000];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5010);
        assert_eq!((bytes[9], bytes[10], bytes[5009]), (0, 3, 3));
        assert_eq!(device.pages_read_from(Layer::DeviceCache), 1);
    }

    #[test]
    fn all_files_are_synced_in_their_order() {
        let damaged =
            vec![Fault { layer: Layer::DeviceCache, damage: Damage::FlippedBit, pages: 1..2 }];
        let device = LayeredDevice::new(8 * PAGE, damaged);
        for file in [2, 1] {
            device.open(file, false).write_all_at(&[4; PAGE_BYTES], 0).unwrap();
        }
        device.sync_all();
        assert_eq!(device.written_bytes(), 2 * PAGE);
        let first = |file| device.contents_in_the_end(file)[0];
        assert_eq!((first(1), first(2)), (4, 5));
    }

    #[test]
    fn direct_reads_are_aligned_or_refused() {
        let device = LayeredDevice::new(PAGE, vec![]);
        assert!(device.open(1, true).read_at(&mut [0; 100], 0).is_err());
    }
}
