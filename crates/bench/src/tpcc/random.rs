//! Random numbers, texts and names as required by clauses 2.1.6, 4.3.2 and 4.3.3.

/// A generator of TPC-C's random values.
pub(super) struct Random {
    rng: fastrand::Rng,
    constants: Constants,
}

/// The constants C of NURand, the same for a whole run (clause 2.1.6.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Constants {
    last: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    /// The constants for loading data.
    pub(super) fn for_load() -> Self {
        Self { last: 123, customer: 259, item: 7911 }
    }

    /// The constants for a run. The one for last names differs by 65 to 119, but not by 96 or 112.
    pub(super) fn for_run() -> Self {
        Self { last: 208, customer: 987, item: 4187 }
    }
}

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Returns the last name for a number (clause 4.3.2.3).
pub(super) fn last_name(number: u32) -> Vec<u8> {
    [number / 100 % 10, number / 10 % 10, number % 10]
        .map(|digit| SYLLABLES[digit as usize])
        .concat()
        .into_bytes()
}

impl Random {
    pub(super) fn new(seed: u64, constants: Constants) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), constants }
    }

    /// Returns a uniform number, both ends included.
    pub(super) fn number(&mut self, low: u32, high: u32) -> u32 {
        self.rng.u32(low..=high)
    }

    /// Returns a uniform byte, both ends included.
    pub(super) fn small(&mut self, low: u8, high: u8) -> u8 {
        self.rng.u8(low..=high)
    }

    /// Returns a random warehouse.
    pub(super) fn warehouse(&mut self, count: u16) -> u16 {
        self.rng.u16(1..=count)
    }

    /// Returns an amount of money, both ends included.
    pub(super) fn cents(&mut self, low: i64, high: i64) -> i64 {
        self.rng.i64(low..=high)
    }

    /// Returns true in `percent` percent of the cases.
    pub(super) fn percent(&mut self, percent: f64) -> bool {
        self.rng.f64() * 100.0 < percent
    }

    fn skewed(&mut self, a: u32, constant: u32, low: u32, high: u32) -> u32 {
        let mixed = self.number(0, a) | self.number(low, high);
        (mixed + constant) % (high - low + 1) + low
    }

    /// NURand(1023, 1, customers).
    pub(super) fn customer(&mut self, customers: u32) -> u32 {
        self.skewed(1023, self.constants.customer, 1, customers)
    }

    /// NURand(8191, 1, items).
    pub(super) fn item(&mut self, items: u32) -> u32 {
        self.skewed(8191, self.constants.item, 1, items)
    }

    /// NURand(255, 0, 999), limited to the existing numbers of names.
    pub(super) fn name_number(&mut self, customers: u32) -> u32 {
        self.skewed(255, self.constants.last, 0, (customers - 1).min(999))
    }

    /// Returns letters and digits, `low` to `high` of them.
    pub(super) fn text(&mut self, low: usize, high: usize) -> Vec<u8> {
        let len = self.rng.usize(low..=high);
        (0..len).map(|_| b"abcdefghijklmnopqrstuvwxyz0123456789"[self.rng.usize(..36)]).collect()
    }

    /// Returns `len` digits.
    pub(super) fn digits(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.u8(b'0'..=b'9')).collect()
    }

    /// Returns a text that contains "ORIGINAL" in a tenth of the cases (clause 4.3.3.1).
    pub(super) fn data(&mut self) -> Vec<u8> {
        let mut text = self.text(26, 50);
        if self.percent(10.0) {
            let at = self.rng.usize(..=text.len() - 8);
            text[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
        text
    }

    /// The numbers 1 to `count` in random order.
    pub(super) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=count).collect();
        self.rng.shuffle(&mut numbers);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(last_name(371), b"PRICALLYOUGHT");
        assert_eq!(last_name(40), b"BARPRESBAR");
        assert_eq!(last_name(999), b"EINGEINGEING");
    }

    #[test]
    fn nurand_stays_inside_and_is_skewed() {
        let mut random = Random::new(1, Constants::for_run());
        let mut counts = vec![0_u32; 3001];
        for _ in 0..300_000 {
            counts[random.customer(3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        let hottest: u32 = counts[2700..].iter().sum();
        assert!(hottest > 75_000, "a tenth of the customers has {hottest} of 300000");
        assert!((0..1000).all(|_| random.name_number(30) < 30));
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut random = Random::new(2, Constants::for_load());
        let is_original = |text: Vec<u8>| text.windows(8).any(|part| part == b"ORIGINAL");
        let originals = (0..10_000).filter(|_| is_original(random.data())).count();
        assert!((800..1200).contains(&originals), "{originals}");
    }
}
