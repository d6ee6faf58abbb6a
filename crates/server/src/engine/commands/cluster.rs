//! CLUSTER, READONLY, READWRITE and ASKING: refused as a Redis without cluster mode refuses them.

use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// All of them.
pub(super) fn disabled(_engine: &mut Engine, _key: ClientKey, _args: &[&[u8]]) -> Done {
    Err(CommandError::other("ERR This instance has cluster support disabled"))
}
