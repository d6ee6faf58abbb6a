//! `create`, `resume` and `wrap` of `coroutine`, as Lua has them, with two differences: the run's meter counts them, and a
//! coroutine that was stopped stops the one that resumed it.
//!
//! The arguments of `resume` are moved to the coroutine's stack while that does not run, so its room is made before: the vendored Lua grows
//! a stack in protected mode, and says when memory is refused for it (Lua as its authors released it ends the process).
//!
//! `unsafe`: functions that C calls. They have no value with a destructor alive when something raises.

#![expect(unsafe_code, reason = "functions that C calls; see the essay above")]

use std::ffi::{CStr, c_int};

use mlua_sys::{
    LUA_TFUNCTION, LUA_YIELD, lua_Debug, lua_State, lua_checkstack, lua_concat, lua_error,
    lua_getstack, lua_gettop, lua_insert, lua_iscfunction, lua_isstring, lua_newthread,
    lua_pushboolean, lua_pushcclosure, lua_pushlstring_, lua_pushvalue, lua_resume_, lua_status,
    lua_tothread, lua_type, lua_upvalueindex, lua_xmove, luaL_argerror, luaL_where,
};

use crate::entry::{is_stopped, raise_stop};
use crate::heap::Heap;
use crate::meter::RESUME;

unsafe extern "C-unwind" {
    /// Lua's own: how deep calls are nested in C where `from` resumes `to`.
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// `coroutine.create(function)`.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    // SAFETY: within the twenty slots that functions begin with. A new thread has a slot, and is on the stack.
    unsafe {
        if lua_type(state, 1) != LUA_TFUNCTION || lua_iscfunction(state, 1) != 0 {
            return luaL_argerror(state, 1, c"Lua function expected".as_ptr());
        }
        Heap::of(state).count_coroutine();
        let new = lua_newthread(state);
        lua_pushvalue(state, 1);
        lua_xmove(state, new, 1);
        1
    }
}

/// `coroutine.wrap(function)`.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    // SAFETY: as in `create`, which leaves the coroutine on top.
    unsafe {
        create(state);
        lua_pushcclosure(state, wrapped, 1);
        1
    }
}

/// What `wrap` returns, with the coroutine as its upvalue.
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn wrapped(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is a coroutine. An error is on top.
    unsafe {
        let coroutine = lua_tothread(state, lua_upvalueindex(1));
        let results = go_on(state, coroutine, lua_gettop(state));
        if results < 0 {
            if lua_isstring(state, -1) != 0 {
                luaL_where(state, 1);
                lua_insert(state, -2);
                lua_concat(state, 2);
            }
            lua_error(state);
        }
        results
    }
}

/// `coroutine.resume(coroutine, ...)`.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    // SAFETY: `go_on` has made a slot more than it needs.
    unsafe {
        let coroutine = lua_tothread(state, 1);
        if coroutine.is_null() {
            return luaL_argerror(state, 1, c"coroutine expected".as_ptr());
        }
        let results = go_on(state, coroutine, lua_gettop(state) - 1);
        lua_pushboolean(state, c_int::from(results >= 0));
        let results = results.abs();
        lua_insert(state, -(results + 1));
        results + 1
    }
}

/// Lets a coroutine go on with the topmost `count` values. Returns how many it has left on top; -1 if that is an error.
///
/// # Safety
/// Called from a function that Lua has called, with as many values on top.
unsafe fn go_on(state: *mut lua_State, coroutine: *mut lua_State, count: c_int) -> c_int {
    // SAFETY: both are threads of one state. Room is made before values are moved. What the coroutine raises ends in
    // `lua_resume`.
    unsafe {
        let heap = Heap::of(state);
        if lua_checkstack(coroutine, count) == 0 {
            raise(state, c"too many arguments to resume");
        }
        if let Some(text) = obstacle(state, coroutine) {
            push(state, text);
            return -1;
        }
        lua_xmove(state, coroutine, count);
        lua_setlevel(state, coroutine);
        heap.count(RESUME);
        heap.set_thread(coroutine);
        let status = lua_resume_(coroutine, count);
        heap.set_thread(state);
        if is_stopped(state) {
            raise_stop(state);
        }
        // A coroutine may end when it would be asked next.
        heap.ask_soon_if_due();
        if status != 0 && status != LUA_YIELD {
            lua_xmove(coroutine, state, 1);
            return -1;
        }
        let results = lua_gettop(coroutine);
        if lua_checkstack(state, results + 1) == 0 {
            raise(state, c"too many results to resume");
        }
        lua_xmove(coroutine, state, results);
        results
    }
}

/// Why a coroutine cannot go on.
///
/// # Safety
/// Both are threads of one state.
unsafe fn obstacle(state: *mut lua_State, coroutine: *mut lua_State) -> Option<&'static CStr> {
    if state == coroutine {
        return Some(c"cannot resume running coroutine");
    }
    // SAFETY: as the caller promises; a structure of plain numbers and pointers may be zero.
    unsafe {
        let mut debug: lua_Debug = std::mem::zeroed();
        match lua_status(coroutine) {
            LUA_YIELD => None,
            0 if lua_getstack(coroutine, 0, &raw mut debug) > 0 => {
                Some(c"cannot resume normal coroutine")
            }
            0 if lua_gettop(coroutine) > 0 => None,
            _ => Some(c"cannot resume dead coroutine"),
        }
    }
}

/// # Safety
/// There is a slot.
unsafe fn push(state: *mut lua_State, text: &CStr) {
    // SAFETY: as the caller promises.
    unsafe { lua_pushlstring_(state, text.as_ptr(), text.count_bytes()) };
}

/// Raises an error with the place of the caller in front.
///
/// # Safety
/// There are two slots.
unsafe fn raise(state: *mut lua_State, text: &CStr) -> ! {
    // SAFETY: as the caller promises.
    unsafe {
        luaL_where(state, 1);
        push(state, text);
        lua_concat(state, 2);
        lua_error(state)
    }
}
