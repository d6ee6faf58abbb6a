//! Latency monitoring: for each kind of event that took longer than the threshold, its latest
//! occurrences.

use std::collections::{BTreeMap, VecDeque};

/// How many occurrences of an event are kept.
const SAMPLES_MAX: usize = 160;

/// The worst occurrence within one second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) unix_s: i64,
    pub(crate) latency_ms: u64,
}

/// The history of one kind of event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// The newest at the end.
    pub(crate) samples: VecDeque<Sample>,
    /// The worst ever.
    pub(crate) max_ms: u64,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct LatencyMonitor {
    events: BTreeMap<&'static str, Series>,
}

impl LatencyMonitor {
    /// Notes that `event` took this long.
    pub(crate) fn add(&mut self, event: &'static str, unix_s: i64, latency_ms: u64) {
        let series = self.events.entry(event).or_default();
        series.max_ms = series.max_ms.max(latency_ms);
        if let Some(last) = series.samples.back_mut().filter(|last| last.unix_s == unix_s) {
            last.latency_ms = last.latency_ms.max(latency_ms);
            return;
        }
        if series.samples.len() == SAMPLES_MAX {
            series.samples.pop_front();
        }
        series.samples.push_back(Sample { unix_s, latency_ms });
    }

    /// The events with their histories, by name.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Series)> {
        self.events.iter().map(|(event, series)| (*event, series))
    }

    /// The history of one event.
    pub(crate) fn event(&self, name: &[u8]) -> Option<(&'static str, &Series)> {
        self.events().find(|(event, _)| event.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Forgets the named events, or all; how many there were.
    pub(crate) fn reset(&mut self, names: &[&[u8]]) -> usize {
        let before = self.events.len();
        if names.is_empty() {
            self.events.clear();
        } else {
            self.events.retain(|event, _| {
                !names.iter().any(|name| event.as_bytes().eq_ignore_ascii_case(name))
            });
        }
        before - self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_a_second_with_the_worst() {
        let mut monitor = LatencyMonitor::default();
        monitor.add("command", 1, 10);
        monitor.add("command", 1, 30);
        monitor.add("command", 2, 20);
        let (_, series) = monitor.event(b"COMMAND").unwrap();
        assert_eq!(series.samples.len(), 2);
        assert_eq!((series.samples[0].latency_ms, series.max_ms), (30, 30));
        assert_eq!(monitor.reset(&[b"other"]), 0);
        assert_eq!(monitor.reset(&[]), 1);
    }
}
