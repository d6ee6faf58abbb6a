//! Which operations a load is made of.

/// What a client does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Reads all of it.
    Read,
    /// Writes the string, or a field.
    Update,
    /// Writes a new one, and its entry in the index.
    Insert,
    /// Asks the index for some names, and reads each.
    Scan,
    /// Reads all of it, and then updates it.
    ReadModifyWrite,
}

/// YCSB's core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half updates; zipfian.
    A,
    /// 95 % reads, 5 % updates; zipfian.
    B,
    /// Reads; zipfian.
    C,
    /// 95 % reads, 5 % inserts; what was inserted last is read most.
    D,
    /// 95 % scans of 1 to 100 records, 5 % inserts; zipfian.
    E,
    /// Half reads, half read-modify-writes; zipfian.
    F,
}

/// The share of each operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mix(Vec<(Operation, f64)>);

impl Mix {
    /// Reads, and updates for the rest.
    pub(super) fn reads(share: f64) -> Self {
        Self(vec![(Operation::Read, share), (Operation::Update, 1.0 - share)])
    }

    /// The shares of a workload, as YCSB has them.
    pub(super) fn of(workload: Workload) -> Self {
        match workload {
            Workload::A => Self::reads(0.5),
            Workload::B => Self::reads(0.95),
            Workload::C => Self::reads(1.0),
            Workload::D => Self(vec![(Operation::Read, 0.95), (Operation::Insert, 0.05)]),
            Workload::E => Self(vec![(Operation::Scan, 0.95), (Operation::Insert, 0.05)]),
            Workload::F => Self(vec![(Operation::Read, 0.5), (Operation::ReadModifyWrite, 0.5)]),
        }
    }

    pub(super) fn has_inserts(&self) -> bool {
        self.0.iter().any(|(operation, share)| *operation == Operation::Insert && *share > 0.0)
    }

    /// Draws an operation.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Operation {
        let mut left = random.f64();
        let mut drawn = Operation::Read;
        for (operation, share) in &self.0 {
            drawn = *operation;
            if left < *share {
                break;
            }
            left -= share;
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_shares() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut share = |mix: &Mix, operation| {
            let drawn = (0..100_000).filter(|_| mix.draw(&mut random) == operation).count();
            drawn as f64 / 100_000.0
        };
        let expected = [
            (Workload::A, Operation::Update, 0.5),
            (Workload::B, Operation::Update, 0.05),
            (Workload::C, Operation::Update, 0.0),
            (Workload::D, Operation::Insert, 0.05),
            (Workload::E, Operation::Insert, 0.05),
            (Workload::E, Operation::Scan, 0.95),
            (Workload::F, Operation::ReadModifyWrite, 0.5),
        ];
        for (workload, operation, wanted) in expected {
            let found = share(&Mix::of(workload), operation);
            assert!((found - wanted).abs() < 0.01, "{workload:?} {operation:?}: {found}");
        }
        assert_eq!(share(&Mix::reads(0.0), Operation::Update), 1.0);
    }
}
