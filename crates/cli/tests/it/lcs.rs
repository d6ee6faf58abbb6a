//! LCS: the memory that it compares two strings in is bounded by `proto-max-bulk-len`, and given back.

use crate::process::{Program, Server, wait_until};

const MIB: u64 = 1 << 20;

/// The server's memory in the kernel's eyes: `VmRSS` now, `VmHWM` at the most.
pub(crate) fn resident_bytes(server: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Makes the most that was resident what is resident now.
pub(crate) fn forget_peak(server: &Server) {
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
}

#[test]
fn comparing_strings_takes_no_more_memory_than_a_string_may_and_gives_it_back() {
    const BULK_BYTES_MAX: u64 = 64 * MIB;
    // 4096 times 4096 numbers of four bytes are just 64 MiB.
    let server = Program::indelible().start(&["--proto-max-bulk-len", "64mb"]);
    let mut connection = server.connect();
    for (key, length) in [("a", 4095), ("b", 4095), ("longer", 4096)] {
        assert_eq!(connection.call(&["SET", key, &"x".repeat(length)]).unwrap().text(), "OK");
    }
    let before = resident_bytes(&server, "VmRSS");
    forget_peak(&server);
    assert_eq!(
        connection.words("LCS a longer LEN").text(),
        "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
    );
    let refused = resident_bytes(&server, "VmHWM") - before;
    assert_eq!(connection.words("LCS a b LEN").text(), "4095");
    let allowed = resident_bytes(&server, "VmHWM") - before;
    println!("refused: {refused} bytes, allowed: {allowed} bytes");
    assert!(refused < MIB, "{refused} bytes for nothing");
    assert!(allowed < BULK_BYTES_MAX + 4 * MIB, "{allowed} bytes");
    wait_until(|| {
        assert_eq!(connection.words("PING").text(), "PONG");
        resident_bytes(&server, "VmRSS") < before + 4 * MIB
    });
}
