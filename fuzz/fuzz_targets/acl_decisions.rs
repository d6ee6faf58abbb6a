#![no_main]
use fuzz_targets::Target;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (Target::by_name("acl_decisions").expect("it is listed").run)(bytes));
