//! The directives whose values are several words with rules of their own.

use super::directive::WordsSet;
use super::refusal::ValueError;

/// The directory: one word.
pub(super) fn directory(set: &WordsSet<'_>) -> Result<String, ValueError> {
    match set.words {
        [directory] => Ok((*directory).to_owned()),
        _ => Err(ValueError::WordCount),
    }
}

/// `save`: pairs of seconds and changes; lines of a file add up, an empty value resets.
pub(super) fn save_points(set: &WordsSet<'_>) -> Result<String, ValueError> {
    if matches!(set.words, [] | [""]) {
        return Ok(String::new());
    }
    if !set.words.len().is_multiple_of(2) {
        return Err(ValueError::SavePoints);
    }
    for (index, word) in set.words.iter().enumerate() {
        let number: i64 = word.parse().map_err(|_| ValueError::SavePoints)?;
        let lower = if index % 2 == 0 { 1 } else { 0 };
        if number < lower {
            return Err(ValueError::SavePoints);
        }
    }
    let new = set.words.join(" ");
    Ok(if set.from_file && !set.old.is_empty() { format!("{} {new}", set.old) } else { new })
}

/// `bind` and other lists where one empty word means none.
pub(super) fn list(set: &WordsSet<'_>) -> Result<String, ValueError> {
    if set.words.len() > 16 {
        return Err(ValueError::TooManyAddresses);
    }
    joined(set.words)
}

/// `log-devices`: directories.
pub(super) fn directories(set: &WordsSet<'_>) -> Result<String, ValueError> {
    joined(set.words)
}

/// `archive`: where the log is archived, or nothing.
pub(super) fn archive(set: &WordsSet<'_>) -> Result<String, ValueError> {
    match set.words {
        [] | [""] => Ok(String::new()),
        [place] if is_place(place) => joined(set.words),
        [_] => Err(ValueError::Archive),
        _ => Err(ValueError::WordCount),
    }
}

fn is_place(url: &str) -> bool {
    let file = archive::directory_of(url).is_some();
    let bucket = url.strip_prefix("s3://");
    // Credentials are the environment's: a URL is shown.
    let is_bucket = |bucket: &str| {
        !bucket.is_empty() && !bucket.starts_with('/') && !bucket.contains(['@', '?'])
    };
    file || bucket.is_some_and(is_bucket) || url.strip_prefix("transfer:").is_some_and(is_machine)
}

/// Whether it is HOST:PORT/NAME.
fn is_machine(place: &str) -> bool {
    let Some((address, name)) = place.split_once('/') else { return false };
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    matches!(port, Some(Ok(_))) && !name.is_empty() && !name.starts_with('/')
}

/// `archive-keep`: ages, and of how long a time one state is kept up to each; nothing keeps everything.
pub(super) fn archive_keep(set: &WordsSet<'_>) -> Result<String, ValueError> {
    let keep = set.words.join(" ").parse::<archive::Keep>();
    keep.map(|keep| keep.to_string()).map_err(ValueError::ArchiveKeep)
}

/// `archive-compression`: not, or by zstd, at a level.
pub(super) fn compression(set: &WordsSet<'_>) -> Result<String, ValueError> {
    match set.words {
        ["none"] => Ok("none".to_owned()),
        ["zstd"] => Ok("zstd:1".to_owned()),
        [word] => {
            let level: Option<u8> = word.strip_prefix("zstd:").and_then(|level| level.parse().ok());
            let level = level.filter(|level| (1..=ZSTD_LEVEL_MAX).contains(level));
            level.map(|level| format!("zstd:{level}")).ok_or(ValueError::Compression)
        }
        _ => Err(ValueError::WordCount),
    }
}

/// Levels above take memory for hundreds of megabytes of what came before, and there are no more than 256 KiB of that.
const ZSTD_LEVEL_MAX: u8 = 19;

/// Any words, of a directive that has no effect.
pub(super) fn any(set: &WordsSet<'_>) -> Result<String, ValueError> {
    joined(set.words)
}

/// The words with spaces between, when that does not make other words of them.
fn joined(words: &[&str]) -> Result<String, ValueError> {
    let is_one = |word: &&str| {
        !word.is_empty()
            && !word.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    };
    if words != [""] && !words.iter().all(is_one) {
        return Err(ValueError::NotOneWord);
    }
    Ok(words.join(" "))
}

/// `replicaof`: a host and a port, or "no one".
pub(super) fn replica_of(set: &WordsSet<'_>) -> Result<String, ValueError> {
    match set.words {
        [host, port] if host.eq_ignore_ascii_case("no") && port.eq_ignore_ascii_case("one") => {
            Ok(String::new())
        }
        [host, port] => match port.parse::<u16>() {
            Ok(_) => joined(&[host, port]),
            Err(_) => Err(ValueError::MasterPort),
        },
        _ => Err(ValueError::WordCount),
    }
}

/// `oom-score-adj-values`: three numbers.
pub(super) fn oom_score_values(set: &WordsSet<'_>) -> Result<String, ValueError> {
    if set.words.len() != 3 {
        return Err(ValueError::WordCount);
    }
    if set
        .words
        .iter()
        .any(|word| !word.parse::<i32>().is_ok_and(|value| (-2000..=2000).contains(&value)))
    {
        return Err(ValueError::OomScore);
    }
    Ok(set.words.join(" "))
}

/// `latency-tracking-info-percentiles`: numbers from 0 to 100.
pub(super) fn percentiles(set: &WordsSet<'_>) -> Result<String, ValueError> {
    if matches!(set.words, [""]) {
        return Ok(String::new());
    }
    let mut texts = Vec::new();
    for word in set.words {
        let value: f64 = word.parse().map_err(|_| ValueError::NotPercentile)?;
        if !(0.0..=100.0).contains(&value) {
            return Err(ValueError::PercentileOutOfBounds);
        }
        texts.push(format!("{value}"));
    }
    Ok(texts.join(" "))
}

/// The letters of `notify-keyspace-events` that `A` stands for, in Redis' order.
const ALL_EVENTS: &str = "g$lshzxetd";

/// `notify-keyspace-events`: letters, `A` for most of them.
pub(super) fn events(set: &WordsSet<'_>) -> Result<String, ValueError> {
    let letters = match set.words {
        [] => "",
        [letters] => letters,
        _ => return Err(ValueError::WordCount),
    };
    if let Some(_unknown) = letters.chars().find(|letter| !"Ag$lshzxeKEtmdn".contains(*letter)) {
        return Err(ValueError::EventClass);
    }
    let has = |letter: char| {
        letters.contains(letter) || (letters.contains('A') && ALL_EVENTS.contains(letter))
    };
    let mut canonical = String::new();
    let is_all = ALL_EVENTS.chars().all(has);
    if is_all {
        canonical.push('A');
    } else {
        canonical.extend(ALL_EVENTS.chars().chain(['n']).filter(|letter| has(*letter)));
    }
    canonical.extend(['K', 'E', 'm'].into_iter().filter(|letter| has(*letter)));
    // Redis 7.0 forgets to show it behind an A, and 7.2 shows it here.
    if is_all && has('n') {
        canonical.push('n');
    }
    Ok(canonical)
}

/// The classes of `client-output-buffer-limit`, as CONFIG GET names them.
const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// `client-output-buffer-limit`: quadruples of class, hard limit, soft limit, seconds; the classes
/// that are not named keep what they have.
pub(super) fn output_limits(set: &WordsSet<'_>) -> Result<String, ValueError> {
    if set.words.is_empty() || !set.words.len().is_multiple_of(4) {
        return Err(ValueError::OutputLimitCount);
    }
    let mut classes: Vec<String> = set.old.split(' ').map(str::to_owned).collect();
    for limits in set.words.chunks(4) {
        let name = limits[0].to_ascii_lowercase();
        let name = if name == "replica" { "slave".to_owned() } else { name };
        let Some(class) = OUTPUT_CLASSES.iter().position(|known| *known == name) else {
            return Err(ValueError::OutputLimitClass);
        };
        let parsed = (
            super::directive::parse_memory(limits[1]),
            super::directive::parse_memory(limits[2]),
            limits[3].parse::<u64>(),
        );
        let (Some(hard), Some(soft), Ok(seconds)) = parsed else {
            return Err(ValueError::OutputLimitValue);
        };
        classes[class * 4 + 1] = hard.to_string();
        classes[class * 4 + 2] = soft.to_string();
        classes[class * 4 + 3] = seconds.to_string();
    }
    Ok(classes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(old: &'a str, words: &'a [&'a str], from_file: bool) -> WordsSet<'a> {
        WordsSet { old, words, from_file }
    }

    #[test]
    fn save_points_add_up_in_a_file_only() {
        assert_eq!(save_points(&set("", &["900", "1"], true)).unwrap(), "900 1");
        assert_eq!(save_points(&set("900 1", &["60", "5"], true)).unwrap(), "900 1 60 5");
        assert_eq!(save_points(&set("900 1", &["60", "5"], false)).unwrap(), "60 5");
        assert_eq!(save_points(&set("900 1", &[""], true)).unwrap(), "");
        assert_eq!(save_points(&set("", &["0", "1"], false)).unwrap_err(), ValueError::SavePoints);
    }

    #[test]
    fn a_word_with_spaces_does_not_become_two() {
        assert_eq!(directories(&set("", &["/a", "/b"], true)).unwrap(), "/a /b");
        assert_eq!(directories(&set("", &[""], true)).unwrap(), "");
        for words in [&["/a", "/my disk"][..], &["/a\nport 1", "/b"], &["/a", ""]] {
            assert!(directories(&set("", words, true)).is_err(), "{words:?}");
        }
    }

    #[test]
    fn what_an_archive_keeps_is_ages_that_grow() {
        let keep = |words: &[&str]| archive_keep(&set("", words, false));
        assert_eq!(keep(&["24h:all", "7d:hour", "30d:day"]).unwrap(), "1d:all 1w:hour 30d:day");
        assert_eq!(keep(&[""]).unwrap(), "");
        for wrong in ["24h", "all", "1d:hourly", "30d:day 7d:hour"] {
            let error = keep(&[wrong]).unwrap_err();
            assert!(error.to_string().contains("24h:all 7d:hour 30d:day"), "{error}");
        }
    }

    #[test]
    fn events_are_normalised() {
        assert_eq!(events(&set("", &["KEA"], false)).unwrap(), "AKE");
        assert_eq!(events(&set("", &["Elg"], false)).unwrap(), "glE");
        assert_eq!(events(&set("", &["nKEA"], false)).unwrap(), "AKEn");
        assert_eq!(events(&set("", &[""], false)).unwrap(), "");
        assert!(events(&set("", &["q"], false)).is_err());
    }

    #[test]
    fn output_limits_change_only_the_named_class() {
        let old = "normal 0 0 0 slave 1 2 3 pubsub 4 5 6";
        assert_eq!(
            output_limits(&set(old, &["replica", "1kb", "0", "9"], false)).unwrap(),
            "normal 0 0 0 slave 1024 0 9 pubsub 4 5 6"
        );
        assert!(output_limits(&set(old, &["x", "1", "0", "9"], false)).is_err());
        assert!(output_limits(&set(old, &["normal", "1", "0"], false)).is_err());
    }
}
