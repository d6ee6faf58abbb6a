//! Why a script or a library was not taken, with Redis' texts.

/// Why a script cannot be run. The text is the error reply without its code `ERR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The first line begins with `#!` and does not end.
    #[error("Invalid script shebang")]
    UnendedShebang,
    /// The first line has an open quotation mark.
    #[error("Invalid engine in script shebang")]
    InvalidShebang,
    /// The first line does not begin with `#!lua`.
    #[error("Unexpected engine in script shebang: {0}")]
    UnknownEngine(String),
    /// A flag in the first line is none of Redis'.
    #[error("Unexpected flag in script shebang: {0}")]
    UnknownFlag(String),
    /// The first line has another word than `flags=`.
    #[error("Unknown lua shebang option: {0}")]
    UnknownOption(String),
    /// The source is not Lua.
    #[error("Error compiling script (new function): {0}")]
    NotCompiled(String),
}

/// Why a library is not loaded, found or called. The text is the error reply without its code `ERR`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The source does not begin with `#!`.
    #[error("Missing library metadata")]
    NoMetadata,
    /// The first line does not end, or has an open quotation mark.
    #[error("Invalid library metadata")]
    InvalidMetadata,
    /// The first line has `name=` twice.
    #[error("Invalid metadata value, name argument was given multiple times")]
    RepeatedName,
    /// The first line has another word than `name=`.
    #[error("Invalid metadata value given: {0}")]
    UnknownMetadata(String),
    /// The first line has no `name=`.
    #[error("Library name was not given")]
    NoName,
    /// The name has other characters.
    #[error(
        "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
    )]
    InvalidName,
    /// The engine is not Lua.
    #[error("Engine '{0}' not found")]
    UnknownEngine(String),
    /// There is a library of this name, which must not be replaced.
    #[error("Library '{0}' already exists")]
    Exists(String),
    /// The same of one that is restored.
    #[error("Library {0} already exists")]
    RestoredExists(String),
    /// The source has more bytes than it may have.
    #[error("Library code of {0} bytes is too long: it may have {1}; keep data in keys")]
    TooLong(usize, usize),
    /// There are as many libraries as there may be.
    #[error("Too many libraries: there may be {0}; put several functions into one")]
    TooMany(usize),
    /// The sources of all libraries would have more bytes than they may have.
    #[error(
        "Libraries would have {0} bytes of code together: they may have {1}; delete some, or keep data in keys"
    )]
    NoRoom(usize, usize),
    /// All libraries keep more bytes in Lua than they may.
    #[error(
        "Libraries would keep {0} bytes of memory together: they may have {1}; keep data in keys"
    )]
    TooMuchMemory(usize, usize),
    /// The source is not Lua.
    #[error("Error compiling function: {0}")]
    NotCompiled(String),
    /// The source raised an error when it was run.
    #[error("Error registering functions: {0}")]
    Failed(String),
    /// The source registered nothing.
    #[error("No functions registered")]
    Empty,
    /// Another library has a function of this name.
    #[error("Function {0} already exists")]
    FunctionExists(String),
    /// There is no library of this name.
    #[error("Library not found")]
    NotFound,
}
