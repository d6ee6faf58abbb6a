//! The arguments of a subcommand, and what is said of those that are wrong.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// Does what the arguments behind `indelible` say. An error is shown and is exit code 1, as what is wrong with the
/// arguments is.
pub(crate) fn run<T: Parser, A: Into<OsString> + Clone>(
    arguments: &[A],
    run: impl FnOnce(T) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let arguments = match parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run(arguments).unwrap_or_else(|error| {
        eprintln!("{}", with_causes(&error));
        ExitCode::FAILURE
    })
}

/// An error and its causes, each said once: most errors say their cause themselves.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

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
