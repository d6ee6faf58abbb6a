//! One configuration directive: its name, its values, and when it may be changed.
//!
//! A value is kept as its canonical text: `100mb` becomes `104857600` when it is set. CONFIG GET shows
//! that, but for percentages, which are negative numbers. So a value needs no type of its own; [`super::Options`] reads the
//! texts once into what the server works with.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::refusal::ValueError;

/// What a directive's value looks like.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// A whole number, in this unit, within these bounds.
    Number(Unit, RangeInclusive<i128>),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Some of these words; the first one stands alone and means the default.
    Choices(&'static [&'static str]),
    /// Any text.
    Text,
    /// The name of a file without a directory.
    FileName,
    /// Several words; the function checks them, given the value so far and whether a file is being
    /// read (where some directives add up over several lines).
    Words(fn(&WordsSet<'_>) -> Result<String, ValueError>),
    /// A line of a file that says something of its own (`include`, `rename-command`): it has no
    /// value, so CONFIG GET and SET do not know it, and CONFIG REWRITE leaves it alone.
    Line,
}

/// What the server makes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what its documentation says.
    Kept,
    /// It is accepted, shown and rewritten, and nothing depends on its value.
    WithoutEffect,
    /// Only its default is accepted: to serve with any other value would be unsafe or untrue. The
    /// text says what is not there, and how to go on.
    Refused(&'static str),
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As it is.
    Integer,
    /// Bytes, possibly with k, kb, m, mb, g or gb behind.
    Memory,
    /// Bytes, or a percentage, which is kept as a negative number.
    MemoryOrPercent,
    /// With base eight.
    Octal,
}

/// The words that a [`Kind::Words`] directive is set to.
pub struct WordsSet<'a> {
    /// The value so far.
    pub old: &'a str,
    /// The new words.
    pub words: &'a [&'a str],
    /// Whether this is a line of a file, not CONFIG SET.
    pub from_file: bool,
}

/// A directive.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The name in files and commands, in lower case.
    pub name: &'static str,
    /// The older name that also works.
    pub alias: Option<&'static str>,
    /// Names that later versions of Redis, and Valkey, gave it: they work too, and are shown only
    /// when they are asked for.
    pub later_names: &'static [&'static str],
    /// What the server makes of it.
    pub support: Support,
    /// What its values look like.
    pub kind: Kind,
    /// The canonical text of the default value.
    pub default: DefaultValue,
    /// CONFIG SET cannot change it.
    pub immutable: bool,
    /// CONFIG SET changes it only when `enable-protected-configs` allows.
    pub protected: bool,
    /// Its value is a secret: logs and the slow log must not show it.
    pub sensitive: bool,
    /// CONFIG GET shows it only when asked by its exact name.
    pub hidden: bool,
}

/// A default, as the table writes it.
#[derive(Clone, Copy, Debug)]
pub enum DefaultValue {
    /// A text as it is.
    Text(&'static str),
    /// A number.
    Number(i128),
}

impl Directive {
    pub(super) const fn new(name: &'static str, kind: Kind, default: DefaultValue) -> Self {
        Self {
            name,
            alias: None,
            later_names: &[],
            support: Support::Kept,
            kind,
            default,
            immutable: false,
            protected: false,
            sensitive: false,
            hidden: false,
        }
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn later_names(mut self, names: &'static [&'static str]) -> Self {
        self.later_names = names;
        self
    }

    pub(super) const fn without_effect(mut self) -> Self {
        self.support = Support::WithoutEffect;
        self
    }

    pub(super) const fn refused(mut self, why: &'static str) -> Self {
        self.support = Support::Refused(why);
        self
    }

    pub(super) const fn immutable(mut self) -> Self {
        self.immutable = true;
        self
    }

    pub(super) const fn protected(mut self) -> Self {
        self.protected = true;
        self
    }

    pub(super) const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Whether it is called `name`, in any case of letters.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.all_names().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Every name that it has or had.
    pub fn all_names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias).chain(self.later_names.iter().copied())
    }

    /// Whether it has a value: all but the lines with a meaning of their own.
    #[must_use]
    pub fn has_value(&self) -> bool {
        !matches!(self.kind, Kind::Line)
    }

    /// Whether its value may consist of several words.
    #[must_use]
    pub fn takes_words(&self) -> bool {
        matches!(self.kind, Kind::Words(_) | Kind::Choices(_))
    }

    /// The canonical text of the default.
    #[must_use]
    pub fn default_text(&self) -> String {
        match self.default {
            DefaultValue::Text(text) => text.to_owned(),
            DefaultValue::Number(number) => number.to_string(),
        }
    }

    /// A value as CONFIG GET shows it and CONFIG SET takes it.
    #[must_use]
    pub(super) fn shown<'a>(&self, value: &'a str) -> Cow<'a, str> {
        match (&self.kind, value.strip_prefix('-')) {
            (Kind::Number(Unit::MemoryOrPercent, _), Some(percent)) => format!("{percent}%").into(),
            _ => value.into(),
        }
    }

    /// The canonical text of the value that `words` say, or what is wrong with them.
    pub(super) fn parse(&self, set: &WordsSet<'_>) -> Result<String, ValueError> {
        if let Kind::Words(check) = self.kind {
            return check(set);
        }
        if let Kind::Choices(known) = &self.kind {
            return parse_choices(known, set.words);
        }
        let [value] = set.words else { return Err(ValueError::WordCount) };
        match &self.kind {
            Kind::YesNo => match value.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err(ValueError::NotYesNo),
            },
            Kind::Number(unit, bounds) => parse_number(*unit, bounds, value),
            Kind::Choice(known) => parse_choices(known, &[value]),
            Kind::FileName if value.contains('/') || matches!(*value, "." | "..") => {
                let noun = if self.name == "appenddirname" { "dirname" } else { "filename" };
                Err(ValueError::Path { directive: self.name, noun })
            }
            Kind::Text | Kind::FileName | Kind::Words(_) | Kind::Choices(_) | Kind::Line => {
                Ok((*value).to_owned())
            }
        }
    }
}

fn parse_choices(known: &'static [&'static str], words: &[&str]) -> Result<String, ValueError> {
    let chosen: Option<Vec<&str>> = words
        .iter()
        .map(|word| known.iter().copied().find(|name| name.eq_ignore_ascii_case(word)))
        .collect();
    match chosen {
        Some(chosen) if !chosen.is_empty() => Ok(chosen.join(" ")),
        _ => Err(ValueError::Choice { known }),
    }
}

fn parse_number(
    unit: Unit,
    bounds: &RangeInclusive<i128>,
    text: &str,
) -> Result<String, ValueError> {
    let number = match unit {
        Unit::Integer => strict_integer(text).ok_or(ValueError::NotInteger)?,
        Unit::Memory => parse_memory(text).ok_or(ValueError::NotMemory)?,
        Unit::MemoryOrPercent => match text.strip_suffix('%').and_then(strict_integer) {
            Some(percent) if percent >= 0 => -percent,
            _ => parse_memory(text).ok_or(ValueError::NotMemoryOrPercent)?,
        },
        Unit::Octal => i128::from(i64::from_str_radix(text, 8).map_err(|_| ValueError::NotOctal)?),
    };
    if bounds.contains(&number) {
        return Ok(if unit == Unit::Octal { format!("{number:o}") } else { number.to_string() });
    }
    let (min, max) = (*bounds.start(), *bounds.end());
    Err(match unit {
        Unit::MemoryOrPercent if number < 0 => ValueError::PercentTooLarge { max: -min },
        Unit::Octal => ValueError::OctalOutOfBounds { min, max },
        _ => ValueError::OutOfBounds { min, max },
    })
}

/// A 64-bit number in Redis' strict spelling.
fn strict_integer(text: &str) -> Option<i128> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(i128::from(number))
}

/// A number of bytes: digits and perhaps a unit (`k` is 1000, `kb` is 1024).
#[must_use]
pub fn parse_memory(text: &str) -> Option<i128> {
    let digits_len = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_len);
    let factor: i128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i128>().ok()?.checked_mul(factor).filter(|bytes| *bytes <= i128::from(u64::MAX))
}

/// A number of bytes with the largest unit that divides it, as CONFIG REWRITE writes it.
#[must_use]
pub(super) fn format_memory(bytes: i128) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(unit: Unit, bounds: RangeInclusive<i128>, text: &str) -> Result<String, ValueError> {
        parse_number(unit, &bounds, text)
    }

    #[test]
    fn memory_has_units() {
        assert_eq!(number(Unit::Memory, 0..=i128::MAX, "100mb").unwrap(), "104857600");
        assert_eq!(number(Unit::Memory, 0..=i128::MAX, "1K").unwrap(), "1000");
        assert_eq!(
            number(Unit::Memory, 0..=i128::MAX, "1x").unwrap_err().to_string(),
            "argument must be a memory value"
        );
        assert_eq!(number(Unit::MemoryOrPercent, -100..=i128::MAX, "5%").unwrap(), "-5");
        assert_eq!(
            number(Unit::MemoryOrPercent, -100..=i128::MAX, "101%").unwrap_err().to_string(),
            "percentage argument must be less or equal to 100"
        );
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(number(Unit::Integer, 1..=10, "7").unwrap(), "7");
        assert_eq!(
            number(Unit::Integer, 1..=10, "11").unwrap_err().to_string(),
            "argument must be between 1 and 10 inclusive"
        );
        assert_eq!(
            number(Unit::Integer, 1..=10, "7x").unwrap_err().to_string(),
            "argument couldn't be parsed into an integer"
        );
        assert_eq!(number(Unit::Octal, 0..=0o777, "700").unwrap(), "700");
        assert_eq!(
            number(Unit::Octal, 0..=0o777, "1000").unwrap_err().to_string(),
            "argument must be between 0 and 777 inclusive"
        );
    }

    #[test]
    fn memory_is_written_with_the_largest_unit() {
        assert_eq!(format_memory(0), "0");
        assert_eq!(format_memory(3 << 30), "3gb");
        assert_eq!(format_memory(100 << 20), "100mb");
        assert_eq!(format_memory(1023), "1023");
    }
}
