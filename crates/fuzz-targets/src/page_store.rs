//! A whole page store with bytes changed and every checksum right again: opened, checked and read, or
//! refused with what is wrong and where.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use env::Disk;
use env_sim::{Faults, SimClock, SimDisk};
use pages::{Durability, Env, Error, FileError, Options, PageStore, Result, Upkeep};

const DIR: &str = "/store";
const DATA: &str = "/store/pages.data";
const LOG: &str = "/store/00000000.log";
const PAGE_BYTES: usize = 8192;
const LOG_PAGE_BYTES: usize = 2048;
const BLOCK_BYTES: usize = 4096;

fn options() -> Options {
    Options {
        pool_bytes: 1 << 20,
        online_log_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        upkeep: Upkeep::Inline,
        ..Options::new(DIR)
    }
}

fn env(disk: &SimDisk) -> Env {
    Env { disk: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(0)) }
}

fn fill(store: &PageStore) -> Result<()> {
    for round in 0..3_u8 {
        let transaction = store.begin()?;
        let table = transaction.table("fruit");
        for i in 0..12_u8 {
            table.insert([b'k', round, i], [i; 900])?;
            if round == 1 {
                table.remove([b'k', 0, i])?;
            }
        }
        table.insert("large", [b'L'; 10_000])?;
        transaction.table("gone").insert([round], "x")?;
        transaction.commit(Durability::Immediate)?;
        if round == 1 {
            store.checkpoint_all()?;
        }
    }
    let transaction = store.begin()?;
    transaction.delete_table("gone")?;
    transaction.commit(Durability::Immediate).map(drop)
}

/// The bytes of the files of a small store: leaves, a branch, a large value, free pages, a
/// checkpoint, and records after it.
fn files() -> &'static [(&'static str, Vec<u8>)] {
    static FILES: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = SimDisk::new(1, Faults::default());
        let store = PageStore::open(&env(&disk), options()).expect("a new store");
        fill(&store).expect("no faults");
        drop(store);
        [DATA, LOG].map(|path| (path, bytes_of(&disk, path))).into()
    })
}

fn bytes_of(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), env::Access::Read).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.len().expect("no faults")).expect("small")];
    file.read_exact_at(&mut bytes, 0).expect("no faults");
    bytes
}

/// Makes every checksum right, where there is something at all; log pages know the one before.
fn seal(data: &mut [u8], log: &mut [u8]) {
    for block in data.chunks_exact_mut(BLOCK_BYTES).take(3) {
        let crc = base::checksum::crc32c(&block[16..]);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    for page in data[4 * BLOCK_BYTES..].chunks_exact_mut(PAGE_BYTES) {
        if page.iter().any(|byte| *byte != 0) {
            pages::fuzz::seal(page);
        }
    }
    let mut previous: Option<[u8; 4]> = None;
    for page in log.chunks_exact_mut(LOG_PAGE_BYTES).skip(1) {
        if let Some(crc) = previous {
            page[4..8].copy_from_slice(&crc);
        }
        pages::fuzz::seal(page);
        previous = Some([page[0], page[1], page[2], page[3]]);
    }
}

/// Five bytes a change: which file, the page in it, where in the page (two bytes), the new byte.
/// Only the first changes count, so that most of the store stays as it is.
pub(crate) fn run(input: &[u8]) {
    let [(_, data), (_, log)] = files() else { unreachable!("two files") };
    let (mut data, mut log) = (data.clone(), log.clone());
    for change in input.chunks_exact(5).take(16) {
        let [which, page, low, high, value] = *change else { unreachable!("five bytes") };
        let (bytes, unit) = match which % 4 {
            0 => (&mut log, LOG_PAGE_BYTES),
            1 => (&mut data, BLOCK_BYTES),
            _ => (&mut data, PAGE_BYTES),
        };
        let offset = usize::from(u16::from_le_bytes([low, high])) % unit;
        let len = bytes.len();
        bytes[(usize::from(page) * unit + offset) % len] = value;
    }
    seal(&mut data, &mut log);
    let disk = SimDisk::new(1, Faults::default());
    disk.create_dir_all(Path::new(DIR)).expect("no faults");
    for (path, bytes) in [(DATA, data), (LOG, log)] {
        let file = disk.create(Path::new(path)).expect("no faults");
        file.write_all_at(&bytes, 0).expect("no faults");
    }
    match read(&disk) {
        Ok(()) | Err(Error::File(FileError::NewerFormat { .. })) => {}
        Err(Error::File(FileError::Corrupt { path, what, .. })) => {
            assert!(path.starts_with(DIR) && !what.is_empty());
        }
        Err(error) => panic!("{error}"),
    }
}

fn read(disk: &SimDisk) -> Result<()> {
    let store = PageStore::open(&env(disk), options())?;
    let checked = store.check();
    let reader = store.begin_read()?;
    for table in store.list_tables()? {
        reader.table(&table).len_estimate()?;
        for entry in reader.table(&table).iter() {
            entry?;
        }
    }
    checked.map(drop)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let change = |which, page, offset: u16, value| {
        let [low, high] = offset.to_le_bytes();
        [which, page, low, high, value]
    };
    vec![
        Vec::new(),
        // Page 0 counts pages; a leaf has fewer cells; a group is longer; a master record moves.
        change(2, 2, 40, 9).to_vec(),
        change(2, 6, 6, 1).to_vec(),
        change(0, 2, 40, 255).to_vec(),
        change(1, 1, 24, 1).to_vec(),
        [change(0, 3, 24, 9), change(2, 4, 32, 1)].concat(),
    ]
}
