//! A strict reader of OpenMetrics 1.0 text, as far as the server writes it.

use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) unit: String,
    pub(crate) help: String,
    /// By the sample's name, with its labels as they are written.
    pub(crate) samples: Vec<(String, String, f64)>,
}

/// Reads a scrape; panics where the text is not as the specification says.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in body.split_terminator('\n') {
        assert!(!line.is_empty() && line.trim() == line, "{line:?}");
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            if name != current {
                assert!(!families.contains_key(name), "{name} is not together");
                current = name.to_owned();
            }
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.samples.is_empty(), "{line} behind samples");
            let field = match word {
                "HELP" => &mut family.help,
                "TYPE" => &mut family.kind,
                "UNIT" => &mut family.unit,
                _ => panic!("{line}"),
            };
            assert!(field.is_empty(), "{line} twice");
            value.clone_into(field);
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| {
            (name, labels.strip_suffix('}').expect("labels end"))
        });
        check_labels(labels);
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(seen.insert(series.to_owned()), "{series} twice");
        let family = families.get_mut(&current).expect("a type comes first");
        let suffix =
            name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line} in {current}"));
        let allowed: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_count", "_sum"],
            kind => panic!("{kind}"),
        };
        assert!(allowed.contains(&suffix), "{line} of a {}", family.kind);
        assert!(family.kind != "counter" || value >= 0.0, "{line}");
        family.samples.push((name.to_owned(), labels.to_owned(), value));
    }
    for (name, family) in &families {
        check(name, family);
    }
    families
}

fn check_labels(labels: &str) {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{labels}"));
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        assert!(!name.is_empty() && name.chars().all(is_name), "{labels}");
        let mut escaped = false;
        let end = value.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        let (_, behind) = value.split_at(end.unwrap_or_else(|| panic!("{labels}")));
        rest = behind[1..].strip_prefix(',').unwrap_or(&behind[1..]);
    }
}

fn check(name: &str, family: &Family) {
    assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name}");
    assert!(name.starts_with("indelible_"), "{name}");
    let is_letter =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    assert!(name.chars().all(is_letter), "{name}");
    if !family.unit.is_empty() {
        assert!(name.ends_with(&format!("_{}", family.unit)), "{name} in {}", family.unit);
    }
    if family.kind == "histogram" {
        let mut by_labels: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (sample, labels, value) in &family.samples {
            if sample.ends_with("_bucket") {
                let (le, others): (Vec<&str>, Vec<&str>) =
                    labels.split(',').partition(|label| label.starts_with("le="));
                let bound = le[0].strip_prefix("le=\"").unwrap().strip_suffix('"').unwrap();
                by_labels
                    .entry(others.join(","))
                    .or_default()
                    .push((bound.parse().unwrap(), *value));
            }
        }
        for (labels, buckets) in by_labels {
            assert!(buckets.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1), "{name}");
            let last = buckets.last().unwrap();
            assert_eq!(last.0, f64::INFINITY, "{name}");
            let count = family.samples.iter().find(|it| it.0.ends_with("_count") && it.1 == labels);
            assert_eq!(count.unwrap().2, last.1, "{name}");
        }
    }
}
