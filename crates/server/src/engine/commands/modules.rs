//! MODULE: there are no modules, and none can be loaded.

use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// How Redis refuses MODULE LOAD and its like where `enable-module-command` is `no`.
pub(in crate::engine) const REFUSAL: &str = "ERR MODULE command not allowed. If the enable-module-command option is \
     set to \"local\", you can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.";

/// MODULE LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.reply(key).array(0);
    Ok(())
}

/// MODULE LOAD, LOADEX and UNLOAD.
pub(super) fn refused(_engine: &mut Engine, _key: ClientKey, _args: &[&[u8]]) -> Done {
    Err(CommandError::other(REFUSAL))
}
