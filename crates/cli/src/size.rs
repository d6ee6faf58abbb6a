//! Sizes as people write them: `64M`, `1.5G`, in units of 1024.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a size such as 4096, 64M or 2G");
        let upper = text.to_ascii_uppercase();
        let digits = upper.trim_end_matches("IB").trim_end_matches('B');
        let (digits, shift) = UNITS
            .iter()
            .find_map(|&(unit, shift)| Some((digits.strip_suffix(unit)?, shift)))
            .unwrap_or((digits, 0));
        let count: u64 = digits.parse().map_err(|_not_a_number| wrong())?;
        count.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().rev().find(|&&(_, shift)| self.0 >= 1 << shift);
        match unit {
            Some(&(unit, shift)) => {
                write!(f, "{:.1} {unit}iB", self.0 as f64 / f64::from(shift).exp2())
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64M", 64 << 20), ("2GiB", 2 << 30), ("1k", 1024)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "M", "-1", "1X", "99999999T"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Size(5).to_string(), "5 B");
    }
}
