//! A script, or a function, that runs in steps: what it asks of its host is answered between two of them.
//!
//! ```text
//!   owner   begin ─► step ─────────────────► step(answer) ─► …                     ─► Step::Ends
//!   script       └─► runs ─► Step::Asks ─┘ └► runs ─► Step::Asks ─┘   waits, as long as its owner likes
//! ```
//!
//! The script has a stack of its own, which waits as it is while its owner does something else. So an owner that has
//! only one thread can execute the commands that a script calls, lend itself to nothing meanwhile, and leave a
//! script alone that runs for long. A step costs some nanoseconds more than a call.

use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use resp::{Protocol, Writer};

use crate::host::{Ending, Host, Interrupt, Level, Permission};
use crate::libraries::{Function, Libraries};
use crate::scripts::{Script, Scripts};

/// What a script's stack has: address space, of which a script takes what it uses. Lua limits how deep calls go in C
/// (200), and `cjson` and replies how deep values are (1000).
const STACK_BYTES: usize = 4 << 20;

/// Some texts in a row.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arguments {
    /// A copy of these.
    #[must_use]
    pub fn of(values: &[&[u8]]) -> Self {
        let mut arguments = Self::default();
        arguments.set(values);
        arguments
    }

    fn set(&mut self, values: &[&[u8]]) {
        self.bytes.clear();
        self.ends.clear();
        for value in values {
            self.bytes.extend_from_slice(value);
            self.ends.push(self.bytes.len());
        }
    }

    /// Each of them.
    #[must_use]
    pub fn slices(&self) -> Vec<&[u8]> {
        let mut from = 0;
        let slice = |end: &usize| &self.bytes[std::mem::replace(&mut from, *end)..*end];
        self.ends.iter().map(slice).collect()
    }
}

/// A command that the script calls: to be executed, and answered with its reply in it.
#[derive(Debug)]
pub struct Call {
    /// The command and what it is called with: at least one.
    pub arguments: Arguments,
    /// Where its reply is written, in the protocol that it has.
    pub reply: Writer,
}

/// What a script asks of its host: see [`Host`].
#[derive(Debug)]
pub enum Ask {
    /// A command; answered by [`Answer::Called`].
    Call(Call),
    /// A line for the log; answered by [`Answer::Go`].
    Log(Level, Vec<u8>),
    /// Whether the user may execute this; answered by [`Answer::Permission`].
    Permission(Arguments),
    /// Whether it may go on; answered by [`Answer::Go`] or [`Answer::Stop`].
    Interrupt,
    /// The time; answered by [`Answer::Clock`].
    Clock,
}

/// What a script is told.
#[derive(Debug)]
pub enum Answer {
    /// Begin; or go on.
    Go,
    /// End, with an error that it cannot catch: an answer to everything.
    Stop,
    /// The reply of a command.
    Called(Call),
    /// See [`Ask::Permission`].
    Permission(Permission),
    /// See [`Ask::Clock`].
    Clock(Duration),
}

/// What is run, with the interpreter that has it.
pub enum Program {
    /// A script.
    Script(Box<Scripts>, Script),
    /// A function of a library.
    Function(Box<Libraries>, Function),
}

/// An interpreter that has run something.
pub enum Interpreter {
    /// That of scripts.
    Scripts(Box<Scripts>),
    /// That of libraries.
    Libraries(Box<Libraries>),
}

impl Program {
    fn run(
        self,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Writer,
    ) -> (Interpreter, Ending) {
        match self {
            Self::Script(mut scripts, script) => {
                let ending = scripts.run(script, keys, arguments, host, out);
                (Interpreter::Scripts(scripts), ending)
            }
            Self::Function(mut libraries, function) => {
                let ending = libraries.call(&function, keys, arguments, host, out);
                (Interpreter::Libraries(libraries), ending)
            }
        }
    }
}

/// The script has ended.
pub struct Ended {
    /// What has run it, with all that it has.
    pub interpreter: Interpreter,
    /// How it has ended.
    pub ending: Ending,
    /// Its reply.
    pub reply: Writer,
}

/// Why a step is over.
pub enum Step {
    /// The script wants to know.
    Asks(Ask),
    /// It has ended, and is not stepped again.
    Ends(Ended),
}

/// The stack of a script that has ended, for the next one.
pub struct Stack(DefaultStack);

/// Why no script can be run: the system has no memory for its stack.
#[derive(Debug, thiserror::Error)]
#[error("no memory for the stack of a script: {0}")]
pub struct NoStack(#[from] std::io::Error);

impl Stack {
    /// A stack.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn new() -> Result<Self, NoStack> {
        Ok(Self(DefaultStack::new(STACK_BYTES)?))
    }
}

/// See the file's top.
pub struct Execution {
    /// None once it has ended.
    coroutine: Option<Coroutine<Answer, Ask, Ended, DefaultStack>>,
}

impl Execution {
    /// A script that begins with the first step. Its reply is written in `protocol`, and is over when it would be longer
    /// than so many bytes: what a script returns may be as good as endless, because a table can hold the same
    /// one twice.
    #[must_use]
    pub fn new(
        stack: Stack,
        program: Program,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        (protocol, reply_bytes_max): (Protocol, usize),
    ) -> Self {
        let (keys, arguments) = (Arguments::of(keys), Arguments::of(arguments));
        let run = move |yielder: &Yielder<Answer, Ask>, first: Answer| {
            let is_stopped = matches!(first, Answer::Stop);
            let mut host = SteppedHost { yielder, spare: Arguments::default(), is_stopped };
            let mut reply = Writer::new(protocol);
            reply.limit(reply_bytes_max);
            let (keys, arguments) = (keys.slices(), arguments.slices());
            let (interpreter, ending) = program.run(&keys, &arguments, &mut host, &mut reply);
            Ended { interpreter, ending, reply }
        };
        Self { coroutine: Some(Coroutine::with_stack(stack.0, run)) }
    }

    /// Goes on until it asks something or ends; then its stack can be had.
    ///
    /// # Panics
    /// When it has ended.
    pub fn step(&mut self, answer: Answer) -> Step {
        let coroutine = self.coroutine.as_mut().expect("it has not ended");
        match coroutine.resume(answer) {
            CoroutineResult::Yield(ask) => Step::Asks(ask),
            CoroutineResult::Return(ended) => Step::Ends(ended),
        }
    }

    /// The stack of a script that has ended.
    ///
    /// # Panics
    /// When it has not.
    #[must_use]
    pub fn into_stack(mut self) -> Stack {
        Stack(self.coroutine.take().expect("it has a stack").into_stack())
    }
}

impl Drop for Execution {
    /// A script that was left alone is stopped: what it has on its stack must be dropped.
    fn drop(&mut self) {
        while let Some(coroutine) = &mut self.coroutine
            && !coroutine.done()
        {
            let _asked = coroutine.resume(Answer::Stop);
        }
    }
}

/// The host that asks its owner.
struct SteppedHost<'y> {
    yielder: &'y Yielder<Answer, Ask>,
    /// Memory for the arguments of the next call.
    spare: Arguments,
    is_stopped: bool,
}

impl SteppedHost<'_> {
    /// Asks. What was stopped does not ask again.
    fn ask(&mut self, ask: Ask) -> Answer {
        if self.is_stopped {
            return Answer::Stop;
        }
        let answer = self.yielder.suspend(ask);
        self.is_stopped = matches!(answer, Answer::Stop);
        answer
    }
}

impl Host for SteppedHost<'_> {
    fn call(&mut self, arguments: &[&[u8]], reply: &mut Writer) {
        let mut copies = std::mem::take(&mut self.spare);
        copies.set(arguments);
        let call = Call { arguments: copies, reply: std::mem::take(reply) };
        match self.ask(Ask::Call(call)) {
            Answer::Called(call) => (self.spare, *reply) = (call.arguments, call.reply),
            _ => reply.error("ERR the script was stopped"),
        }
    }

    fn log(&mut self, level: Level, line: &[u8]) {
        self.ask(Ask::Log(level, line.to_vec()));
    }

    fn permission(&mut self, arguments: &[&[u8]]) -> Permission {
        match self.ask(Ask::Permission(Arguments::of(arguments))) {
            Answer::Permission(permission) => permission,
            _ => Permission::Denied,
        }
    }

    fn interrupt(&mut self) -> Interrupt {
        match self.ask(Ask::Interrupt) {
            Answer::Stop => Interrupt::Stop,
            _ => Interrupt::Continue,
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    fn clock(&mut self) -> Duration {
        match self.ask(Ask::Clock) {
            Answer::Clock(time) => time,
            _ => Duration::ZERO,
        }
    }
}
