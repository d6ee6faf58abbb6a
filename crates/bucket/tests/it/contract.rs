//! What a target of archives must do.

use std::sync::atomic::Ordering;

use archive::{Fill, Folder, Name, Put, Target};
use base::Lsn;
use bucket::Bucket;
use redo::Id;

use crate::proxy::Proxy;
use crate::store::{BUCKET, Store, variables};

const DATABASE: Id = Id([0x6c; 16]);

fn log(first: u64) -> Name {
    Name::Log { first: Lsn(first), last: Lsn(first + 9), writer: 1 }
}

fn bucket(address: std::net::SocketAddr) -> Bucket {
    Bucket::new(&format!("s3://{BUCKET}/of/shop"), variables(address)).unwrap()
}

fn bytes_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 1000).to_le_bytes()[0]).collect()
}

/// All of an object, read in pieces.
fn read(bucket: &Bucket, name: &Name, piece: usize) -> Vec<u8> {
    let object = bucket.open(DATABASE, name).unwrap();
    let mut bytes = vec![0; usize::try_from(object.bytes().unwrap()).unwrap()];
    for (number, piece_of) in bytes.chunks_mut(piece).enumerate() {
        object.read_at(piece_of, (number * piece) as u64).unwrap();
    }
    let end = object.bytes().unwrap();
    assert!(object.read_at(&mut [0], end).is_err(), "nothing is behind its end");
    bytes
}

#[test]
fn an_object_is_created_once_and_read_as_it_was_put() {
    let store = Store::start();
    let bucket = bucket(store.address);
    for (number, length) in (1..).zip([0, 1, 128, 65_536, 65_537, 9 << 20, 20 << 20]) {
        let (name, bytes) = (log(number * 10), bytes_of(length));
        assert_eq!(bucket.put_new(DATABASE, &name, &bytes).unwrap(), Put::New);
        assert_eq!(bucket.put_new(DATABASE, &name, b"another").unwrap(), Put::Taken);
        for piece in [300_000, 5 << 20, 64 << 20] {
            assert!(read(&bucket, &name, piece) == bytes, "{length} bytes, by {piece}");
        }
    }
    let error = bucket.open(DATABASE, &log(500)).err().unwrap();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("s3://backups/of/shop/6c6c"), "{error}");
}

#[test]
fn a_list_has_the_objects_of_one_folder_and_nothing_else() {
    let store = Store::start();
    let bucket = bucket(store.address);
    assert_eq!(bucket.list(DATABASE, Folder::Log).unwrap(), []);
    assert_eq!(bucket.databases().unwrap(), []);
    let mut names: Vec<Name> = (1..=1200).map(|number| log(number * 10)).collect();
    for name in names.iter().rev() {
        bucket.put_new(DATABASE, name, b"some").unwrap();
    }
    let fill = Fill { lsn: Lsn(1), writer: 1, number: 1 };
    let others = [Name::Writer { writer: 1 }, Name::Base { fill, index: 0 }];
    for name in &others {
        bucket.put_new(DATABASE, name, b"some").unwrap();
    }
    // More than a page of them, of which another database and another file are none.
    bucket.put_new(Id([0x6d; 16]), &log(7), b"some").unwrap();
    let folder = store.files().join("of/shop").join(DATABASE.to_string()).join("log");
    std::fs::write(folder.join("readme"), "no object").unwrap();
    assert_eq!(bucket.list(DATABASE, Folder::Log).unwrap(), names);
    assert_eq!(bucket.list(DATABASE, Folder::Writer).unwrap(), others[..1]);
    assert_eq!(bucket.databases().unwrap(), [DATABASE, Id([0x6d; 16])]);
    let gone = names.remove(5);
    bucket.remove(DATABASE, &gone).unwrap();
    bucket.remove(DATABASE, &gone).unwrap();
    assert_eq!(bucket.list(DATABASE, Folder::Log).unwrap(), names);
    assert!(bucket.open(DATABASE, &gone).err().unwrap().is_not_found());
}

#[test]
fn a_store_that_replaces_objects_is_refused_at_the_claim() {
    let store = Store::start_for(None);
    let proxy = Proxy::start(store.address);
    let mut unsigned = variables(proxy.address);
    unsigned.push(("AWS_SKIP_SIGNATURE".to_owned(), "true".to_owned()));
    let bucket = Bucket::new(&format!("s3://{BUCKET}/shop"), unsigned).unwrap();
    let [first, second] = [1, 2].map(|writer| Name::Writer { writer });
    assert_eq!(bucket.put_new(DATABASE, &first, b"claim").unwrap(), Put::New);
    proxy.faults.forgets_conditions.store(true, Ordering::Relaxed);
    let error = bucket.put_new(DATABASE, &second, b"claim").unwrap_err().to_string();
    assert!(error.contains("ignores If-None-Match"), "{error}");
    assert_eq!(bucket.list(DATABASE, Folder::Writer).unwrap(), [first], "no claim is left");
}

/// Whatever is heard of a call, what is said to be there is, whole.
#[test]
fn what_was_said_to_be_put_is_there_however_bad_the_way_was() {
    let store = Store::start();
    let proxy = Proxy::start(store.address);
    let (bad, good) = (bucket(proxy.address), bucket(store.address));
    proxy.faults.cut.store(500, Ordering::Relaxed);
    proxy.faults.delayed.store(50, Ordering::Relaxed);
    proxy.faults.busy.store(100, Ordering::Relaxed);
    let (mut unheard, mut taken) = (0, 0);
    for number in 1..=50 {
        let (name, bytes) = (log(number * 10), bytes_of(usize::try_from(number).unwrap() * 3000));
        // As an archiver: the same bytes under the same name, until something was heard.
        loop {
            match bad.put_new(DATABASE, &name, &bytes) {
                Ok(put) => {
                    taken += u64::from(put == Put::Taken);
                    break;
                }
                Err(_) => unheard += 1,
            }
        }
        assert!(read(&good, &name, 1 << 20) == bytes, "object {number}");
    }
    assert!(proxy.faults.done.load(Ordering::Relaxed) > 5);
    println!("{unheard} calls failed, of {taken} puts the first answer was lost");
    assert_eq!(good.list(DATABASE, Folder::Log).unwrap().len(), 50);
}

#[test]
fn credentials_that_are_wrong_and_buckets_that_are_not_there_are_named() {
    let store = Store::start();
    let mut wrong = variables(store.address);
    wrong[1].1 = "another".to_owned();
    let bucket = Bucket::new(&format!("s3://{BUCKET}/shop"), wrong).unwrap();
    let error = bucket.put_new(DATABASE, &log(1), b"some").unwrap_err().to_string();
    assert!(error.contains("cannot put s3://backups/shop/"), "{error}");
    assert!(!error.contains("another") && !error.contains("secret"), "{error}");
    let bucket = Bucket::new("s3://elsewhere/shop", variables(store.address)).unwrap();
    let error = bucket.databases().unwrap_err().to_string();
    assert!(error.contains("cannot list s3://elsewhere/shop"), "{error}");
    // In clear only if that was said.
    let careful = variables(store.address).into_iter().filter(|(name, _)| name != "AWS_ALLOW_HTTP");
    let bucket = Bucket::new(&format!("s3://{BUCKET}/shop"), careful).unwrap();
    assert!(bucket.databases().is_err());
}
