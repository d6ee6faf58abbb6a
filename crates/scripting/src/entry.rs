//! Where Lua calls Rust, and where an error of Rust becomes one of Lua.
//!
//! ```text
//!   Lua ──► raw::<F> ──► within::<F> ──► F(&mut Frame) ── Ok(n) ───► n results
//!              ▲              │                        └─ Err(raise)─► value on the stack
//!              └── Outcome ◄──┘ all that has a destructor is gone
//!              └─► lua_error: a jump over `raw` alone, which has nothing to drop
//! ```
//!
//! [`pcall`] and the others behind it talk to Lua directly: they call back into it, or must raise. They have no
//! value with a destructor alive when they do.
//!
//! `unsafe`: the functions that C calls. Invariant 1 of the crate is why jumps stay out of `within`.

#![expect(unsafe_code, reason = "functions that C calls; see the essay above")]

use std::borrow::Cow;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use mlua_sys::{
    LUA_MASKCOUNT, LUA_MASKLINE, LUA_MULTRET, LUA_REGISTRYINDEX, LUA_TTABLE, lua_CFunction,
    lua_Debug, lua_State, lua_concat, lua_error, lua_gethookcount, lua_getmetatable, lua_gettable_,
    lua_gettop, lua_insert, lua_isstring, lua_next, lua_pcall, lua_pushboolean, lua_pushlstring_,
    lua_pushnil, lua_rawequal, lua_rawget_, lua_rawgeti_, lua_remove, lua_replace, lua_sethook,
    lua_settop, lua_tolstring, lua_type, luaL_argerror, luaL_checkany, luaL_checktype, luaL_where,
};

use crate::coroutine;
use crate::frame::Frame;
use crate::heap::Heap;
use crate::host::Interrupt;
use crate::machine::GUARD;

/// How a function of Rust fails.
#[derive(Debug)]
pub(crate) enum Raise {
    /// With a text, which gets the place of the caller in front: `user_script:1: text`.
    Text(Cow<'static, str>),
    /// With a text as it is.
    Plain(&'static str),
    /// With a text about an argument: `bad argument #1 to 'name' (text)`.
    Argument(i32, Cow<'static, str>),
    /// With a table that has the field `err`, as errors of commands: the text and code `ERR`.
    Reply(Cow<'static, str>),
    /// With the value on top of the stack.
    Value,
    /// Because the script was stopped.
    Stop,
}

impl Raise {
    pub(crate) fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn argument(number: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self::Argument(number, text.into())
    }

    pub(crate) fn reply(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Reply(text.into())
    }

    /// As Lua says it of its own allocations.
    pub(crate) fn memory() -> Self {
        Self::text("not enough memory")
    }
}

/// The number of results on top of the stack, or an error.
pub(crate) type Results = Result<i32, Raise>;

/// What a script gets to know when it was stopped.
pub(crate) const SCRIPT_STOPPED: &str = "Script killed by user with SCRIPT KILL...";

/// What a function does.
pub(crate) const FUNCTION_STOPPED: &str = "Script killed by user with FUNCTION KILL.";

/// What is told to what runs.
pub(crate) fn stop_text(frame: &mut Frame<'_>) -> &'static str {
    frame.run().map_or(SCRIPT_STOPPED, |run| run.stop_text)
}

/// A function of Rust that Lua can call.
#[derive(Clone, Copy)]
pub(crate) struct Entry(lua_CFunction);

impl Entry {
    /// Makes a function, or a closure without captures, callable.
    pub(crate) const fn of<F>(_function: F) -> Self
    where
        F: Fn(&mut Frame<'_>) -> Results + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function without state") };
        Self(raw::<F>)
    }

    /// `pcall`, which makes of a table with the field `err` the text in it.
    pub(crate) const PCALL: Self = Self(pcall);

    /// `xpcall`, whose handler can be stopped.
    pub(crate) const XPCALL: Self = Self(xpcall);

    /// `coroutine.create`.
    pub(crate) const CREATE: Self = Self(coroutine::create);

    /// `coroutine.resume`.
    pub(crate) const RESUME: Self = Self(coroutine::resume);

    /// `coroutine.wrap`.
    pub(crate) const WRAP: Self = Self(coroutine::wrap);

    /// `function(table, key) return table[key] end`.
    pub(crate) const INDEX: Self = Self(index);

    /// `next`, which sees through proxies.
    pub(crate) const NEXT: Self = Self(next);

    pub(crate) fn pointer(self) -> lua_CFunction {
        self.0
    }
}

enum Outcome {
    Returned(i32),
    /// The text on top gets a place.
    Text,
    /// The text on top is about this argument.
    Argument(i32),
    Value,
}

/// The C function for `F`.
///
/// # Safety
/// Called by Lua, with a state that has a [`Heap`].
unsafe extern "C-unwind" fn raw<F>(state: *mut lua_State) -> c_int
where
    F: Fn(&mut Frame<'_>) -> Results + Copy + 'static,
{
    // SAFETY: the state is Lua's. Nothing here has a destructor, so the jumps of the last three
    // lines skip none; in those, a text is on top, which Lua keeps while it is there.
    unsafe {
        match within::<F>(state) {
            Outcome::Returned(count) => count,
            Outcome::Text => {
                luaL_where(state, 1);
                lua_insert(state, -2);
                lua_concat(state, 2);
                lua_error(state)
            }
            Outcome::Argument(number) => {
                luaL_argerror(state, number, lua_tolstring(state, -1, std::ptr::null_mut()))
            }
            Outcome::Value => lua_error(state),
        }
    }
}

/// Calls `F`, and leaves what it raised on the stack.
///
/// # Safety
/// As [`raw`].
unsafe fn within<F>(state: *mut lua_State) -> Outcome
where
    F: Fn(&mut Frame<'_>) -> Results + Copy + 'static,
{
    // SAFETY: the state has a heap, and lives longer than this call. `F` has no size, so any
    // aligned address is one of it, and there is an `F`, because `Entry::of` was given it.
    let (heap, function, mut frame) =
        unsafe { (Heap::of(state), NonNull::<F>::dangling().as_ref(), Frame::of_call(state)) };
    let _within = heap.enter();
    match catch_unwind(AssertUnwindSafe(|| function(&mut frame))) {
        Ok(Ok(count)) => Outcome::Returned(count),
        Ok(Err(raise)) => {
            frame.make_room();
            match raise {
                Raise::Text(text) => {
                    frame.push_bytes(text.as_bytes());
                    Outcome::Text
                }
                Raise::Plain(text) => {
                    frame.push_bytes(text.as_bytes());
                    Outcome::Value
                }
                Raise::Argument(number, text) => {
                    frame.push_bytes(text.as_bytes());
                    Outcome::Argument(number)
                }
                Raise::Reply(text) => {
                    frame.push_error(text.as_bytes());
                    Outcome::Value
                }
                Raise::Value => Outcome::Value,
                Raise::Stop => {
                    let text = stop_text(&mut frame);
                    frame.push_error(text.as_bytes());
                    // SAFETY: the state is valid.
                    unsafe { stop_at_once(state) };
                    Outcome::Value
                }
            }
        }
        Err(panic) => {
            frame.stop_by(panic);
            frame.make_room();
            frame.push_bytes(b"a function of the server has panicked");
            Outcome::Value
        }
    }
}

/// `pcall(f, ...)`.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: within the stack: there is at least one argument, and each push but one follows a pop.
    // C functions begin with twenty free slots. Nothing has a destructor.
    unsafe {
        luaL_checkany(state, 1);
        let arguments = lua_gettop(state);
        lua_pushboolean(state, 1);
        lua_insert(state, 1);
        if lua_pcall(state, arguments - 1, LUA_MULTRET, 0) != 0 {
            if is_stopped(state) {
                lua_error(state);
            }
            lua_remove(state, 1);
            if lua_type(state, -1) == LUA_TTABLE {
                lua_pushlstring_(state, c"err".as_ptr(), 3);
                lua_rawget_(state, -2);
                if lua_isstring(state, -1) != 0 {
                    lua_replace(state, -2);
                } else {
                    lua_settop(state, -2);
                }
            }
            lua_pushboolean(state, 0);
            lua_insert(state, 1);
        }
        lua_gettop(state)
    }
}

/// `xpcall(f, handler)`. The handler runs when the error has arrived here: Lua's own calls it where
/// the error was raised, for tracebacks, which scripts cannot make; and if that was in the hook, it
/// would run without a hook, and never be stopped.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: as in `pcall`.
    unsafe {
        luaL_checkany(state, 2);
        lua_settop(state, 2);
        lua_insert(state, 1);
        if lua_pcall(state, 0, LUA_MULTRET, 0) == 0 {
            lua_pushboolean(state, 1);
            lua_replace(state, 1);
            return lua_gettop(state);
        }
        if is_stopped(state) {
            lua_error(state);
        }
        let is_handled = lua_pcall(state, 1, 1, 0) == 0;
        if is_stopped(state) {
            lua_error(state);
        }
        if !is_handled {
            const TEXT: &std::ffi::CStr = c"error in error handling";
            lua_settop(state, 0);
            lua_pushlstring_(state, TEXT.as_ptr(), TEXT.count_bytes());
        }
        lua_pushboolean(state, 0);
        lua_insert(state, 1);
        2
    }
}

/// Whether the script was stopped.
///
/// # Safety
/// The state has a heap.
pub(crate) unsafe fn is_stopped(state: *mut lua_State) -> bool {
    // SAFETY: as the caller promises; the run lives while Lua runs.
    unsafe { Heap::of(state).run().is_some_and(|run| run.as_ref().is_stopped()) }
}

/// `next(table, key)`.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: as in `pcall`; four slots are used.
    unsafe {
        luaL_checktype(state, 1, LUA_TTABLE);
        lua_settop(state, 2);
        if push_behind_proxy(state, 1) {
            lua_replace(state, 1);
        }
        if lua_next(state, 1) != 0 {
            2
        } else {
            lua_pushnil(state);
            1
        }
    }
}

/// `table[key]`, with metamethods.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: as in `pcall`; metamethods may raise.
    unsafe {
        lua_settop(state, 2);
        lua_gettable_(state, 1);
        1
    }
}

/// Pushes the table that the one at `at` is a proxy of, if it is one.
///
/// # Safety
/// `at` is an index from the bottom of a table, and the stack has three free slots. It allocates, so it may raise
/// while Lua runs.
pub(crate) unsafe fn push_behind_proxy(state: *mut lua_State, at: c_int) -> bool {
    // SAFETY: as the caller promises; what is pushed is popped.
    unsafe {
        if lua_getmetatable(state, at) == 0 {
            return false;
        }
        lua_pushlstring_(state, c"__metatable".as_ptr(), 11);
        lua_rawget_(state, -2);
        lua_rawgeti_(state, LUA_REGISTRYINDEX, GUARD);
        let is_proxy = lua_rawequal(state, -1, -2) != 0;
        lua_settop(state, -3);
        if is_proxy {
            lua_pushlstring_(state, c"__index".as_ptr(), 7);
            lua_rawget_(state, -2);
            lua_remove(state, -2);
        } else {
            lua_settop(state, -2);
        }
        is_proxy
    }
}

/// Counts instructions, and asks from time to time whether the script goes on.
///
/// # Safety
/// Called by Lua, between two instructions.
pub(crate) unsafe extern "C-unwind" fn hook(state: *mut lua_State, _event: *mut lua_Debug) {
    // SAFETY: the state has a heap. What asks has ended before the jump.
    unsafe {
        let heap = Heap::of(state);
        let count = lua_gethookcount(state);
        if heap.meter().add_instructions(count, heap.used_bytes()) && ask(state) == Interrupt::Stop
        {
            raise_stop(state);
        }
        let next = heap.meter().hook_instructions(heap.used_bytes());
        if next != count {
            lua_sethook(state, Some(hook), LUA_MASKCOUNT, next);
        }
    }
}

/// Makes each further instruction of this thread raise.
///
/// # Safety
/// The state is valid.
unsafe fn stop_at_once(state: *mut lua_State) {
    // SAFETY: as the caller promises.
    unsafe { lua_sethook(state, Some(hook), LUA_MASKCOUNT | LUA_MASKLINE, 1) };
}

/// Raises the error of a script that was stopped; from now on each instruction of this thread does.
///
/// # Safety
/// Called from a function that Lua has called, or from its hook, without a value that has a destructor.
pub(crate) unsafe fn raise_stop(state: *mut lua_State) -> ! {
    // SAFETY: the state has a heap. What has a destructor has ended before the jump.
    unsafe {
        stop_at_once(state);
        push_stop(state);
        lua_error(state)
    }
}

/// Pushes the error of a script that was stopped.
///
/// # Safety
/// As [`raise_stop`].
unsafe fn push_stop(state: *mut lua_State) {
    // SAFETY: the state has a heap, and lives longer than this call.
    let (heap, mut frame) = unsafe { (Heap::of(state), Frame::of_call(state)) };
    let _within = heap.enter();
    frame.make_room();
    let text = stop_text(&mut frame);
    frame.push_error(text.as_bytes());
}

/// Asks the host.
///
/// # Safety
/// As [`hook`].
unsafe fn ask(state: *mut lua_State) -> Interrupt {
    // SAFETY: the state has a heap, and lives longer than this call.
    let (heap, mut frame) = unsafe { (Heap::of(state), Frame::of_call(state)) };
    let _within = heap.enter();
    match catch_unwind(AssertUnwindSafe(|| frame.interrupt())) {
        Ok(answer) => answer,
        Err(panic) => {
            frame.stop_by(panic);
            Interrupt::Stop
        }
    }
}
