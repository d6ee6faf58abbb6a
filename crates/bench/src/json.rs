//! Results of runs, written as JSON for comparison.

use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};

/// Writes `outcome` to `path`, if given.
pub(crate) fn write(path: Option<&Path>, outcome: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(outcome).expect("it is plain data");
    std::fs::write(path, text).map_err(Error::file(path))
}
