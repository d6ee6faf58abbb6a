//! How much of a log is kept, as people write it: `all`, `10G`, `7d`.

use std::str::FromStr;
use std::time::Duration;

use crate::size::Size;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keep(pub(super) tap::log::Keep);

const UNITS: [(char, u64); 3] = [('d', 86_400), ('h', 3600), ('m', 60)];

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(tap::log::Keep::default()));
        }
        let age = UNITS.iter().find_map(|&(unit, seconds)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(Duration::from_secs(count.checked_mul(seconds)?))
        });
        let keep = match age {
            Some(age) => tap::log::Keep { age_max: Some(age), bytes_max: None },
            None => {
                let size: Size = text.parse().map_err(|_not_a_size| {
                    format!("'{text}' is not all, a size (10G) or an age (7d)")
                })?;
                tap::log::Keep { age_max: None, bytes_max: Some(size.0) }
            }
        };
        Ok(Self(keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_and_ages_are_read() {
        let keep = |text: &str| text.parse::<Keep>().map(|keep| (keep.0.bytes_max, keep.0.age_max));
        assert_eq!(keep("all"), Ok((None, None)));
        assert_eq!(keep("10G"), Ok((Some(10 << 30), None)));
        // A month has no letter: m is minutes, and M is mebibytes.
        assert_eq!(keep("10M"), Ok((Some(10 << 20), None)));
        assert_eq!(keep("10m"), Ok((None, Some(Duration::from_secs(600)))));
        assert_eq!(keep("7d"), Ok((None, Some(Duration::from_secs(604_800)))));
        assert!(keep("some").is_err());
    }
}
