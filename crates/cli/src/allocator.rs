//! What the allocator is asked for apart from memory: to give unused pages back, by itself and at
//! once. jemalloc does so only on the way of other allocations, so an idle server would keep what
//! one large request has left.

use std::ptr::null_mut;

use tikv_jemalloc_ctl::background_thread;
use tikv_jemalloc_sys::mallctl;

/// Lets a thread of the allocator's give pages back that were not used for some seconds.
pub(crate) fn give_back_in_background() {
    // Where threads cannot be made pages are given back with later allocations.
    let _ignored = background_thread::write(true);
}

/// Gives back every page that is not in use.
pub(crate) fn give_back_now() {
    for request in [c"thread.tcache.flush", c"arena.4096.purge"] {
        // SAFETY: the name is a C string; the request takes and yields nothing, so that all other
        // pointers are null and lengths zero, as mallctl's documentation asks for. 4096 stands for
        // all arenas. Its result can be ignored: a build without the request gives nothing back.
        #[expect(unsafe_code, reason = "the crate around mallctl always passes a value")]
        let _ignored = unsafe { mallctl(request.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    }
}
