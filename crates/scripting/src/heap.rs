//! The memory of a Lua state: counted, and limited.
//!
//! Lua raises an error when memory is refused, by a jump over all frames up to the protected call.
//! That is right within Lua and forbidden over Rust. So the heap refuses only while Lua itself
//! runs: [`Heap::enter`] says that Rust does, and then memory past the limit is given; functions in
//! Rust ask for [`Heap::room`] themselves.
//!
//! It also has the meter of the run, which what Lua allocates feeds: [`crate::meter`].
//!
//! `unsafe`: the allocator is a C function with raw pointers, and the registered pointer to the
//! heap is shared with Lua. A `Heap` lives in a `Box` for as long as its state does.

#![expect(unsafe_code, reason = "an allocator that C calls; see the essay above")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use mlua_sys::{LUA_MASKCOUNT, lua_State, lua_getallocf, lua_sethook};

use crate::entry;
use crate::machine::Run;
use crate::meter::Meter;

/// As malloc aligns, on all targets.
const ALIGNMENT: usize = 16;

/// What a Lua state shares with the functions that it calls: its memory and its current run.
#[derive(Debug)]
pub(crate) struct Heap {
    used_bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    /// Rust code is running: nothing may be refused.
    in_rust: Cell<bool>,
    /// Something was refused.
    has_refused: Cell<bool>,
    /// What runs, while something does.
    run: Cell<Option<NonNull<Run<'static>>>>,
    /// What it has done since its host was asked.
    meter: Meter,
    /// The thread of Lua that executes instructions; null while none does.
    thread: Cell<*mut lua_State>,
}

impl Heap {
    pub(crate) fn new(max_bytes: usize) -> Box<Self> {
        Box::new(Self {
            used_bytes: Cell::new(0),
            max_bytes: Cell::new(max_bytes),
            in_rust: Cell::new(true),
            has_refused: Cell::new(false),
            run: Cell::new(None),
            meter: Meter::default(),
            thread: Cell::new(ptr::null_mut()),
        })
    }

    /// The bytes that Lua has.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    /// The bytes that may still be allocated.
    pub(crate) fn room(&self) -> usize {
        self.max_bytes.get().saturating_sub(self.used_bytes.get())
    }

    /// The bytes that may be allocated in all.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes.get()
    }

    /// Changes how many bytes may be allocated in all.
    pub(crate) fn set_max_bytes(&self, bytes: usize) {
        self.max_bytes.set(bytes);
    }

    /// What the run has done since its host was asked.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sets which thread of Lua executes instructions, which must live until another one does.
    pub(crate) fn set_thread(&self, thread: *mut lua_State) {
        self.thread.set(thread);
    }

    /// Counts work.
    pub(crate) fn count(&self, work: usize) {
        if self.meter.add_uncounted(work) {
            self.ask_soon();
        }
    }

    /// Counts a new coroutine.
    pub(crate) fn count_coroutine(&self) {
        if self.meter.add_coroutine(self.used_bytes()) {
            self.ask_soon();
        }
    }

    /// Counts the reading of a text.
    pub(crate) fn count_read(&self, bytes: usize) {
        if self.meter.add_read(bytes) {
            self.ask_soon();
        }
    }

    /// Counts a search for garbage in all that there is.
    pub(crate) fn count_collection(&self) {
        if self.meter.add_allocated(self.used_bytes()) {
            self.ask_soon();
        }
    }

    /// Has the host asked at the next instruction, if it is to be asked.
    pub(crate) fn ask_soon_if_due(&self) {
        if self.meter.is_due() {
            self.ask_soon();
        }
    }

    /// Has the host asked at the next instruction.
    #[cold]
    fn ask_soon(&self) {
        let thread = self.thread.get();
        if !thread.is_null() {
            // SAFETY: the thread is alive, and hooks may be set at any time, also while it executes an instruction.
            unsafe { lua_sethook(thread, Some(entry::hook), LUA_MASKCOUNT, 1) };
        }
    }

    /// A function in Rust has found no room.
    pub(crate) fn note_refused(&self) {
        self.has_refused.set(true);
    }

    /// Whether memory was refused since this was asked.
    pub(crate) fn take_refused(&self) -> bool {
        self.has_refused.take()
    }

    /// Nothing is refused until the result is dropped.
    pub(crate) fn enter(&self) -> Within<'_> {
        Within { heap: self, before: self.in_rust.replace(true) }
    }

    /// Memory past the limit is refused until the result is dropped: Lua runs.
    pub(crate) fn leave(&self) -> Within<'_> {
        Within { heap: self, before: self.in_rust.replace(false) }
    }

    /// Sets what runs, and returns what ran before.
    pub(crate) fn set_run(
        &self,
        run: Option<NonNull<Run<'static>>>,
    ) -> Option<NonNull<Run<'static>>> {
        self.run.replace(run)
    }

    /// What runs.
    pub(crate) fn run(&self) -> Option<NonNull<Run<'static>>> {
        self.run.get()
    }

    /// The heap of a state.
    ///
    /// # Safety
    /// `state` was created with [`allocate`] and a heap that lives for `'a`.
    pub(crate) unsafe fn of<'a>(state: *mut lua_State) -> &'a Self {
        let mut heap: *mut c_void = ptr::null_mut();
        // SAFETY: the state is valid, and its second word of allocation is a heap, as the caller
        // promises.
        unsafe {
            lua_getallocf(state, &raw mut heap);
            &*heap.cast::<Self>()
        }
    }
}

/// A change of what the heap does, which ends with this value.
#[derive(Debug)]
pub(crate) struct Within<'h> {
    heap: &'h Heap,
    before: bool,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.heap.in_rust.set(self.before);
    }
}

/// Lua's allocator: `before` bytes at `block` become `after` bytes.
///
/// # Safety
/// `heap` is a [`Heap`]; `block` is null, or was returned by this function for `before` bytes.
pub(crate) unsafe extern "C" fn allocate(
    heap: *mut c_void,
    block: *mut c_void,
    before: usize,
    after: usize,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let heap = unsafe { &*heap.cast::<Heap>() };
    // Without a block, `before` says nothing.
    let before = if block.is_null() { 0 } else { before };
    let layout = |bytes| Layout::from_size_align(bytes, ALIGNMENT);
    if after == 0 {
        if before > 0 {
            heap.used_bytes.set(heap.used_bytes.get() - before);
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(block.cast(), layout(before).expect("it was allocated with it")) };
        }
        return ptr::null_mut();
    }
    // Lua relies on it that a block can always shrink.
    let refused = after > before && !heap.in_rust.get() && after - before > heap.room();
    let Ok(new_layout) = layout(after) else { return ptr::null_mut() };
    if refused {
        heap.has_refused.set(true);
        return ptr::null_mut();
    }
    let new = if before == 0 {
        // SAFETY: the size is not zero.
        unsafe { alloc(new_layout) }
    } else {
        // SAFETY: it was allocated with this layout, and the size is not zero.
        unsafe { realloc(block.cast(), layout(before).expect("as above"), after) }
    };
    if new.is_null() {
        if heap.in_rust.get() {
            handle_alloc_error(new_layout);
        }
        return ptr::null_mut();
    }
    heap.used_bytes.set(heap.used_bytes.get() - before + after);
    if heap.meter.add_allocated(after.saturating_sub(before)) {
        heap.ask_soon();
    }
    new.cast()
}
