//! What a run has found, written for the comparison of runs.

use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

/// Writes `outcome` to the file that was asked for, if one was.
pub(crate) fn write(path: Option<&Path>, outcome: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(outcome).expect("it is plain data");
    std::fs::write(path, text).map_err(Error::file(path))
}
