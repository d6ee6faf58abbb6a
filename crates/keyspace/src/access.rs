//! The 24 bits that an entry keeps of its use: when (LRU: seconds, modulo 2^24), or how often
//! (LFU: 16 bits of minutes of the last decay, 8 bits of a logarithmic counter).

use crate::settings::Settings;

const LRU_MASK: i64 = 0x00ff_ffff;
/// A new key's counter, so that it is not evicted before it could be used.
const LFU_INIT: u32 = 5;
const LFU_MAX: u32 = 255;

/// The bits of a key that is created now.
pub(crate) fn fresh(settings: &Settings, now_ms: i64) -> u32 {
    if settings.eviction.is_lfu() { (minutes(now_ms) << 8) | LFU_INIT } else { lru_clock(now_ms) }
}

/// The bits of a key that was much used before the start, and comes back now: those that a start brings back
/// after it are colder.
pub(crate) fn hot(settings: &Settings, now_ms: i64) -> u32 {
    let bits = fresh(settings, now_ms);
    if settings.eviction.is_lfu() { bits + LFU_INIT } else { bits }
}

/// The bits of a key that comes back unasked, when nothing is known of its use before the start.
pub(crate) fn unknown(settings: &Settings, started_at_ms: i64, now_ms: i64) -> u32 {
    let used_ms = if settings.eviction.is_lfu() { now_ms } else { started_at_ms };
    fresh(settings, used_ms)
}

/// The bits of a key that had the bits `access` and is used now.
pub(crate) fn used(access: u32, settings: &Settings, now_ms: i64, rng: &mut fastrand::Rng) -> u32 {
    if !settings.eviction.is_lfu() {
        return lru_clock(now_ms);
    }
    let counter = frequency(access, settings, now_ms);
    let base = counter.saturating_sub(LFU_INIT);
    let grows = counter < LFU_MAX
        && rng.f64() < 1.0 / (f64::from(base) * f64::from(settings.lfu_log_factor) + 1.0);
    (minutes(now_ms) << 8) | (counter + u32::from(grows))
}

/// The bits of a key whose use is told; `None` when not that is told which the policy looks at.
pub(crate) fn given(
    settings: &Settings,
    now_ms: i64,
    idle_ms: Option<i64>,
    frequency: Option<u8>,
) -> Option<u32> {
    if settings.eviction.is_lfu() {
        frequency.map(|frequency| (minutes(now_ms) << 8) | u32::from(frequency))
    } else {
        // More than the clock can tell apart is the most that it can.
        let idle_ms = idle_ms?.min(LRU_MASK * 1000);
        Some(lru_clock(now_ms.saturating_sub(idle_ms)))
    }
}

/// The counter of how often a key was used, decayed to now.
pub(crate) fn frequency(access: u32, settings: &Settings, now_ms: i64) -> u32 {
    let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0xffff;
    let decay = elapsed.checked_div(settings.lfu_decay_minutes).unwrap_or(0);
    (access & 0xff).saturating_sub(decay)
}

/// How long a key was not used, in milliseconds, to the second.
pub(crate) fn idle_ms(access: u32, now_ms: i64) -> i64 {
    let elapsed = (now_ms / 1000 - i64::from(access)) & LRU_MASK;
    elapsed * 1000
}

/// The bits of a key that was last used `idle_ms` ago.
pub(crate) fn lru_clock(now_ms: i64) -> u32 {
    u32::try_from((now_ms / 1000) & LRU_MASK).expect("24 bits")
}

fn minutes(now_ms: i64) -> u32 {
    u32::try_from((now_ms / 60_000) & 0xffff).expect("16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EvictionPolicy;

    #[test]
    fn idle_time_survives_the_clock_going_round() {
        let long_ago = 0x00ff_fffe * 1000;
        assert_eq!(idle_ms(lru_clock(long_ago), long_ago + 5000), 5000);
    }

    #[test]
    fn a_counter_grows_with_use_and_decays_with_time() {
        let settings = Settings { eviction: EvictionPolicy::AllKeysLfu, ..Settings::default() };
        let mut rng = fastrand::Rng::with_seed(1);
        let mut access = fresh(&settings, 0);
        for _ in 0..1000 {
            access = used(access, &settings, 0, &mut rng);
        }
        let hot = frequency(access, &settings, 0);
        assert!(hot > 10 && hot < 255, "{hot}");
        assert_eq!(frequency(access, &settings, 4 * 60_000), hot - 4);
    }
}
