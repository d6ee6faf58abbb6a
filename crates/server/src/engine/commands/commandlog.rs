//! SLOWLOG.

use command::argument;
use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// How many entries SLOWLOG GET shows by default.
const SHOWN_DEFAULT: usize = 10;

/// SLOWLOG GET.
pub(super) fn get(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = match args.get(2) {
        None => SHOWN_DEFAULT,
        Some(count) => {
            const WRONG: CommandError =
                CommandError::other("ERR count should be greater than or equal to -1");
            match argument::int(count).map_err(|_| WRONG)? {
                -1 => engine.observed.slowlog.len(),
                count => usize::try_from(count).map_err(|_| WRONG)?,
            }
        }
    };
    let writer = engine.sessions[key].connection.output.writer();
    engine.observed.slowlog.write(count, writer);
    Ok(())
}

/// SLOWLOG LEN.
pub(super) fn len(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let len = engine.observed.slowlog.len();
    engine.reply(key).count(len);
    Ok(())
}

/// SLOWLOG RESET.
pub(super) fn reset(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.observed.slowlog.reset();
    engine.reply(key).ok();
    Ok(())
}
