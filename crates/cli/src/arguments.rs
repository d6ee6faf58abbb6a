//! The arguments of a subcommand, and what is said of those that are wrong.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// What the arguments behind `indelible` say; otherwise help or a complaint was shown, and this is the
/// exit code: `wrong` for a complaint.
pub(crate) fn parse<T: Parser, A: Into<OsString> + Clone>(
    arguments: &[A],
    wrong: ExitCode,
) -> Result<T, ExitCode> {
    T::try_parse_from(arguments.iter().cloned()).map_err(|error| {
        // Help goes to standard output, complaints to standard error; clap knows which is which.
        let _ignored = error.print();
        if error.use_stderr() { wrong } else { ExitCode::SUCCESS }
    })
}
