//! Log devices that come and go while clients write.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fault_injection::Fault;
use crate::process::{Program, wait_until};
use crate::wire::Connection;

/// The line of INFO about the device in `path`.
fn device(connection: &mut Connection, path: &str) -> Option<String> {
    let info = connection.words("INFO everything").text();
    let line = info.lines().find(|line| line.contains(&format!("path={path},")));
    line.map(str::to_owned)
}

/// How many files of the log are on a device.
pub(crate) fn segment_files(path: impl AsRef<Path>) -> usize {
    let names = std::fs::read_dir(path).unwrap();
    names
        .filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|e| e == "redo"))
        .count()
}

#[test]
fn a_disk_is_replaced_by_another_while_clients_write() {
    let directory = tempfile::tempdir().unwrap();
    let [old, kept, new] =
        ["old", "kept", "new"].map(|name| directory.path().join(name).display().to_string());
    let mut server = Program::indelible().start(&[
        "--enable-protected-configs",
        "yes",
        "--log-devices",
        &old,
        &kept,
    ]);
    let is_over = AtomicBool::new(false);
    let mut written = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut connection = server.connect();
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(connection.words(&format!("SET key{count} {count}")).text(), "OK");
                count += 1;
            }
            count
        });
        let mut admin = server.connect();
        wait_until(|| admin.words("DBSIZE").text().parse::<u64>().unwrap() > 200);
        assert!(segment_files(&old) > 0, "the old disk is used");
        let reply =
            admin.call(&["CONFIG", "SET", "log-devices", &format!("{kept} {new}")]).unwrap();
        assert_eq!(reply.text(), "OK");
        wait_until(|| device(&mut admin, &old).is_none());
        assert_eq!(segment_files(&old), 0, "nothing is left on it");
        wait_until(|| segment_files(&new) > 0);
        is_over.store(true, Ordering::Relaxed);
        written = writer.join().unwrap();
    });
    // The disk may be taken out, now that nothing is on it.
    std::fs::remove_dir_all(&old).unwrap();
    server.kill();
    server.restart_with(&["--log-devices", &kept, &new]);
    let mut connection = server.connect();
    assert_eq!(connection.words("DBSIZE").text(), written.to_string());
    for number in 0..written {
        assert_eq!(connection.words(&format!("GET key{number}")).text(), number.to_string());
    }
}

#[test]
fn a_list_that_cannot_be_is_refused_and_the_old_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a").display().to_string();
    let file = directory.path().join("file").display().to_string();
    std::fs::write(&file, "no directory").unwrap();
    let server =
        Program::indelible().start(&["--enable-protected-configs", "yes", "--log-devices", &path]);
    let mut connection = server.connect();
    let reply = connection.call(&["CONFIG", "SET", "log-devices", &file]).unwrap();
    let said = reply.text();
    assert!(said.contains("argument 'log-devices'") && said.contains(&file), "{said}");
    let listed = connection.words("CONFIG GET log-devices");
    assert_eq!(listed.elements()[1].text(), path);
    assert!(device(&mut connection, &path).unwrap().contains("state=Healthy"));
    assert_eq!(connection.words("SET k v").text(), "OK");
}

#[test]
fn a_device_that_gets_no_thread_is_not_taken_into_use() {
    if !Fault::is_possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| directory.path().join(name).display().to_string());
    let server =
        Program::indelible().start(&["--enable-protected-configs", "yes", "--log-devices", &old]);
    let mut connection = server.connect();
    let both = format!("{old} {new}");
    let fault = Fault::inject(&server, "indelible", "clone,clone3:error=EAGAIN");
    let said = connection.call(&["CONFIG", "SET", "log-devices", &both]).unwrap().text();
    assert!(said.contains("argument 'log-devices') - no thread for it"), "{said}");
    drop(fault);
    assert_eq!(device(&mut connection, &new), None);
    for number in 0..20 {
        assert_eq!(connection.words(&format!("SET key{number} v")).text(), "OK");
    }
    let reply = connection.call(&["CONFIG", "SET", "log-devices", &both]).unwrap();
    assert_eq!(reply.text(), "OK");
    assert!(device(&mut connection, &new).unwrap().contains("state=Healthy"));
    assert_eq!(connection.words("SET k v").text(), "OK");
}
