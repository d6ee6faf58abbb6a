//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO.

use command::argument;
use command::error::{CommandError, Done};

use super::super::sessions::Sessions;
use super::super::tracking::{Mode, Tracker};
use super::super::{ClientKey, Engine};
use super::error;

/// CLIENT TRACKING.
pub(super) fn tracking(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let options = Options::parse(&args[3..], &engine.sessions)?;
    if argument::is(args[2], "on") {
        let mode = options.mode(engine.sessions[key].session.tracking.as_deref())?;
        let Options { redirect, is_own_kept, prefixes, .. } = options;
        let asked = Tracker::new(mode, redirect, is_own_kept);
        let started = engine.start_tracking(key, asked, &prefixes);
        started.map_err(|overlap| error(overlap.to_string()))?;
    } else if argument::is(args[2], "off") {
        engine.stop_tracking(key);
    } else {
        return Err(CommandError::Syntax);
    }
    engine.reply(key).ok();
    Ok(())
}

/// What CLIENT TRACKING is told.
#[derive(Default)]
struct Options<'a> {
    redirect: Option<u64>,
    is_broadcast: bool,
    is_opt_in: bool,
    is_opt_out: bool,
    is_own_kept: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(mut words: &[&'a [u8]], sessions: &Sessions) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let [option, rest @ ..] = words {
            words = rest;
            match option.to_ascii_lowercase().as_slice() {
                b"bcast" => options.is_broadcast = true,
                b"optin" => options.is_opt_in = true,
                b"optout" => options.is_opt_out = true,
                b"noloop" => options.is_own_kept = true,
                b"redirect" | b"prefix" => {
                    let [value, rest @ ..] = words else { return Err(CommandError::Syntax) };
                    words = rest;
                    if argument::is(option, "prefix") {
                        options.prefixes.push(value);
                    } else {
                        options.set_redirect(value, sessions)?;
                    }
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    fn set_redirect(&mut self, id: &[u8], sessions: &Sessions) -> Result<(), CommandError> {
        if self.redirect.is_some() {
            return Err(CommandError::other(
                "ERR A client can only redirect to a single other client",
            ));
        }
        let id = u64::try_from(argument::int(id)?).ok();
        let id = id.filter(|id| sessions.lasting_client(*id).is_some());
        self.redirect = Some(
            id.ok_or(CommandError::other("ERR The client ID you want redirect to does not exist"))?,
        );
        Ok(())
    }

    /// The mode that the options say, if they fit each other and how the client tracks already.
    fn mode(&self, before: Option<&Tracker>) -> Result<Mode, CommandError> {
        let before = before.map(|tracker| tracker.mode);
        let refuse = |why| Err(CommandError::other(why));
        if !self.is_broadcast && !self.prefixes.is_empty() {
            return refuse("ERR PREFIX option requires BCAST mode to be enabled");
        }
        if before.is_some_and(|before| (before == Mode::Broadcast) != self.is_broadcast) {
            return refuse(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            );
        }
        if self.is_broadcast && (self.is_opt_in || self.is_opt_out) {
            return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
        }
        if self.is_opt_in && self.is_opt_out {
            return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
        }
        if (self.is_opt_in && before == Some(Mode::OptOut))
            || (self.is_opt_out && before == Some(Mode::OptIn))
        {
            return refuse(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            );
        }
        Ok(match self {
            Self { is_broadcast: true, .. } => Mode::Broadcast,
            Self { is_opt_in: true, .. } => Mode::OptIn,
            Self { is_opt_out: true, .. } => Mode::OptOut,
            _ => Mode::Read,
        })
    }
}

/// CLIENT CACHING.
pub(super) fn caching(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let Some(tracker) = engine.sessions[key].session.tracking.as_deref_mut() else {
        return Err(CommandError::other(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ));
    };
    let is_yes = argument::is(args[2], "yes");
    if !is_yes && !argument::is(args[2], "no") {
        return Err(CommandError::Syntax);
    }
    match (is_yes, tracker.mode) {
        (true, Mode::OptIn) | (false, Mode::OptOut) => tracker.is_caching_said = true,
        (true, _) => {
            return Err(CommandError::other(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        (false, _) => {
            return Err(CommandError::other(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
    }
    engine.reply(key).ok();
    Ok(())
}

/// The client that is told in the place of another: 0 if none is, -1 if it does not track.
fn redirect_of(tracker: Option<&Tracker>) -> i64 {
    tracker.map_or(-1, |tracker| tracker.redirect.unwrap_or_default().cast_signed())
}

/// CLIENT GETREDIR.
pub(super) fn getredir(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let redirect = redirect_of(engine.sessions[key].session.tracking.as_deref());
    engine.reply(key).int(redirect);
    Ok(())
}

/// CLIENT TRACKINGINFO.
pub(super) fn trackinginfo(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let client = &mut engine.sessions[key];
    let tracker = client.session.tracking.as_deref();
    let reply = client.connection.output.writer();
    let flags = flags_of(tracker);
    reply.map(3);
    reply.bulk_str("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk_str(flag));
    reply.bulk_str("redirect");
    reply.int(redirect_of(tracker));
    reply.bulk_str("prefixes");
    reply.array(tracker.map_or(0, |tracker| tracker.prefixes.len()));
    tracker.into_iter().flat_map(|tracker| &tracker.prefixes).for_each(|it| reply.bulk(it));
    Ok(())
}

/// How a client tracks, in words.
fn flags_of(tracker: Option<&Tracker>) -> Vec<&'static str> {
    let Some(tracker) = tracker else { return vec!["off"] };
    let mut flags = vec!["on"];
    let said = |word| if tracker.is_caching_said { Some(word) } else { None };
    match tracker.mode {
        Mode::Read => {}
        Mode::Broadcast => flags.push("bcast"),
        Mode::OptIn => flags.extend([Some("optin"), said("caching-yes")].into_iter().flatten()),
        Mode::OptOut => flags.extend([Some("optout"), said("caching-no")].into_iter().flatten()),
    }
    if tracker.is_own_kept {
        flags.push("noloop");
    }
    if tracker.is_broken {
        flags.push("broken_redirect");
    }
    flags
}
