//! A copy of an archive's own: what a copy and the blocks behind it come to.
//!
//! ```text
//!   copy of A · leaps and blocks A + 1 … B  ──►  copy of B, by the last writer that had begun by then
//! ```
//!
//! It is what that writer would have made of B, so whatever can be restored from a copy can be from this one, by older programs, too. It takes the place of
//! a leap where nothing before B is kept but for B: a leap stands next to the copy that it goes on from, a copy needs no other.
//!
//! The objects are read twice, the blocks from their end first: which record is the last one of an entry is known before any is written ([`Living`]), and that
//! they go on from each other as a restore wants it. What says that all is there is put last, so a copy that is cut off never counts; what there is of it goes
//! with the next tidier.
//!
//! Where keys are lost none is made, as without memory: a record of a lost key has no entry that a later one could be of, so it would stay for ever.

use std::collections::VecDeque;

use base::{Lsn, Record, RecordKind};
use redo::Id;

use crate::error::{Error, Result};
use crate::fill::Portion;
use crate::living::Living;
use crate::name::{Fill, Name};
use crate::object::{Header, ObjectReader, StoredBlock};
use crate::parts::Parts;
use crate::restorer::{NOT_JOINED, check_records};
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

/// What an input says of the block before those that are read of it: the checksum of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Joint {
    by: Name,
    crc: u32,
}

/// An object that was read.
struct Read {
    header: Header,
    /// The checksum of the block before those that are read of it, if it has that, too.
    before: Option<u32>,
    /// Those that are.
    blocks: Vec<StoredBlock>,
}

/// How far it is.
enum Stage {
    /// The first so many inputs are still to be met, from the last one on, and this is how they must end.
    Meeting(usize, Option<Joint>),
    /// The roots of the copy from that object on.
    Roots(u32),
    /// The copy's records from that object on, with so many blocks and records before.
    Copying(u32, (u64, u64)),
    /// Those of the inputs from that one on.
    Adding(usize),
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
        let stage = Stage::Meeting(inputs.len(), None);
        let (living, parts) = (Living::new(memory_bytes, key), Parts::new(database, job.to));
        let ready = VecDeque::new();
        Self { database, job, inputs, bytes_max, living, stage, time_ms: 0, parts, ready }
    }

    /// Whether it may have given something to be put.
    pub(crate) const fn is_putting(&self) -> bool {
        !matches!(self.stage, Stage::Meeting(..) | Stage::Roots(_))
    }

    /// Reads the next object, or makes one.
    pub(crate) fn step(&mut self, target: &dyn Target) -> Result<Thinning> {
        if let Some(portion) = self.ready.pop_front() {
            return Ok(Thinning::Part(portion));
        }
        match self.stage {
            Stage::Meeting(0, _) => {
                self.check_whole()?;
                if self.whole(target)?.may_have(RecordKind::KeyLost) {
                    return Ok(Thinning::NoRoom);
                }
                self.stage = Stage::Roots(0);
            }
            Stage::Meeting(left, next) => {
                let (header, joint) = self.meet(target, self.inputs[left - 1], next)?;
                if header.may_have(RecordKind::KeyLost) {
                    return Ok(Thinning::NoRoom);
                }
                self.stage = Stage::Meeting(left - 1, joint);
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
                self.stage = Stage::Adding(0);
            }
            Stage::Copying(index, (blocks, records)) => {
                let header = self.copy(target, index)?;
                let counted = (blocks + header.blocks, records + header.records);
                self.stage = Stage::Copying(index + 1, counted);
            }
            Stage::Adding(at) if at == self.inputs.len() => {
                self.ready.extend(self.parts.end_part());
                self.ready.push_back(self.parts.whole(self.time_ms));
                self.stage = Stage::Ended;
            }
            Stage::Adding(at) => {
                self.add(target, self.inputs[at])?;
                self.stage = Stage::Adding(at + 1);
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

    /// What the copy says of itself.
    fn whole(&self, target: &dyn Target) -> Result<Header> {
        let name = Name::Whole { fill: self.job.from, objects: self.job.objects };
        Ok(*ObjectReader::open(target, self.database, name)?.header())
    }

    /// Whether the copy has had what it says.
    fn check_copy(&self, target: &dyn Target, counted: (u64, u64)) -> Result<()> {
        let Header { name, blocks, records, .. } = self.whole(target)?;
        let what = "the copy has other blocks than it counts";
        let is_same = counted == (blocks, records);
        if is_same { Ok(()) } else { Err(Error::Damaged { name, at: 80, what }) }
    }

    /// Returns what it says of itself, and of the block before it.
    fn meet(
        &mut self,
        target: &dyn Target,
        input: Input,
        next: Option<Joint>,
    ) -> Result<(Header, Option<Joint>)> {
        let Read { header, before, blocks } = self.read(target, input)?;
        // Of what was thinned out a block has other bytes.
        let is_whole = matches!(input.name, Name::Log { .. });
        if let (Some(next), Some(last)) = (next, blocks.last())
            && is_whole
            && last.header.payload_crc != next.crc
        {
            return Err(Error::Damaged { name: next.by, at: 120, what: NOT_JOINED });
        }
        if input.end == self.job.to.lsn {
            self.time_ms = match (input.name, blocks.last()) {
                (Name::Log { .. }, Some(block)) => block.header.time_ms,
                _ => header.time_max_ms,
            };
        }
        for block in blocks.iter().rev() {
            let records: Vec<Record<'_>> = block.records().collect();
            records.iter().rev().for_each(|record| self.living.meet(record));
        }
        let before = before.filter(|_| is_whole).or(Some(header.before_crc).filter(|it| *it != 0));
        Ok((header, before.map(|crc| Joint { by: input.name, crc })))
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
        let Read { header, blocks, .. } = self.read(target, input)?;
        for block in &blocks {
            let records = block.records().filter(|record| self.living.stays_of_copy(record));
            let records: Vec<Record<'_>> = records.collect();
            self.put(block, &records);
        }
        Ok(header)
    }

    fn add(&mut self, target: &dyn Target, input: Input) -> Result<()> {
        for block in &self.read(target, input)?.blocks {
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
        Ok(())
    }

    /// Reads an object to its end.
    fn read(&self, target: &dyn Target, Input { name, after, end }: Input) -> Result<Read> {
        let mut object = ObjectReader::open(target, self.database, name)?;
        let (mut before, mut blocks) = (None, Vec::new());
        while let Some(block) = object.next()? {
            check_records(name, &block)?;
            let lsn = block.header.lsn;
            if lsn == after {
                before = Some(block.header.payload_crc);
            } else if after < lsn && lsn <= end {
                blocks.push(block);
            }
        }
        Ok(Read { header: *object.header(), before, blocks })
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
    use crate::object::{Builder, HEADER_BYTES};
    use redo::block::BlockHeader;

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

        fn put_thin(&self, (first, last): (Lsn, Lsn), (from, to): (Lsn, Lsn)) -> Name {
            let name = Name::Thin { first, last, from, to, tidier: 1 };
            let mut thin = Builder::thin(DATABASE, name);
            (first.0..=last.0).for_each(|lsn| self.put_block(&mut thin, Lsn(lsn), |_| true));
            self.put(thin.finish_thin((5, 6)));
            name
        }

        /// The block as the log has it.
        fn whole_block(&self, lsn: Lsn, wanted: impl Fn(usize) -> bool) -> (Header, Vec<u8>) {
            let mut builder = Builder::log(DATABASE, lsn, 1, 0);
            let all = (0..self.records.len()).filter(|at| self.lsn_of(*at) == lsn && wanted(*at));
            builder.put_records((lsn, 5), all.map(|at| decoded(&self.records[at])));
            let (header, mut bytes) = builder.finish();
            let mut block = bytes.split_off(HEADER_BYTES);
            let (head, payload) = block.split_first_chunk().unwrap();
            let head = BlockHeader { flags: 0, ..BlockHeader::decode(head).unwrap() };
            block = [&head.encode()[..], payload].concat();
            (Header { name: Name::Log { first: lsn, last: lsn, writer: 1 }, ..header }, block)
        }

        fn crc_of(&self, lsn: Lsn) -> u32 {
            self.whole_block(lsn, |_| true).0.last_crc
        }

        /// An object of the log with these records of these blocks, which says that this is the checksum of the one before.
        fn put_log(
            &self,
            (first, last): (Lsn, Lsn),
            before_crc: u32,
            wanted: impl Fn(usize) -> bool,
        ) -> Name {
            let mut log = Builder::log(DATABASE, first, 1, before_crc);
            for lsn in first.0..=last.0 {
                let (header, block) = self.whole_block(Lsn(lsn), &wanted);
                log.append(&header, &block);
            }
            let (header, bytes) = log.finish();
            self.put((header, bytes));
            header.name
        }

        /// All of the blocks between two, in objects of some kinds.
        fn put_blocks(&self, from: Lsn, to: Lsn, which: u64) -> Vec<Name> {
            let middle = Lsn(u64::midpoint(from.0, to.0));
            let behind = Lsn(self.cuts.len() as u64).min(Lsn(to.0 + 2));
            let log = |first: Lsn, last: Lsn| {
                let crc = if first > Lsn(1) { self.crc_of(Lsn(first.0 - 1)) } else { 0 };
                self.put_log((first, last), crc, |_| true)
            };
            match which % 4 {
                // A leap of two objects.
                0 => [(from.next(), middle), (middle.next(), to)]
                    .map(|part| self.put_thin(part, (from, to)))
                    .to_vec(),
                // One that begins before what is needed, and one that ends behind.
                1 => vec![log(Lsn(from.0 - 1), middle), log(middle.next(), behind)],
                // Both have a block.
                2 => vec![log(from.next(), middle), log(middle, behind)],
                // A leap, and an object that has blocks of it, too.
                _ => {
                    vec![self.put_thin((from.next(), middle), (from, middle)), log(middle, behind)]
                }
            }
        }

        /// Has a copy made. Returns how many objects it has.
        fn copy(&self, job: CopyJob) -> u32 {
            let to = job.to;
            let time_ms = if matches!(job.inputs.last(), Some(Name::Log { .. })) { 5 } else { 6 };
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
            assert_eq!(whole.time_max_ms, time_ms);
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

    /// What there is to be made of a copy of block 3 and what is behind it, up to block 9.
    fn job_of(all: &Objects, inputs: Vec<Name>) -> CopyJob {
        let [from, to] =
            [3, 9].map(|lsn| Fill { lsn: Lsn(lsn), writer: 1, number: u32::from(lsn == 9) });
        all.put_copy(from, &all.cuts[2].1);
        CopyJob { from, objects: 1, to, inputs }
    }

    /// What comes of it before anything is put.
    fn made_of(all: &Objects, job: CopyJob) -> Result<Thinning> {
        let mut copier = Copier::new(DATABASE, job, (usize::MAX, usize::MAX), (3, 1));
        loop {
            match copier.step(&all.target)? {
                Thinning::Read => {}
                other => return Ok(other),
            }
        }
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
                let inputs = all.put_blocks(from.lsn, to.lsn, seed + step as u64);
                objects = all.copy(CopyJob { from, objects, to, inputs });
                let found = all.copied(to, objects);
                let expected = with_one_map(&all.records, &all.cuts[ends[step + 1]].1);
                let expected: BTreeSet<_> = expected
                    .iter()
                    .map(|at| (all.lsn_of(*at), encoded(&decoded(&all.records[*at]))))
                    .collect();
                let count = found.len();
                let found: BTreeSet<_> = found.into_iter().collect();
                assert_eq!(found.len(), count, "{seed}, {step}: each is there once");
                assert!(expected.is_subset(&found), "{seed}, {step}");
                // The map that a log had before it was begun anew may be there, too.
                let others: Vec<_> = found.difference(&expected).collect();
                let is_map = |it: &&(Lsn, Vec<u8>)| decoded(&it.1).kind == RecordKind::Databases;
                assert!(others.len() <= 1 && others.iter().all(is_map), "{others:?}");
                (parts, checked) = (parts + objects, checked + count);
            }
        }
        assert!(parts > 60 && checked > 500, "{parts} parts, {checked} records");
    }

    /// Everything was deleted; then there is something again.
    #[test]
    fn a_copy_may_have_nothing() {
        let mut all = Objects::new(1);
        let db = base::DbId(0);
        let set = |key| Record::whole(RecordKind::String, db, key, b"v", None);
        let records = [set(b"a"), Record::key_deleted(db, b"a"), set(b"b")];
        all.records = records.iter().map(encoded).collect();
        all.cuts = [[0].into(), [].into(), [2].into()]
            .into_iter()
            .enumerate()
            .map(|(at, valid)| (at + 1, valid))
            .collect();
        let fills = [1, 2, 3].map(|lsn| Fill { lsn: Lsn(lsn), writer: 1, number: 1 << 31 });
        all.put_copy(fills[0], &all.cuts[0].1);
        let mut objects = 1;
        for (step, expected) in [(0, Vec::new()), (1, vec![(Lsn(3), encoded(&set(b"b")))])] {
            let (from, to) = (fills[step], fills[step + 1]);
            let inputs = vec![all.put_log((to.lsn, to.lsn), 0, |_| true)];
            objects = all.copy(CopyJob { from, objects, to, inputs });
            assert_eq!(all.copied(to, objects), expected);
            assert_eq!(objects as usize, expected.len());
        }
    }

    /// What is missing, and a copy that has not what it says, is no copy.
    #[test]
    fn nothing_is_made_of_what_is_not_whole() {
        let all = Objects::new(1);
        let job = job_of(&all, all.put_blocks(Lsn(3), Lsn(9), 0));
        let failed = |job: CopyJob| made_of(&all, job).err().unwrap();
        for inputs in [&job.inputs[..1], &job.inputs[1..], &[]] {
            let error = failed(CopyJob { inputs: inputs.to_vec(), ..job.clone() });
            assert!(matches!(error, Error::NotThere { .. }), "{error}");
        }
        let error = failed(CopyJob { objects: 0, ..job.clone() });
        assert!(matches!(error, Error::Target(_) | Error::Damaged { .. }), "{error}");
        // It counts a block more than its objects have.
        let name = Name::Whole { fill: job.from, objects: 1 };
        let whole = *ObjectReader::open(&all.target, DATABASE, name).unwrap().header();
        all.target.remove(DATABASE, &name).unwrap();
        let whole = Header { blocks: whole.blocks + 1, ..whole };
        all.put((whole, whole.encode().to_vec()));
        let mut copier = Copier::new(DATABASE, job, (usize::MAX, usize::MAX), (3, 1));
        let error = loop {
            match copier.step(&all.target) {
                Ok(Thinning::Read | Thinning::Part(_)) => {}
                Ok(_) => panic!("it is made"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Damaged { name: it, at: 80, .. } if it == name), "{error}");
    }

    /// As a restore refuses it, and before anything is put.
    #[test]
    fn objects_of_the_log_go_on_from_each_other() {
        let [first, middle, last] = [4, 6, 9].map(Lsn);
        // What it says of the block before, or that block, is another one.
        for is_shared in [false, true] {
            for is_other in [false, true] {
                let all = Objects::new(1);
                let is_other_record = |at: usize| {
                    let is_first = at == 0 || all.lsn_of(at - 1) < middle;
                    is_other && is_first && all.lsn_of(at) == middle
                };
                let crc = all.crc_of(middle) ^ u32::from(is_other);
                let begin = all.put_log((first, middle), 0, |_| true);
                let end = match is_shared {
                    false => all.put_log((middle.next(), last), crc, |_| true),
                    true => all.put_log((middle, last), 0, |at| !is_other_record(at)),
                };
                match made_of(&all, job_of(&all, vec![begin, end])) {
                    Ok(Thinning::Part(_)) => assert!(!is_other),
                    Err(Error::Damaged { name, at: 120, what: NOT_JOINED }) => {
                        assert!(is_other && name == end);
                    }
                    other => panic!("{is_shared}, {is_other}: {:?}", other.err()),
                }
            }
        }
    }

    /// No later record is known to be of the same key: it would stay, whatever has become of the key.
    #[test]
    fn no_copy_is_made_where_keys_are_lost() {
        for lost_in in [None, Some(Lsn(2)), Some(Lsn(5))] {
            let mut all = Objects::new(1);
            let is_lost = |at: &usize| {
                let is_copied = all.lsn_of(*at) > Lsn(3) || all.cuts[2].1.contains(at);
                Some(all.lsn_of(*at)) == lost_in && is_copied
            };
            let lost =
                Record::whole(RecordKind::KeyLost, base::DbId(0), b"twelve bytes", &[0], None);
            let at = (0..all.records.len()).find(is_lost);
            assert_eq!(at.is_some(), lost_in.is_some());
            at.into_iter().for_each(|at| all.records[at] = encoded(&lost));
            let inputs = all.put_blocks(Lsn(3), Lsn(9), 2);
            let made = made_of(&all, job_of(&all, inputs)).unwrap();
            assert_eq!(matches!(made, Thinning::NoRoom), lost_in.is_some());
            assert_eq!(matches!(made, Thinning::Part(_)), lost_in.is_none());
        }
    }
}
