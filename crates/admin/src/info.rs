//! The reply of INFO as names and values.

use std::collections::HashMap;
use std::str::FromStr;

/// See the file's top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    values: HashMap<String, String>,
}

impl Info {
    /// Reads a reply. Of names that come several times the last one counts; lines that have no name are left out.
    pub(crate) fn parse(reply: &str) -> Self {
        let lines = reply.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(':'));
        Self { values: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// The value of this name; empty without one.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The number of this name, if it has one.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Option<T> {
        self.values.get(name)?.trim_end_matches('%').parse().ok()
    }

    /// The same, 0 without one.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.get(name).unwrap_or_default()
    }

    /// Whether it is 1.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.text(name) == "1"
    }

    /// The databases that have keys, by number: keys, and how many of them expire.
    pub(crate) fn databases(&self) -> Vec<(u64, u64, u64)> {
        let database = |(name, value): (&String, &String)| {
            let number = name.strip_prefix("db")?.parse().ok()?;
            let part = |at: usize| value.split(',').nth(at)?.split_once('=')?.1.parse::<u64>().ok();
            Some((number, part(0)?, part(1)?))
        };
        let mut all: Vec<(u64, u64, u64)> = self.values.iter().filter_map(database).collect();
        all.sort_unstable();
        all
    }

    /// How many keys there are in all databases.
    pub(crate) fn keys(&self) -> u64 {
        self.databases().iter().fold(0, |sum, it| sum.saturating_add(it.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_names_and_values() {
        let info = Info::parse(
            "# Memory\r\nused_memory:12\r\nperc:9.50%\r\nhealth:a: b\r\n\r\n# Keyspace\r\ndb10:keys=3,expires=1,avg_ttl=0\r\n\
             db2:keys=4,expires=0,avg_ttl=0\r\n",
        );
        assert_eq!((info.number("used_memory"), info.number("none")), (12, 0));
        assert_eq!((info.text("health"), info.get::<f64>("perc")), ("a: b", Some(9.5)));
        assert_eq!(info.databases(), [(2, 4, 0), (10, 3, 1)]);
    }
}
