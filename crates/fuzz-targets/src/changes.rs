//! Records as changes: any well-formed records of any order are told as JSON, one change each, or refused.

use base::{Lsn, Record};
use changes::{Heading, Translator, write_block};

/// So many records are a block.
const BLOCK_RECORDS: usize = 5;

/// Few enough that roots are forgotten.
const ROOTS_BYTES_MAX: usize = 1000;

pub(crate) fn run(input: &[u8]) {
    let mut rest = input;
    let mut records: Vec<Record<'_>> = Vec::new();
    while !rest.is_empty() {
        let Ok(record) = redo::record::decode(&mut rest) else { break };
        records.push(record);
    }
    let mut translator = Translator::new(ROOTS_BYTES_MAX);
    let (learned, told) = records.split_at(records.len() / 3);
    for record in learned {
        let _refused = translator.learn(record);
    }
    for block in told.chunks(BLOCK_RECORDS) {
        let mut line = Vec::new();
        match write_block(
            &mut translator,
            Heading { lsn: Lsn(1), log: "", time_ms: 0 },
            block,
            &mut line,
        ) {
            Err(_) => assert!(line.is_empty(), "nothing is told of a block with a bad record"),
            Ok(count) => {
                assert_eq!(count, block.len(), "every record is one change");
                let told: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
                assert_eq!(told["changes"].as_array().map(Vec::len), Some(count));
            }
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    crate::record::seeds()
}
