//! A Lua state that runs one function after the other.
//!
//! ```text
//!   1  error handler         puts the place of an error into it
//!   2  global variables      behind a proxy for scripts
//!   3… the run's function and arguments, then its result
//! ```
//!
//! `unsafe`: creates and closes the state, and makes the protected calls, with the types of
//! [`crate::frame`] around them.

#![expect(unsafe_code, reason = "owns a Lua state; see the essay above")]

use std::any::Any;
use std::ffi::{CStr, c_int};
use std::panic::resume_unwind;
use std::ptr::NonNull;

use mlua_sys::{
    LUA_MASKCOUNT, lua_CFunction, lua_State, lua_call, lua_close, lua_newstate, lua_pcall,
    lua_pushcclosure, lua_sethook, luaopen_base, luaopen_math, luaopen_string, luaopen_table,
};
use resp::{Protocol, Writer};

use crate::entry::{self, FUNCTION_STOPPED, SCRIPT_STOPPED};
use crate::frame::{Frame, Reference};
use crate::heap::{Heap, allocate};
use crate::host::{Ending, Host, Interrupt};
use crate::random::Random;
use crate::registration::{Registered, Registry};
use crate::sandbox::{self, Api};
use crate::to_reply;

/// The place of the error handler on the stack.
const HANDLER: i32 = 1;

/// The place of the table with the global variables.
const GLOBALS: i32 = 2;

/// The height of the stack between runs.
const BASE: i32 = 2;

/// The first place of the registry: the mark of proxies.
pub(crate) const GUARD: c_int = 1;

/// What of the buffer for replies is kept for the next run.
pub(crate) const REPLY_KEPT_BYTES: usize = 64 << 10;

/// After how many instructions [`Host::interrupt`] is called while a library is loaded: each may take a tenth of a
/// second, when it joins strings of hundreds of megabytes, and that is not counted then.
pub const LOADING_INTERRUPT_EVERY: usize = 100;

/// How many sets of words scripts are searched for.
pub const SUSPECT_SETS: usize = 4;

/// The limits of a Lua state.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The bytes that a state may have, garbage included. A script that needs more fails with
    /// `not enough memory`.
    pub memory_bytes_max: usize,
    /// After the work of how many instructions [`Host::interrupt`] is called: 100,000 take half a millisecond.
    pub interrupt_every: usize,
    /// What `redis.REDIS_VERSION` is.
    pub version: (u8, u8, u8),
    /// Sets of words that scripts are searched for, in any case: [`crate::Scripts::is_suspect`].
    pub suspect_words: [&'static [&'static str]; SUSPECT_SETS],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            interrupt_every: 100_000,
            version: (7, 2, 0),
            suspect_words: [&[]; SUSPECT_SETS],
        }
    }
}

/// What a running script shares with the functions that it calls.
pub(crate) struct Run<'h> {
    pub(crate) host: &'h mut dyn Host,
    /// The replies of its calls, one at a time.
    pub(crate) reply: Writer,
    pub(crate) protocol: Protocol,
    pub(crate) random: Random,
    /// What FUNCTION LOAD has registered; none when a script or a function runs.
    pub(crate) registered: Option<Registry>,
    /// What it is told when it was stopped.
    pub(crate) stop_text: &'static str,
    stopped: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl Run<'_> {
    pub(crate) fn interrupt(&mut self) -> Interrupt {
        if !self.stopped {
            self.stopped = self.host.interrupt() == Interrupt::Stop;
        }
        if self.stopped { Interrupt::Stop } else { Interrupt::Continue }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn stop_by(&mut self, panic: Box<dyn Any + Send>) {
        self.stopped = true;
        self.panic = Some(panic);
    }
}

/// What is run, and with what.
pub(crate) struct Task<'t> {
    pub(crate) function: Reference,
    pub(crate) keys: &'t [&'t [u8]],
    pub(crate) arguments: &'t [&'t [u8]],
    /// What an error calls it.
    pub(crate) name: &'t [u8],
    /// Whether `keys` and `arguments` are the globals KEYS and ARGV; otherwise they are arguments.
    pub(crate) is_script: bool,
}

/// How a protected call went.
enum Called {
    /// Its result is on top.
    Returned,
    /// What it raised is on top.
    Raised { is_stopped: bool },
}

/// A Lua state.
#[derive(Debug)]
pub(crate) struct Machine {
    state: NonNull<lua_State>,
    heap: Box<Heap>,
    options: Options,
    reply: Writer,
    random: Random,
}

// SAFETY: nothing else has the state or points into the heap, and neither cares for threads.
unsafe impl Send for Machine {}

impl Machine {
    /// Creates a state with the libraries of scripts.
    pub(crate) fn new(options: Options, api: Api) -> Self {
        let heap = Heap::new(options.memory_bytes_max);
        // SAFETY: the heap is boxed and outlives the state. It refuses nothing now, so nothing
        // raises.
        let state = unsafe {
            let state = lua_newstate(allocate, (&raw const *heap).cast_mut().cast());
            NonNull::new(state).expect("memory is not refused")
        };
        let libraries: [lua_CFunction; 4] =
            [luaopen_base, luaopen_table, luaopen_string, luaopen_math];
        for library in libraries {
            // SAFETY: as above; a library is called like a function.
            unsafe {
                lua_pushcclosure(state.as_ptr(), library, 0);
                lua_call(state.as_ptr(), 0, 0);
            }
        }
        let mut machine =
            Self { state, heap, options, reply: Writer::default(), random: Random::default() };
        sandbox::furnish(&mut machine.frame(), options, api);
        assert_eq!(machine.frame().top(), BASE, "the handler and the globals");
        machine.heap.meter().begin(options.interrupt_every, false);
        machine.set_hook();
        machine.frame().collect(None);
        machine
    }

    /// The bytes that Lua has.
    pub(crate) fn used_bytes(&self) -> usize {
        self.heap.used_bytes()
    }

    pub(crate) fn options(&self) -> Options {
        self.options
    }

    /// Compiles source. The error is Lua's text.
    pub(crate) fn compile(&mut self, source: &[u8], name: &CStr) -> Result<Reference, NotCompiled> {
        match self.compile_once(source, name) {
            // The garbage of earlier runs may have had the memory: whether it compiles must not depend on that.
            Err(_) if self.heap.take_refused() => {
                self.frame().collect(None);
                self.compile_once(source, name)
            }
            compiled => compiled,
        }
    }

    fn compile_once(&mut self, source: &[u8], name: &CStr) -> Result<Reference, NotCompiled> {
        let mut frame = self.frame();
        if frame.compile(source, name) {
            return Ok(frame.keep());
        }
        let text = String::from_utf8_lossy(frame.bytes(-1).unwrap_or_default()).into_owned();
        frame.pop(1);
        Err(NotCompiled { text })
    }

    /// Drops a function.
    pub(crate) fn release(&mut self, function: Reference) {
        self.frame().release(function);
    }

    /// Runs a script or a function, and writes its reply.
    pub(crate) fn run(&mut self, task: &Task<'_>, host: &mut dyn Host, out: &mut Writer) -> Ending {
        let mut frame = self.frame();
        frame.push_kept(task.function);
        for (values, global) in [(task.keys, "KEYS"), (task.arguments, "ARGV")] {
            frame.push_table(values.len(), 0);
            for (value, number) in values.iter().zip(1..) {
                frame.push_bytes(value);
                frame.set_element(-2, number);
            }
            if task.is_script {
                frame.set_field(GLOBALS, global);
            }
        }
        let arguments = if task.is_script { 0 } else { 2 };
        let stop_text = if task.is_script { SCRIPT_STOPPED } else { FUNCTION_STOPPED };
        let limit = self.options.interrupt_every;
        self.heap.meter().begin(limit, false);
        let (called, mut run) = self.call(arguments, None, stop_text, host);
        let protocol = run.protocol;
        let ending = match called {
            Called::Returned => {
                // What it returned may be as good as endless: it still runs.
                self.during(&mut run, |frame| to_reply::value(frame, protocol, out))
            }
            Called::Raised { is_stopped } => {
                let ending = to_reply::raised(&mut self.frame(), task.name, out);
                if is_stopped { Ending::Stopped } else { ending }
            }
        };
        self.take_back(run);
        self.end_run();
        ending
    }

    /// Runs the source of a library, which registers its functions. The error is its text.
    pub(crate) fn register(
        &mut self,
        function: Reference,
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, NotRegistered> {
        match self.register_once(function, host) {
            // As in `compile`.
            Err(NotRegistered { was_short: true, .. }) => self.register_once(function, host),
            registered => registered,
        }
    }

    fn register_once(
        &mut self,
        function: Reference,
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, NotRegistered> {
        host.begin_loading();
        let mut frame = self.frame();
        frame.push_kept(function);
        let limit = self.options.interrupt_every.min(LOADING_INTERRUPT_EVERY);
        self.heap.meter().begin(limit, true);
        self.set_hook();
        let (called, mut run) = self.call(0, Some(Registry::default()), FUNCTION_STOPPED, host);
        let registered = run.registered.take().unwrap_or_default().into_functions();
        self.take_back(run);
        let mut frame = self.frame();
        let is_stopped = matches!(called, Called::Raised { is_stopped: true });
        let outcome = match called {
            Called::Returned => Ok(registered),
            Called::Raised { .. } => {
                for function in registered {
                    frame.release(function.callback);
                }
                let text = if is_stopped {
                    "ERR FUNCTION LOAD timeout".to_owned()
                } else {
                    String::from_utf8_lossy(&to_reply::error_line(&mut frame)).into_owned()
                };
                Err(NotRegistered { text, was_short: false })
            }
        };
        let was_short = self.end_run();
        outcome.map_err(|NotRegistered { text, .. }| {
            // What was stopped has had its time.
            NotRegistered { text, was_short: was_short && !is_stopped }
        })
    }

    /// Makes the globals of a library's first run, or of its functions, those that scripts see.
    pub(crate) fn show_globals(&mut self, is_loading: bool) {
        sandbox::show_globals(&mut self.frame(), is_loading);
    }

    /// Calls the function below its arguments, which are on top.
    fn call<'h>(
        &mut self,
        arguments: i32,
        registered: Option<Registry>,
        stop_text: &'static str,
        host: &'h mut dyn Host,
    ) -> (Called, Run<'h>) {
        let mut run = Run {
            host,
            reply: std::mem::take(&mut self.reply),
            protocol: Protocol::Resp2,
            random: self.random,
            registered,
            stop_text,
            stopped: false,
            panic: None,
        };
        self.heap.set_run(Some(NonNull::from(&mut run).cast()));
        self.heap.set_thread(self.state.as_ptr());
        // SAFETY: function and arguments are on the stack. Errors end at this call, in Lua's own
        // frames. `run` is used by functions that Lua calls, and here only afterwards.
        let status = unsafe {
            let _outside = self.heap.leave();
            lua_pcall(self.state.as_ptr(), arguments, 1, HANDLER)
        };
        self.heap.set_thread(std::ptr::null_mut());
        self.heap.set_run(None);
        if status == 0 {
            (Called::Returned, run)
        } else {
            let is_stopped = run.stopped;
            (Called::Raised { is_stopped }, run)
        }
    }

    /// Does something for a run that has returned, whose host can be asked meanwhile.
    fn during<T>(&mut self, run: &mut Run<'_>, act: impl FnOnce(&mut Frame<'_>) -> T) -> T {
        /// Also when the host panics, the run is gone afterwards.
        struct During<'h>(&'h Heap);
        impl Drop for During<'_> {
            fn drop(&mut self) {
                self.0.set_run(None);
            }
        }
        self.heap.set_run(Some(NonNull::from(run).cast()));
        // SAFETY: state and heap live as long as this value. `run` is used by the frame alone, and here only
        // afterwards.
        let mut frame = unsafe { Frame::between_runs(self.state.as_ptr()) };
        let _during = During(&self.heap);
        act(&mut frame)
    }

    /// Takes back what a run has borrowed, and goes on with its panic.
    fn take_back(&mut self, run: Run<'_>) {
        self.random = run.random;
        self.reply = run.reply;
        self.reply.reset(REPLY_KEPT_BYTES);
        if run.stopped {
            self.set_hook();
        }
        if let Some(panic) = run.panic {
            self.end_run();
            resume_unwind(panic);
        }
    }

    /// Drops what a run has left on the stack; and garbage at once, when memory has become short. Whether it has.
    fn end_run(&mut self) -> bool {
        self.frame().truncate(BASE);
        let is_short = self.heap.room() < self.heap.max_bytes() / 4;
        let collects = self.heap.take_refused() || is_short;
        if collects {
            self.frame().collect(None);
        }
        collects
    }

    /// Changes how many bytes Lua may have.
    pub(crate) fn limit_memory(&mut self, bytes: usize) {
        self.heap.set_max_bytes(bytes);
        self.end_run();
    }

    /// Sets the hook that counts instructions.
    fn set_hook(&mut self) {
        let every = self.heap.meter().hook_instructions(self.heap.used_bytes());
        // SAFETY: the state is valid.
        unsafe { lua_sethook(self.state.as_ptr(), Some(entry::hook), LUA_MASKCOUNT, every) };
    }

    /// The stack, while nothing runs.
    fn frame(&mut self) -> Frame<'_> {
        // SAFETY: state and heap live as long as this value.
        unsafe { Frame::between_runs(self.state.as_ptr()) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: nothing runs, and the heap is dropped afterwards.
        unsafe { lua_close(self.state.as_ptr()) };
    }
}

/// Lua's text about source that does not compile.
#[derive(Debug)]
pub(crate) struct NotCompiled {
    pub(crate) text: String,
}

/// The text of the error that a library raised.
#[derive(Debug)]
pub(crate) struct NotRegistered {
    pub(crate) text: String,
    /// Memory was short: there may be more now.
    was_short: bool,
}
