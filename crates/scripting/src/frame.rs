//! The stack of Lua, as Rust sees it: nothing here raises.
//!
//! ```text
//!   1 … arguments    what the function was called with; they stay until it returns
//!   … top            what it pushed
//! ```
//!
//! Indices count from 1 at the bottom, or from -1 at the top. A function begins with
//! [`FREE_SLOTS`] free slots; whatever needs more asks [`Frame::reserve`] first.
//!
//! `unsafe`: each method is one call of Lua's interface. Why none of them raises an error is invariant 1
//! of the crate. Text of arguments lives as long as the call, because arguments are never popped.

#![expect(unsafe_code, reason = "calls of Lua's interface; see the essay above")]

mod work;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use mlua_sys::*;

use crate::entry::{self, Entry, Raise};
use crate::heap::Heap;
use crate::machine::Run;

/// What Lua guarantees a C function.
pub(crate) const FREE_SLOTS: i32 = LUA_MINSTACK;

/// As many results as a function has: see [`Frame::call`].
pub(crate) const ALL_RESULTS: i32 = LUA_MULTRET;

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Beyond the top.
    None,
    Nil,
    Boolean,
    Number,
    String,
    Table,
    Function,
    /// A pointer without more; the null one is `cjson.null`.
    Pointer,
    Other,
}

/// Where a function on the stack of calls is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) is_c: bool,
    /// As Lua has it: a file's name after `@`, other names after `=`.
    pub(crate) source: Vec<u8>,
    pub(crate) line: i32,
}

/// A place in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference(pub(crate) c_int);

/// The stack of a function that Lua has called.
#[derive(Debug)]
pub(crate) struct Frame<'l> {
    state: *mut lua_State,
    heap: &'l Heap,
    arguments: i32,
    life: PhantomData<&'l ()>,
}

impl<'l> Frame<'l> {
    /// # Safety
    /// `state` has a heap; both live for `'l`; Lua has just called, or nothing runs.
    pub(crate) unsafe fn of_call(state: *mut lua_State) -> Self {
        // SAFETY: as the caller promises.
        let (heap, arguments) = unsafe { (Heap::of(state), lua_gettop(state)) };
        Self { state, heap, arguments, life: PhantomData }
    }

    /// The stack while no function runs: nothing on it has to stay.
    ///
    /// # Safety
    /// As [`Frame::of_call`].
    pub(crate) unsafe fn between_runs(state: *mut lua_State) -> Self {
        // SAFETY: as the caller promises.
        Self { arguments: 0, ..unsafe { Self::of_call(state) } }
    }

    /// The number of arguments.
    pub(crate) fn arguments(&self) -> i32 {
        self.arguments
    }

    /// The index of the topmost value.
    pub(crate) fn top(&self) -> i32 {
        // SAFETY: the state is valid.
        unsafe { lua_gettop(self.state) }
    }

    fn has(&self, at: i32) -> bool {
        if at > 0 { at <= self.top() } else { at < 0 && -at <= self.top() }
    }

    /// The kind of a value.
    pub(crate) fn kind(&self, at: i32) -> Kind {
        debug_assert!(at > 0 || self.has(at), "an index of the stack");
        // SAFETY: indices beyond the top are nothing.
        match unsafe { lua_type(self.state, at) } {
            LUA_TNONE => Kind::None,
            LUA_TNIL => Kind::Nil,
            LUA_TBOOLEAN => Kind::Boolean,
            LUA_TNUMBER => Kind::Number,
            LUA_TSTRING => Kind::String,
            LUA_TTABLE => Kind::Table,
            LUA_TFUNCTION => Kind::Function,
            LUA_TLIGHTUSERDATA => Kind::Pointer,
            _ => Kind::Other,
        }
    }

    /// The name of a value's kind, as `type` says it; `no value` beyond the top.
    pub(crate) fn kind_name(&self, at: i32) -> &'static str {
        // SAFETY: names of types are constants of Lua, in ASCII.
        let name = unsafe { CStr::from_ptr(lua_typename(self.state, lua_type(self.state, at))) };
        name.to_str().expect("names of types are ASCII")
    }

    /// Whether a value is the null pointer.
    pub(crate) fn is_null(&self, at: i32) -> bool {
        // SAFETY: any value may be asked.
        self.kind(at) == Kind::Pointer && unsafe { lua_touserdata(self.state, at).is_null() }
    }

    /// Whether a value is there that is neither nil nor false.
    pub(crate) fn is_true(&self, at: i32) -> bool {
        // SAFETY: indices beyond the top are nothing.
        unsafe { lua_toboolean(self.state, at) != 0 }
    }

    /// A number, if it is one or is text that is one.
    pub(crate) fn number(&self, at: i32) -> Option<f64> {
        // SAFETY: as above.
        unsafe { (lua_isnumber(self.state, at) != 0).then(|| lua_tonumber(self.state, at)) }
    }

    /// The bytes of a text. A number is none.
    pub(crate) fn bytes(&self, at: i32) -> Option<&[u8]> {
        // SAFETY: the value stays on the stack while the frame is borrowed.
        (self.kind(at) == Kind::String).then(|| unsafe { self.counted_text_at(at) })
    }

    /// As [`Frame::text_at`]. That all of it is read is counted.
    ///
    /// # Safety
    /// As there.
    unsafe fn counted_text_at<'t>(&self, at: i32) -> &'t [u8] {
        // SAFETY: as the caller promises.
        let text: &'t [u8] = unsafe { self.text_at(at) };
        self.heap.count_read(text.len());
        text
    }

    /// # Safety
    /// The value is a text or a number, and stays on the stack for `'t`.
    unsafe fn text_at<'t>(&self, at: i32) -> &'t [u8] {
        let mut len = 0;
        // SAFETY: as the caller promises; Lua has at least a zero there.
        unsafe {
            let bytes = lua_tolstring(self.state, at, &raw mut len);
            debug_assert!(!bytes.is_null(), "a text");
            std::slice::from_raw_parts(bytes.cast(), len)
        }
    }

    /// The bytes of the topmost value, a text or a number, which becomes text.
    pub(crate) fn pushed_text(&self) -> &[u8] {
        assert!(
            self.top() > self.arguments && matches!(self.kind(-1), Kind::String | Kind::Number)
        );
        // SAFETY: it stays on the stack while the frame is borrowed.
        unsafe { self.counted_text_at(-1) }
    }

    /// The bytes of an argument. A number becomes text, as Lua writes it.
    pub(crate) fn argument_text(&self, number: i32) -> Option<&'l [u8]> {
        debug_assert!((1..=self.arguments).contains(&number), "an argument");
        matches!(self.kind(number), Kind::String | Kind::Number)
            // SAFETY: arguments stay on the stack for `'l`.
            .then(|| unsafe { self.counted_text_at(number) })
    }

    /// Makes room for `count` more values.
    #[must_use]
    pub(crate) fn reserve(&self, count: i32) -> bool {
        // Lua has made this room behind the arguments, however many they are.
        if self.top() + count <= self.arguments + LUA_MINSTACK {
            return true;
        }
        // SAFETY: nothing is refused while Rust runs, so it does not raise.
        unsafe { lua_checkstack(self.state, count) != 0 }
    }

    /// Makes room for an error: drops what was pushed if the stack is full.
    pub(crate) fn make_room(&self) {
        if !self.reserve(FREE_SLOTS) {
            // SAFETY: what was pushed is not needed any more.
            unsafe { lua_settop(self.state, self.arguments.min(self.top())) };
        }
    }

    pub(crate) fn push_nil(&mut self) {
        // SAFETY: there is a slot.
        unsafe { lua_pushnil(self.state) };
    }

    pub(crate) fn push_boolean(&mut self, value: bool) {
        // SAFETY: there is a slot.
        unsafe { lua_pushboolean(self.state, c_int::from(value)) };
    }

    pub(crate) fn push_number(&mut self, value: f64) {
        // SAFETY: there is a slot.
        unsafe { lua_pushnumber(self.state, value) };
    }

    /// Pushes a number, which is exact up to 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
    pub(crate) fn push_integer(&mut self, value: i64) {
        self.push_number(value as f64);
    }

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: there is a slot, and Lua copies the bytes.
        unsafe { lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes the null pointer, `cjson.null`.
    pub(crate) fn push_null(&mut self) {
        // SAFETY: there is a slot.
        unsafe { lua_pushlightuserdata(self.state, ptr::null_mut()) };
    }

    /// Pushes a table with room for elements and fields.
    pub(crate) fn push_table(&mut self, elements: usize, fields: usize) {
        let bounded = |count: usize| c_int::try_from(count).unwrap_or(0);
        // SAFETY: there is a slot.
        unsafe { lua_createtable(self.state, bounded(elements), bounded(fields)) };
    }

    /// Pushes a function with the topmost `upvalues` values as its own.
    pub(crate) fn push_function(&mut self, entry: Entry, upvalues: i32) {
        debug_assert!(upvalues <= self.top() - self.arguments, "they were pushed");
        // SAFETY: the values are there, or there is a slot.
        unsafe { lua_pushcclosure(self.state, entry.pointer(), upvalues) };
    }

    pub(crate) fn push_copy(&mut self, at: i32) {
        debug_assert!(self.has(at), "an index of the stack");
        // SAFETY: there is a slot.
        unsafe { lua_pushvalue(self.state, at) };
    }

    /// Pushes an upvalue of the running function.
    pub(crate) fn push_upvalue(&mut self, number: i32) {
        // SAFETY: there is a slot; an upvalue that is not there is nil.
        unsafe { lua_pushvalue(self.state, lua_upvalueindex(number)) };
    }

    /// The bytes of an upvalue of the running function that is text and is not replaced.
    pub(crate) fn upvalue_text(&self, number: i32) -> Option<&'l [u8]> {
        let at = lua_upvalueindex(number);
        // SAFETY: the function is on the stack for `'l`, and has this upvalue for as long.
        unsafe { (lua_type(self.state, at) == LUA_TSTRING).then(|| self.text_at(at)) }
    }

    /// Makes the topmost value an upvalue of the running function, which has it.
    pub(crate) fn replace_upvalue(&mut self, number: i32) {
        debug_assert!(self.top() > self.arguments, "something was pushed");
        // SAFETY: the function has this upvalue, as the caller knows.
        unsafe { lua_replace(self.state, lua_upvalueindex(number)) };
    }

    /// The words that the running function has as its first upvalue.
    pub(crate) fn words<const N: usize>(&self) -> [i32; N] {
        // SAFETY: where this is called, the upvalue is what `push_words` made, of this size.
        unsafe { *self.words_pointer::<N>() }
    }

    /// Sets the words that the running function has as its first upvalue.
    pub(crate) fn set_words<const N: usize>(&mut self, words: [i32; N]) {
        // SAFETY: as above.
        unsafe { *self.words_pointer::<N>() = words };
    }

    fn words_pointer<const N: usize>(&self) -> *mut [i32; N] {
        let at = lua_upvalueindex(1);
        // SAFETY: any value may be asked for its address and size.
        let (pointer, bytes) =
            unsafe { (lua_touserdata(self.state, at), lua_objlen(self.state, at)) };
        assert!(!pointer.is_null() && bytes == size_of::<[i32; N]>(), "words of this number");
        pointer.cast()
    }

    /// Pushes words for functions to share: [`Frame::words`].
    pub(crate) fn push_words<const N: usize>(&mut self, words: [i32; N]) {
        // SAFETY: there is a slot; Lua aligns blocks as malloc does.
        unsafe {
            let block: *mut [i32; N] =
                lua_newuserdata(self.state, size_of::<[i32; N]>()).cast::<c_void>().cast();
            *block = words;
        }
    }

    /// Drops the topmost values.
    pub(crate) fn pop(&mut self, count: i32) {
        assert!(self.top() - count >= self.arguments, "arguments stay");
        // SAFETY: they are there.
        unsafe { lua_settop(self.state, -count - 1) };
    }

    /// Drops what was pushed, but for what is up to `top`.
    pub(crate) fn truncate(&mut self, top: i32) {
        assert!((self.arguments..=self.top()).contains(&top), "arguments stay");
        // SAFETY: they are there.
        unsafe { lua_settop(self.state, top) };
    }

    /// Moves the topmost value into the slot `at`.
    pub(crate) fn replace(&mut self, at: i32) {
        assert!((self.arguments + 1..=self.top()).contains(&at), "arguments stay");
        // SAFETY: the slot is there.
        unsafe { lua_replace(self.state, at) };
    }

    /// Drops the value below the topmost one.
    pub(crate) fn remove_second(&mut self) {
        assert!(self.top() - 2 >= self.arguments, "arguments stay");
        // SAFETY: it is there.
        unsafe { lua_remove(self.state, -2) };
    }

    /// Replaces the key on top by its value in the table at `at`, without metamethods.
    pub(crate) fn raw_get(&mut self, at: i32) {
        debug_assert_eq!(self.kind(at), Kind::Table);
        // SAFETY: a table is there, and a key on top.
        unsafe { lua_rawget_(self.state, at) };
    }

    /// Pushes a field of the table at `at`, without metamethods.
    pub(crate) fn raw_field(&mut self, at: i32, name: &str) {
        let at = self.absolute(at);
        self.push_bytes(name.as_bytes());
        self.raw_get(at);
    }

    /// Pushes an element of the table at `at`, without metamethods.
    pub(crate) fn raw_element(&mut self, at: i32, number: i32) {
        debug_assert_eq!(self.kind(at), Kind::Table);
        // SAFETY: a table is there, and a slot.
        unsafe { lua_rawgeti_(self.state, at, number) };
    }

    /// Sets the field whose key and value are on top, in the table at `at`, without metamethods.
    pub(crate) fn raw_set(&mut self, at: i32) -> Result<(), Raise> {
        debug_assert_eq!(self.kind(at), Kind::Table);
        match self.kind(-2) {
            Kind::Nil => return Err(Raise::Plain("table index is nil")),
            Kind::Number if self.number(-2).is_some_and(f64::is_nan) => {
                return Err(Raise::Plain("table index is NaN"));
            }
            _ => {}
        }
        // SAFETY: a table is there, and a key that can be one.
        unsafe { lua_rawset(self.state, at) };
        Ok(())
    }

    /// Makes the topmost value a field of the table at `at`.
    pub(crate) fn set_field(&mut self, at: i32, name: &str) {
        let at = self.absolute(at);
        self.push_bytes(name.as_bytes());
        // SAFETY: name and value are there, a table, and a key that can be one.
        unsafe {
            lua_insert(self.state, -2);
            lua_rawset(self.state, at);
        }
    }

    /// Makes the topmost value an element of the table at `at`.
    pub(crate) fn set_element(&mut self, at: i32, number: i32) {
        debug_assert_eq!(self.kind(at), Kind::Table);
        // SAFETY: a table is there, and a value.
        unsafe { lua_rawseti_(self.state, at, number) };
    }

    /// The length of a table or text, without metamethods.
    pub(crate) fn length(&self, at: i32) -> usize {
        // SAFETY: any value may be asked.
        unsafe { lua_objlen(self.state, at) }
    }

    /// Replaces the key on top by the next one of the table at `at`, and pushes its value. At the
    /// end it pops the key. The key must be nil or come from here, and the table must not change.
    pub(crate) fn next(&mut self, at: i32) -> bool {
        debug_assert_eq!(self.kind(at), Kind::Table);
        // SAFETY: a table is there, and a key of it or nil: the error for others cannot occur.
        unsafe { lua_next(self.state, at) != 0 }
    }

    /// Pushes the metatable of a value, if it has one.
    pub(crate) fn push_metatable(&mut self, at: i32) -> bool {
        // SAFETY: any value may be asked, and there is a slot.
        unsafe { lua_getmetatable(self.state, at) != 0 }
    }

    /// Makes the topmost value, a table or nil, the metatable of the value at `at`.
    pub(crate) fn set_metatable(&mut self, at: i32) {
        debug_assert!(matches!(self.kind(-1), Kind::Table | Kind::Nil));
        // SAFETY: as asserted.
        unsafe { lua_setmetatable(self.state, at) };
    }

    /// Pushes the table that the one at `at` is a proxy of, if it is one.
    pub(crate) fn push_behind_proxy(&mut self, at: i32) -> bool {
        let at = self.absolute(at);
        if self.kind(at) != Kind::Table || !self.reserve(4) {
            return false;
        }
        // SAFETY: a table is there, and slots; nothing is refused while Rust runs.
        unsafe { entry::push_behind_proxy(self.state, at) }
    }

    /// Whether two values are the same, without metamethods.
    pub(crate) fn is_same(&self, at: i32, other: i32) -> bool {
        // SAFETY: both are there.
        unsafe { lua_rawequal(self.state, at, other) != 0 }
    }

    fn absolute(&self, at: i32) -> i32 {
        if at > 0 { at } else { self.top() + 1 + at }
    }

    /// Moves the topmost value into the registry.
    pub(crate) fn keep(&mut self) -> Reference {
        assert!(self.top() > self.arguments, "something was pushed");
        // SAFETY: a value is there.
        Reference(unsafe { luaL_ref(self.state, LUA_REGISTRYINDEX) })
    }

    /// Pushes a value of the registry.
    pub(crate) fn push_kept(&mut self, kept: Reference) {
        // SAFETY: there is a slot.
        unsafe { lua_rawgeti_(self.state, LUA_REGISTRYINDEX, kept.0) };
    }

    /// Drops a value of the registry.
    pub(crate) fn release(&mut self, kept: Reference) {
        // SAFETY: the registry is a table.
        unsafe { luaL_unref(self.state, LUA_REGISTRYINDEX, kept.0) };
    }

    /// Pushes the table in which functions find their global variables when they are compiled.
    pub(crate) fn push_globals(&mut self) {
        // SAFETY: there is a slot.
        unsafe { lua_pushvalue(self.state, LUA_GLOBALSINDEX) };
    }

    /// Makes the topmost table the one of [`Frame::push_globals`].
    pub(crate) fn replace_globals(&mut self) {
        assert_eq!(self.kind(-1), Kind::Table);
        // SAFETY: a table is there.
        unsafe { lua_replace(self.state, LUA_GLOBALSINDEX) };
    }

    /// Compiles source, and pushes a function or what is wrong.
    pub(crate) fn compile(&mut self, source: &[u8], name: &CStr) -> bool {
        // Lua takes its own binary chunks where source may stand.
        if source.first() == Some(&0x1b) {
            self.push_bytes(b"compiled chunks are not loaded");
            return false;
        }
        // The compiler of Lua 5.1 holds the name without an anchor: a collection in between would
        // free it. This copy is the same object, and is on the stack for as long.
        self.push_bytes(name.to_bytes());
        let mut rest = source;
        // SAFETY: the reader gets what it expects; errors are caught by `lua_load`, and memory may
        // be refused there: no Rust frame is between.
        let is_compiled = unsafe {
            let _outside = self.heap.leave();
            lua_load(self.state, read_all, (&raw mut rest).cast(), name.as_ptr()) == 0
        };
        self.remove_second();
        is_compiled
    }

    /// Calls the function below its arguments, which are on top, and leaves its results there. On
    /// failure, what it raised is on top.
    pub(crate) fn call(&mut self, arguments: i32, results: i32) -> Result<(), Raise> {
        assert!(self.top() - arguments > self.arguments, "a function was pushed");
        // SAFETY: function and arguments are there. Errors end in `lua_pcall`, so no Rust frame is
        // jumped over, and memory may be refused.
        let status = unsafe {
            let _outside = self.heap.leave();
            lua_pcall(self.state, arguments, results, 0)
        };
        // Whatever has caught the error: a stop is final.
        match status {
            _ if self.run().is_some_and(|run| run.is_stopped()) => Err(Raise::Stop),
            0 => Ok(()),
            _ => Err(Raise::Value),
        }
    }

    /// Replaces the key on top by what argument `at`, a table, has for it, with metamethods.
    pub(crate) fn index(&mut self, at: i32) -> Result<(), Raise> {
        if !self.push_metatable(at) {
            self.raw_get(at);
            return Ok(());
        }
        self.pop(1);
        self.push_copy(at);
        self.push_copy(-2);
        self.push_function(Entry::INDEX, 0);
        self.replace(self.top() - 3);
        self.call(2, 1)
    }

    /// Whether a value is a function of C, or of ours.
    pub(crate) fn is_c_function(&self, at: i32) -> bool {
        // SAFETY: indices beyond the top are nothing.
        unsafe { lua_iscfunction(self.state, at) != 0 }
    }

    /// Collects garbage: all of it, or `step` as Lua counts them. That is counted as work.
    pub(crate) fn collect(&mut self, step: Option<i32>) -> bool {
        self.heap.count_collection();
        let (what, amount) = step.map_or((LUA_GCCOLLECT, 0), |step| (LUA_GCSTEP, step));
        // SAFETY: there are no finalizers that could raise: no userdata has a metatable.
        unsafe { lua_gc(self.state, what, amount) != 0 }
    }

    /// The place of a function on the stack of calls: 0 is the running one.
    pub(crate) fn place(&self, level: i32) -> Option<Place> {
        // SAFETY: Lua fills the structure, and its texts live as long as the functions.
        unsafe {
            let mut debug: lua_Debug = std::mem::zeroed();
            if lua_getstack(self.state, level, &raw mut debug) == 0 {
                return None;
            }
            lua_getinfo(self.state, c"Sl".as_ptr(), &raw mut debug);
            Some(Place {
                is_c: CStr::from_ptr(debug.what) == c"C",
                source: CStr::from_ptr(debug.source).to_bytes().to_vec(),
                line: debug.currentline,
            })
        }
    }

    /// What runs: none while a machine is set up.
    pub(crate) fn run(&mut self) -> Option<&mut Run<'static>> {
        // SAFETY: the pointer is set for as long as the run lasts, and this frame is the only one
        // that is active: a frame below cannot be used before this function has returned.
        self.heap.run().map(|mut run| unsafe { run.as_mut() })
    }
}

/// Gives Lua's compiler the source in one piece.
///
/// # Safety
/// `rest` is a `&[u8]` that lives during the compilation.
unsafe extern "C-unwind" fn read_all(
    _state: *mut lua_State,
    rest: *mut c_void,
    size: *mut usize,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe {
        let all = std::mem::take(&mut *rest.cast::<&[u8]>());
        *size = all.len();
        if all.is_empty() { ptr::null() } else { all.as_ptr().cast() }
    }
}
