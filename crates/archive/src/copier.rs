//! A copy of an archive's own: what a copy and the blocks behind it come to.
//!
//! ```text
//!   copy of A · leaps and blocks A + 1 … B  ──►  copy of B, by the last writer that had begun by then
//! ```
//!
//! It is what that writer would have made of B, so whatever can be restored from a copy can be from this one, by older programs, too. It takes the place of
//! a leap where nothing before B is kept but for B: a leap stands next to the copy that it goes on from, a copy needs no other.
//!
//! The objects are read twice, the blocks from their end first: which record is the last one of an entry is known before any is written ([`Living`]). What
//! says that all is there is put last, so a copy that is cut off never counts; what there is of it goes with the next tidier.

use std::collections::VecDeque;

use base::{Lsn, Record, RecordKind};
use redo::Id;

use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::living::Living;
use crate::name::{Fill, Name};
use crate::object::{Header, ObjectReader, StoredBlock};
use crate::parts::Parts;
use crate::restorer::{check_joins, check_records};
use crate::target::Target;
use crate::thinner::Thinning;

/// A copy to be made of another one and of what is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyJob {
    pub(crate) from: Fill,
    /// How many objects that one has.
    pub(crate) objects: u32,
    pub(crate) to: Fill,
    /// In order; they have every block behind the one copy up to the other, whole or as it was thinned out.
    pub(crate) inputs: Vec<Name>,
}

/// An object, of which the blocks behind `after` are read up to `end`: others have those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Input {
    name: Name,
    after: Lsn,
    end: Lsn,
}

/// How far it is.
enum Stage {
    /// The first so many inputs are still to be met, from the last one on.
    Meeting(usize),
    /// The roots of the copy from that object on.
    Roots(u32),
    /// The copy's records from that object on, with so many blocks and records before.
    Copying(u32, (u64, u64)),
    /// Those of the inputs from that one on, with the checksum of the block before.
    Adding(usize, Option<u32>),
    Ended,
}

/// See the file's top.
pub(crate) struct Copier {
    database: Id,
    job: CopyJob,
    inputs: Vec<Input>,
    bytes_max: usize,
    living: Living,
    stage: Stage,
    /// When the last block was ended, in Unix milliseconds.
    time_ms: i64,
    parts: Parts,
    ready: VecDeque<Portion>,
}

impl Copier {
    /// Makes objects of about so many bytes, with so much memory for entries. `key` is random.
    pub(crate) fn new(
        database: Id,
        job: CopyJob,
        (bytes_max, memory_bytes): (usize, usize),
        key: (u64, u64),
    ) -> Self {
        let inputs = inputs_of(&job);
        let stage = Stage::Meeting(inputs.len());
        let (living, parts) = (Living::new(memory_bytes, key), Parts::new(database, job.to));
        let ready = VecDeque::new();
        Self { database, job, inputs, bytes_max, living, stage, time_ms: 0, parts, ready }
    }

    /// Whether it may have given something to be put.
    pub(crate) const fn is_putting(&self) -> bool {
        !matches!(self.stage, Stage::Meeting(_) | Stage::Roots(_))
    }

    /// Reads the next object, or makes one.
    pub(crate) fn step(&mut self, target: &dyn Target) -> Result<Thinning> {
        if let Some(portion) = self.ready.pop_front() {
            return Ok(Thinning::Part(portion));
        }
        match self.stage {
            Stage::Meeting(0) => {
                self.check_whole()?;
                self.stage = Stage::Roots(0);
            }
            Stage::Meeting(left) => {
                self.meet(target, self.inputs[left - 1])?;
                self.stage = Stage::Meeting(left - 1);
            }
            Stage::Roots(index) if index == self.job.objects => {
                self.stage = Stage::Copying(0, (0, 0));
            }
            Stage::Roots(index) => {
                self.look_at_roots(target, index)?;
                self.stage = Stage::Roots(index + 1);
            }
            Stage::Copying(index, counted) if index == self.job.objects => {
                self.check_copy(target, counted)?;
                self.stage = Stage::Adding(0, None);
            }
            Stage::Copying(index, (blocks, records)) => {
                let header = self.copy(target, index)?;
                let counted = (blocks + header.blocks, records + header.records);
                self.stage = Stage::Copying(index + 1, counted);
            }
            Stage::Adding(at, _) if at == self.inputs.len() => {
                self.ready.extend(self.parts.end_part());
                self.ready.push_back(self.parts.whole(self.time_ms));
                self.stage = Stage::Ended;
            }
            Stage::Adding(at, crc) => {
                let crc = self.add(target, self.inputs[at], crc)?;
                self.stage = Stage::Adding(at + 1, crc);
            }
            Stage::Ended => return Ok(Thinning::Done),
        }
        Ok(if self.living.is_full() { Thinning::NoRoom } else { Thinning::Read })
    }

    /// Whether the inputs have every block.
    fn check_whole(&self) -> Result<()> {
        let mut end = self.job.from.lsn;
        for input in &self.inputs {
            let (Name::Log { first, .. } | Name::Thin { first, .. }) = input.name else { continue };
            if first > end.next() {
                break;
            }
            end = input.end;
        }
        let (lsn, before, after) = (end.next(), Some(self.job.from.lsn), Some(self.job.to.lsn));
        if end == self.job.to.lsn { Ok(()) } else { Err(Error::NotThere { lsn, before, after }) }
    }

    /// Whether the copy has had what it says.
    fn check_copy(&self, target: &dyn Target, counted: (u64, u64)) -> Result<()> {
        let name = Name::Whole { fill: self.job.from, objects: self.job.objects };
        let whole = *ObjectReader::open(target, self.database, name)?.header();
        let what = "the copy has other blocks than it counts";
        let is_same = counted == (whole.blocks, whole.records);
        if is_same { Ok(()) } else { Err(Error::Damaged { name, at: 80, what }) }
    }

    fn meet(&mut self, target: &dyn Target, input: Input) -> Result<()> {
        let (object, blocks) = self.blocks(target, input)?;
        if input.end == self.job.to.lsn {
            self.time_ms = match (input.name, blocks.last()) {
                (Name::Log { .. }, Some(block)) => block.header.time_ms,
                _ => object.header().time_max_ms,
            };
        }
        for block in blocks.iter().rev() {
            let records: Vec<Record<'_>> = block.records().collect();
            records.iter().rev().for_each(|record| self.living.meet(record));
        }
        Ok(())
    }

    fn look_at_roots(&mut self, target: &dyn Target, index: u32) -> Result<()> {
        let name = Name::Base { fill: self.job.from, index };
        let mut object = ObjectReader::open(target, self.database, name)?;
        let mut kinds = RecordKind::ALL.into_iter().filter(|kind| kind.is_root());
        if !kinds.any(|kind| object.header().may_have(kind)) {
            return Ok(());
        }
        while let Some(block) = object.next()? {
            block.records().for_each(|record| self.living.look_at_root(&record));
        }
        Ok(())
    }

    fn copy(&mut self, target: &dyn Target, index: u32) -> Result<Header> {
        let (after, end) = (Lsn::ZERO, self.job.from.lsn);
        let input = Input { name: Name::Base { fill: self.job.from, index }, after, end };
        let (object, blocks) = self.blocks(target, input)?;
        for block in &blocks {
            let records = block.records().filter(|record| self.living.stays_of_copy(record));
            let records: Vec<Record<'_>> = records.collect();
            self.put(block, &records);
        }
        Ok(*object.header())
    }

    /// Returns the checksum of the last block, if that is whole.
    fn add(&mut self, target: &dyn Target, input: Input, crc: Option<u32>) -> Result<Option<u32>> {
        let (object, blocks) = self.blocks(target, input)?;
        check_joins(&object, input.after, crc)?;
        for block in &blocks {
            let mut records = Vec::new();
            for record in block.records() {
                let what = "it is another one than before";
                let other = Error::Damaged { name: input.name, at: 0, what };
                if self.living.next_stays(&record).ok_or(other)? {
                    records.push(record);
                }
            }
            self.put(block, &records);
        }
        let last = blocks.last().filter(|_| matches!(input.name, Name::Log { .. }));
        Ok(last.map(|block| block.header.payload_crc))
    }

    /// The blocks of an object that are read.
    fn blocks(
        &self,
        target: &dyn Target,
        Input { name, after, end }: Input,
    ) -> Result<(ObjectReader, Vec<StoredBlock>)> {
        let mut object = ObjectReader::open(target, self.database, name)?;
        let mut blocks = Vec::new();
        while let Some(block) = object.next()? {
            check_records(name, &block)?;
            if after < block.header.lsn && block.header.lsn <= end {
                blocks.push(block);
            }
        }
        Ok((object, blocks))
    }

    /// Adds what stays of a block.
    fn put(&mut self, block: &StoredBlock, records: &[Record<'_>]) {
        if records.is_empty() {
            return;
        }
        // Nothing is before it, and no deletion relies on that.
        let records = records.iter().map(|record| Record { is_new: false, ..*record });
        self.parts.put((block.header.lsn, block.header.time_ms), records);
        if self.parts.has(self.bytes_max) {
            self.ready.extend(self.parts.end_part());
        }
    }
}

/// The objects, and which blocks of each are read: those that the ones before have not.
fn inputs_of(job: &CopyJob) -> Vec<Input> {
    let (mut after, mut inputs) = (job.from.lsn, Vec::new());
    for name in &job.inputs {
        let (Name::Log { last, .. } | Name::Thin { last, .. }) = *name else { continue };
        let end = last.min(job.to.lsn);
        if end > after {
            inputs.push(Input { name: *name, after, end });
            after = end;
        }
    }
    inputs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    use env::Disk;
    use env_sim::{Faults, SimDisk};
    use redo::record;

    use super::*;
    use crate::directory::Directory;
    use crate::living::tests::{Cut, decoded, log_of, with_one_map};
    use crate::name::Folder;
    use crate::object::Builder;

    const DATABASE: Id = Id([7; 16]);

    /// The objects of a log of which a block ends with each cut.
    struct Objects {
        target: Directory,
        records: Vec<Vec<u8>>,
        cuts: Vec<Cut>,
    }

    impl Objects {
        fn new(seed: u64) -> Self {
            let (records, mut cuts) = log_of(seed);
            cuts.dedup_by_key(|(count, _)| *count);
            let disk = SimDisk::new(seed, Faults::default());
            disk.create_dir_all(Path::new("/archive")).unwrap();
            let target = Directory::new(Arc::new(disk), Path::new("/archive"));
            Self { target, records, cuts }
        }

        fn put(&self, (header, bytes): (Header, Vec<u8>)) {
            self.target.put_new(DATABASE, &header.name, &bytes).unwrap();
        }

        /// The block that a record is in.
        fn lsn_of(&self, at: usize) -> Lsn {
            Lsn(1 + self.cuts.partition_point(|(count, _)| *count <= at) as u64)
        }

        fn put_block(&self, builder: &mut Builder, lsn: Lsn, wanted: impl Fn(usize) -> bool) {
            let all = (0..self.records.len()).filter(|at| self.lsn_of(*at) == lsn && wanted(*at));
            let all: Vec<usize> = all.collect();
            if !all.is_empty() {
                builder.put_records((lsn, 5), all.iter().map(|at| decoded(&self.records[*at])));
            }
        }

        /// What a writer would copy at the end of a block.
        fn put_copy(&self, fill: Fill, valid: &BTreeSet<usize>) {
            let mut base = Builder::base(DATABASE, fill, 0);
            for lsn in 1..=fill.lsn.0 {
                self.put_block(&mut base, Lsn(lsn), |at| valid.contains(&at));
            }
            let (header, bytes) = base.finish();
            self.put((header, bytes));
            let whole = Header { name: Name::Whole { fill, objects: 1 }, ..header };
            self.put((whole, whole.encode().to_vec()));
        }

        /// All of the blocks between two, in two objects.
        fn put_blocks(&self, from: Lsn, to: Lsn) -> Vec<Name> {
            let middle = Lsn(u64::midpoint(from.0, to.0));
            let parts = [(from.next(), middle), (middle.next(), to)];
            let parts = parts.into_iter().filter(|(first, last)| first <= last);
            let put = |(first, last): (Lsn, Lsn)| {
                let name = Name::Thin { first, last, from, to, tidier: 1 };
                let mut thin = Builder::thin(DATABASE, name);
                (first.0..=last.0).for_each(|lsn| self.put_block(&mut thin, Lsn(lsn), |_| true));
                self.put(thin.finish_thin((5, 6)));
                name
            };
            parts.map(put).collect()
        }

        /// Has a copy made. Returns how many objects it has.
        fn copy(&self, job: CopyJob) -> u32 {
            let to = job.to;
            let mut copier = Copier::new(DATABASE, job, (1500, usize::MAX), (3, 1));
            let mut objects = 0;
            loop {
                match copier.step(&self.target).unwrap() {
                    Thinning::Read => {}
                    Thinning::Part(portion) => {
                        objects += u32::from(portion.header.name.folder() == Folder::Base);
                        self.put((portion.header, portion.bytes));
                    }
                    Thinning::Done => break,
                    Thinning::NoRoom => panic!("there is room"),
                }
            }
            let name = Name::Whole { fill: to, objects };
            let whole = *ObjectReader::open(&self.target, DATABASE, name).unwrap().header();
            assert_eq!(whole.time_max_ms, 6);
            objects
        }

        /// The records of a copy, each with its block.
        fn copied(&self, fill: Fill, objects: u32) -> Vec<(Lsn, Vec<u8>)> {
            let mut found = Vec::new();
            for index in 0..objects {
                let name = Name::Base { fill, index };
                let mut object = ObjectReader::open(&self.target, DATABASE, name).unwrap();
                while let Some(block) = object.next().unwrap() {
                    let lsn = block.header.lsn;
                    found.extend(block.records().map(|record| (lsn, encoded(&record))));
                }
            }
            found
        }
    }

    fn encoded(record: &Record<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, &Record { is_new: false, ..*record });
        bytes
    }

    /// From objects to objects: what a writer would have copied, in blocks of the same numbers, and copied again.
    #[test]
    fn a_copy_and_what_is_behind_it_become_what_a_writer_would_have_copied() {
        let (mut parts, mut checked) = (0, 0);
        for seed in 0..20 {
            let all = Objects::new(seed);
            let ends = [2, all.cuts.len() / 2, all.cuts.len() - 1];
            let fills = ends.map(|at| Fill { lsn: Lsn(at as u64 + 1), writer: 1, number: 1 << 31 });
            all.put_copy(fills[0], &all.cuts[ends[0]].1);
            let mut objects = 1;
            for step in [0, 1] {
                let (from, to) = (fills[step], fills[step + 1]);
                let inputs = all.put_blocks(from.lsn, to.lsn);
                objects = all.copy(CopyJob { from, objects, to, inputs });
                let found = all.copied(to, objects);
                let expected = with_one_map(&all.records, &all.cuts[ends[step + 1]].1);
                let expected: BTreeSet<_> = expected
                    .iter()
                    .map(|at| (all.lsn_of(*at), encoded(&decoded(&all.records[*at]))))
                    .collect();
                // The map that a log had before it was begun anew may be there, too.
                assert!(found.len() - expected.len() <= 1, "{seed}, {step}");
                let found: BTreeSet<_> = found.into_iter().collect();
                assert!(expected.is_subset(&found), "{seed}, {step}");
                (parts, checked) = (parts + objects, checked + found.len());
            }
        }
        assert!(parts > 60 && checked > 500, "{parts} parts, {checked} records");
    }

    /// What is missing, and a copy that has not what it says, is no copy.
    #[test]
    fn nothing_is_made_of_what_is_not_whole() {
        let all = Objects::new(1);
        let [from, to] =
            [3, 9].map(|lsn| Fill { lsn: Lsn(lsn), writer: 1, number: u32::from(lsn == 9) });
        all.put_copy(from, &all.cuts[2].1);
        let inputs = all.put_blocks(from.lsn, to.lsn);
        let failed = |job: CopyJob| {
            let mut copier = Copier::new(DATABASE, job, (usize::MAX, usize::MAX), (3, 1));
            loop {
                match copier.step(&all.target) {
                    Ok(Thinning::Read) => {}
                    Ok(_) => panic!("it is made"),
                    Err(error) => return error,
                }
            }
        };
        for inputs in [&inputs[..1], &inputs[1..], &[]] {
            let error = failed(CopyJob { from, objects: 1, to, inputs: inputs.to_vec() });
            assert!(matches!(error, Error::NotThere { .. }), "{error}");
        }
        let error = failed(CopyJob { from, objects: 0, to, inputs });
        assert!(matches!(error, Error::Target(_) | Error::Damaged { .. }), "{error}");
    }
}
