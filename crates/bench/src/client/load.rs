//! The options of a load: what is asked for, how fast, and for how long.

use super::keys::Distribution;
use super::mix::{Mix, Workload};

/// See the file's top. A workload has YCSB's values for what is not given.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Load {
    /// The number of keys.
    #[arg(long)]
    pub keys: u64,
    /// A core workload of YCSB; with it each record has an entry in the sorted set `_indices`.
    #[arg(long, value_enum, conflicts_with = "reads")]
    pub workload: Option<Workload>,
    /// The bytes of a record's values [default: 200; 1000 with a workload].
    #[arg(long)]
    pub value_bytes: Option<usize>,
    /// A record is a hash with so many fields; 0: a string [default: 0; 10 with a workload].
    #[arg(long)]
    pub fields: Option<usize>,
    /// Which keys are read and written [default: uniform; with a workload its own, ycsb or latest].
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// The share of reads. The rest are writes: of a whole string, or of one field.
    #[arg(long, default_value_t = 1.0)]
    pub reads: f64,
    /// How long, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// How long before that without counting [default: 0; 1 when servers are compared].
    #[arg(long)]
    pub settle: Option<f64>,
    /// The number of connections.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Operations under way on each.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Open loop: so many operations a second, each begun when it is due or as soon after that as a connection has room;
    /// its latency counts from when it was due. 0: closed loop, the next one after each reply.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Adds latencies of a closed loop as HdrHistogram corrects them: those that a stall has kept from being
    /// asked for, one each mean interval of a connection.
    #[arg(long, conflicts_with = "rate")]
    pub corrected: bool,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Load {
    pub(super) fn mix(&self) -> Mix {
        self.workload.map_or_else(|| Mix::reads(self.reads), Mix::of)
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes.unwrap_or(if self.workload.is_some() { 1000 } else { 200 })
    }

    pub(super) fn fields(&self) -> usize {
        self.fields.unwrap_or(if self.workload.is_some() { 10 } else { 0 })
    }

    pub(super) fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(match self.workload {
            None => Distribution::Uniform,
            Some(Workload::D) => Distribution::Latest,
            Some(_) => Distribution::Ycsb,
        })
    }

    pub(super) fn settle(&self) -> f64 {
        self.settle.unwrap_or(0.0)
    }
}
