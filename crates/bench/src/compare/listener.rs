//! Finds the process that listens on a port of this machine.
//!
//! ```text
//!   /proc/net/tcp, tcp6   port, state LISTEN ─► number of the socket
//!   /proc/PID/fd/*        socket:[NUMBER]    ─► PID
//! ```

use std::collections::BTreeSet;
use std::fs;

/// The state of a socket that listens.
const LISTEN: &str = "0A";

/// Returns the process, the lowest number if there are several (a parent's sockets are its children's).
///
/// `None` if there is none, or its files may not be looked at.
pub(super) fn process_of(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    let wanted: BTreeSet<String> = tables
        .iter()
        .flat_map(|table| listening(table, port))
        .map(|number| format!("socket:[{number}]"))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers: Vec<u32> =
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| wanted.contains(target)))
    })
}

/// The numbers of the sockets that listen on the port, in a table of the kernel.
fn listening(table: &str, port: u16) -> impl Iterator<Item = &str> {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_whitespace();
        let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
        let is_wanted = u16::from_str_radix(local_port, 16) == Ok(port);
        let state = fields.nth(1)?;
        let number = fields.nth(5)?;
        (is_wanted && state == LISTEN).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_listens_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1CF7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103927 1 0 100 0 0 10 0
   1: 0100007F:1CF7 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 200000 1 0 20 4 30 10 -1
   2: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 639 1 0 100 0 0 10 0
";
        assert_eq!(listening(table, 0x1cf7).collect::<Vec<_>>(), ["103927"]);
        assert_eq!(listening(table, 7).count(), 0);
    }

    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(process_of(port), Some(std::process::id()));
    }
}
