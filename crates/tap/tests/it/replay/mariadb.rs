//! MariaDB: the work of sysbench and others is repeated, and all tables are compared row by row.

use std::collections::HashSet;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tap::log::{self, Batch, Carried, Keep};
use tap::replay::{Base, Credentials, Extent, Settings, replay};
use tap::{ConnectionNumber, Entry, Position, Protocol, Time};
use tempfile::TempDir;

use super::proxy::Proxy;
use super::{Process, free_port, has_program, output, replay_all, settings, wait_until};

const USER: &str = "someone";
const PASSWORD: &str = "secret";

/// A server with an empty database `shop`, and a user with all privileges.
pub(super) struct Server {
    process: Option<Process>,
    dir: TempDir,
    pub(super) address: SocketAddr,
    /// innodb_flush_log_at_trx_commit.
    flushes: u8,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::flushing(0)
    }

    /// Creates a server with this `innodb_flush_log_at_trx_commit`.
    pub(super) fn flushing(flushes: u8) -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        output(
            Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal"])
                .args(["--skip-test-db", "--user=root"])
                .arg(format!("--datadir={}", data.display()))
                .arg(format!("--tmpdir={}", dir.path().display())),
        );
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut server = Self { process: None, dir, address, flushes };
        server.launch();
        let grant = format!(
            "CREATE DATABASE shop; CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'; \
             GRANT ALL ON *.* TO {USER}@'%';"
        );
        server.says(&grant);
        server
    }

    /// Starts the server on its existing data.
    fn launch(&mut self) {
        let dir = self.dir.path();
        let process = Command::new("mariadbd")
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
            .args(["--innodb-buffer-pool-size=64M", "--skip-log-bin"])
            .args(["--performance-schema=OFF", "--local-infile=1"])
            .arg(format!("--innodb-flush-log-at-trx-commit={}", self.flushes))
            .arg(format!("--port={}", self.address.port()))
            .arg(format!("--tmpdir={}", dir.display()))
            .arg(format!("--datadir={}", dir.join("data").display()))
            .arg(format!("--socket={}", self.socket().display()))
            .arg(format!("--pid-file={}", dir.join("pid").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(Process(process));
        wait_until(|| TcpStream::connect(self.address).is_ok());
    }

    /// Kills the server, and restarts it on what it has kept.
    pub(super) fn crash(&mut self) {
        self.process = None;
        self.launch();
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Returns its answer.
    fn says(&self, sql: &str) -> String {
        output(
            Command::new("mariadb")
                .args(["--no-defaults", "-u", "root", "-e", sql])
                .arg(format!("--socket={}", self.socket().display())),
        )
    }

    /// Returns all tables, row by row in key order.
    pub(super) fn dump(&self) -> String {
        output(
            Command::new("mariadb-dump")
                .args(["--no-defaults", "-u", "root", "--skip-comments", "--order-by-primary"])
                .args(["--skip-extended-insert", "--databases", "shop"])
                .arg(format!("--socket={}", self.socket().display())),
        )
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = settings(self.address, Protocol::Mysql);
        settings.credentials =
            Credentials { user: Some(USER.into()), password: Some(PASSWORD.into()) };
        settings
    }
}

pub(super) fn is_installed() -> bool {
    ["mariadbd", "mariadb-install-db", "mariadb-dump", "sysbench"]
        .iter()
        .all(|name| has_program(name))
}

/// The command-line client, through the proxy.
fn mariadb(address: SocketAddr) -> Command {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--local-infile=1", "--skip-ssl", "--host=127.0.0.1"]);
    command.arg(format!("--port={}", address.port()));
    command.args([&format!("--user={USER}"), &format!("--password={PASSWORD}"), "shop"]);
    command
}

pub(super) fn sysbench(address: SocketAddr, test: &str, arguments: &[&str]) {
    let sizes = ["--tables=2", "--table-size=200", "--threads=4", "--time=0"];
    output(load(address, test).args(sizes).args(arguments));
}

/// A load of sysbench.
pub(super) fn load(address: SocketAddr, test: &str) -> Command {
    let mut command = Command::new("sysbench");
    command
        .args([test, "--mysql-host=127.0.0.1", "--mysql-db=shop", "--mysql-ssl=off"])
        .arg(format!("--mysql-port={}", address.port()))
        .args([format!("--mysql-user={USER}"), format!("--mysql-password={PASSWORD}")]);
    command
}

/// The second of the day of a date with a time, as a dump has it.
fn second_of_day(text: &str) -> Option<i32> {
    let (date, time) = text.split_once(' ').filter(|(date, _)| date.len() == 10)?;
    let _: Vec<u32> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let mut second = 0;
    for part in time.split(':') {
        second = second * 60 + part.parse::<i32>().ok()?;
    }
    Some(second)
}

/// Whether two lines of dumps are equal, but for times of which the second is at most a second later: a default of
/// CURRENT_TIMESTAMP is recorded when the request is captured, and that is before it is executed.
fn is_brought_back(was: &str, is: &str) -> bool {
    was.split('\'').count() == is.split('\'').count()
        && was.split('\'').zip(is.split('\'')).all(|(was, is)| {
            let seconds = || Some(second_of_day(was)? - second_of_day(is)?);
            was == is || seconds().is_some_and(|apart| apart.rem_euclid(24 * 3600) <= 1)
        })
}

#[test]
fn a_time_may_be_a_second_off_and_nothing_else() {
    let line =
        |second: &str| format!("INSERT INTO `goods` VALUES (1,'one','2026-11-26 {second}',NULL),(");
    assert!(is_brought_back(&line("09:00:01"), &line("09:00:00")));
    assert!(is_brought_back(&line("00:00:00"), &line("23:59:59")));
    assert!(!is_brought_back(&line("09:00:02"), &line("09:00:00")));
    assert!(!is_brought_back(&line("09:00:00"), &line("09:00:01")));
    assert!(!is_brought_back("('one')", "('two')"));
    assert!(!is_brought_back("('one'),('two')", "('one')"));
}

/// Compares a restored server with the original, one request at a time and in parallel.
fn check(mut original: Server, proxy: &Proxy) {
    let dump = original.dump();
    assert!(dump.matches("INSERT INTO").count() > 3, "{dump}");
    drop(original.process.take());
    let entries = proxy.entries();
    for parallel in [false, true] {
        let server = Server::start();
        let mut settings = server.settings();
        settings.parallel = parallel;
        let report = replay_all(&entries, &settings);
        println!("parallel {parallel}: {report:?}");
        assert_eq!(report.differences, [], "parallel: {parallel}: {report:?}");
        let replayed = server.dump();
        for (was, is) in dump.lines().zip(replayed.lines()) {
            assert!(is_brought_back(was, is), "{was}\n{is}\nparallel: {parallel}: {report:?}");
        }
        assert_eq!(dump.len(), replayed.len());
    }
}

#[test]
fn sysbench_is_brought_back() {
    if !is_installed() {
        return;
    }
    let original = Server::start();
    let proxy = Proxy::start(original.address, Protocol::Mysql);
    sysbench(proxy.address, "oltp_read_write", &["prepare"]);
    sysbench(proxy.address, "oltp_read_write", &["--events=300", "run"]);
    sysbench(proxy.address, "oltp_write_only", &["--events=300", "--db-ps-mode=disable", "run"]);
    check(original, &proxy);
}

/// Writes a log: the entries `first`, a new segment with `carried`, and the rest.
fn write_log(dir: &Path, first: &[Entry], carried: &[Carried], then: &[Entry]) {
    let disk: Arc<dyn env::Disk> = Arc::new(env_os::OsDisk);
    let settings = log::Settings { protocol: "mysql".into(), keep: Keep::default() };
    let mut writer = log::Writer::open(disk, dir, settings, Time(0)).unwrap();
    let mut batch = Batch::after(writer.position());
    first.iter().for_each(|entry| batch.push(entry));
    writer.write(&mut batch).unwrap();
    batch.clear();
    writer.rotate(carried, ConnectionNumber(0), Time(0)).unwrap();
    then.iter().for_each(|entry| batch.push(entry));
    writer.write(&mut batch).unwrap();
    writer.close().unwrap();
}

/// Returns the requests in a backup taken just before the request after `position` arrived: all
/// that were answered.
fn answered_before(entries: &[Entry], position: Position) -> Vec<Entry> {
    let is_later =
        |entry: &Entry| matches!(entry, Entry::Request { position: at, .. } if *at > position);
    let before = &entries[..entries.iter().position(is_later).unwrap()];
    let answered: HashSet<Position> = before
        .iter()
        .filter_map(|entry| match entry {
            Entry::Completed { position, .. } => Some(*position),
            _ => None,
        })
        .collect();
    let is_in = |entry: &&Entry| match entry {
        Entry::Request { position, .. } => answered.contains(position),
        _ => true,
    };
    before.iter().filter(is_in).cloned().collect()
}

#[test]
fn a_backup_and_the_log_behind_it_are_the_whole() {
    if !is_installed() {
        return;
    }
    let mut original = Server::start();
    let proxy = Proxy::start(original.address, Protocol::Mysql);
    sysbench(proxy.address, "oltp_read_write", &["prepare"]);
    let prepared = proxy.entries().len();
    let address = proxy.address;
    let load =
        std::thread::spawn(move || sysbench(address, "oltp_read_write", &["--events=400", "run"]));
    while proxy.entries().len() < prepared + 1000 {
        assert!(!load.is_finished());
        std::thread::sleep(Duration::from_millis(1));
    }
    // Statements prepared earlier are executed later.
    let (first, carried) = proxy.carried();
    assert!(carried.len() >= 4 && carried.iter().all(|one| one.requests.len() > 5));
    load.join().unwrap();
    let (dump, entries) = (original.dump(), proxy.entries());
    drop(original.process.take());
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), &first, &carried, &entries[first.len()..]);
    let last = |entries: &[Entry]| {
        let positions = entries.iter().filter_map(|entry| match entry {
            Entry::Request { position, .. } => Some(*position),
            _ => None,
        });
        positions.max().unwrap()
    };
    let (cut, end) = (last(&first), last(&entries));
    let backup = Position(cut.0 + (end.0 - cut.0) / 2);
    let server = Server::start();
    replay_all(&answered_before(&entries, backup), &server.settings());
    assert_ne!(server.dump(), dump);
    let disk: Arc<dyn env::Disk> = Arc::new(env_os::OsDisk);
    let read = |behind| log::read(&disk, dir.path(), behind).unwrap();
    let base = Base::at(backup, &mut read(None), Protocol::Mysql).unwrap();
    assert!(base.reads_behind() < backup, "transactions were open");
    assert!(base.reads_behind() > cut, "the reader begins with what was carried over");
    let mut log = read(Some(base.reads_behind()));
    let settings = Settings { base: Some(base), ..server.settings() };
    let report = replay(&mut log, Extent::All, &settings, &mut |_| {}).unwrap();
    assert_eq!(report.differences, []);
    for (was, is) in dump.lines().zip(server.dump().lines()) {
        assert_eq!(was, is);
    }
}

#[test]
fn sessions_statements_and_files_are_brought_back() {
    if !is_installed() {
        return;
    }
    let original = Server::start();
    let proxy = Proxy::start(original.address, Protocol::Mysql);
    let file = original.dir.path().join("rows.csv");
    std::fs::write(&file, "100,from a file\n101,too\n").unwrap();
    let script = format!(
        "CREATE TABLE goods (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), \
           at DATETIME DEFAULT CURRENT_TIMESTAMP, day DATE);
         INSERT INTO goods (name, day) VALUES ('one', CURDATE()), ('two', NULL);
         INSERT INTO goods (id, name) VALUES (1, 'refused');
         SET @name = 'by variable';
         INSERT INTO goods (name) VALUES (@name);
         SELECT * FROM goods;
         LOAD DATA LOCAL INFILE '{}' INTO TABLE goods FIELDS TERMINATED BY ',' (id, name);
         START TRANSACTION; DELETE FROM goods WHERE id = 1; ROLLBACK;
         PREPARE s FROM 'UPDATE goods SET name = CONCAT(name, ?) WHERE id = ?';
         SET @a = '!', @b = 2; EXECUTE s USING @a, @b; DEALLOCATE PREPARE s;
         CREATE DATABASE other; USE other; CREATE TABLE shop.copied AS SELECT * FROM shop.goods;
         UPDATE shop.goods SET day = '2001-02-03' WHERE id = LAST_INSERT_ID();
         DELIMITER //
         CREATE PROCEDURE shop.add_one() BEGIN INSERT INTO shop.goods (name) VALUES ('by procedure');
           SELECT 1; SELECT 2; END //
         DELIMITER ;
         CALL shop.add_one();",
        file.display()
    );
    // It continues after the refused row, and reports it at its end.
    let input = original.dir.path().join("script.sql");
    std::fs::write(&input, script).unwrap();
    let input = std::fs::File::open(input).unwrap();
    let ended = mariadb(proxy.address).arg("--force").stdin(input).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr).matches("ERROR").count(), 1, "{ended:?}");
    check(original, &proxy);
}

/// Delays the answer to a request, and what its connection did next, until after another request.
fn delay_answer(entries: &mut Vec<Entry>, to: &[u8], behind: &[u8]) {
    let request = |entries: &[Entry], text: &[u8]| {
        entries.iter().enumerate().find_map(|(index, entry)| match entry {
            Entry::Request { position, connection, payload, .. } => payload
                .windows(text.len())
                .any(|part| part == text)
                .then_some((index, *position, *connection)),
            _ => None,
        })
    };
    let (first, answered, delayed) = request(entries, to).unwrap();
    let (last, ..) = request(entries, behind).unwrap();
    let is_delayed = |entry: &Entry| match entry {
        Entry::Request { connection, .. } | Entry::Closed { connection, .. } => {
            *connection == delayed
        }
        Entry::Completed { position, .. } => *position == answered,
        Entry::Opened { .. } | Entry::Gap { .. } => false,
    };
    let between: Vec<Entry> = entries.drain(first + 1..=last).collect();
    let (later, mut sooner): (Vec<Entry>, Vec<Entry>) = between.into_iter().partition(is_delayed);
    sooner.extend(later);
    entries.splice(first + 1..first + 1, sooner);
}

#[test]
fn a_request_that_takes_long_is_not_overtaken() {
    if !is_installed() {
        return;
    }
    let original = Server::start();
    let proxy = Proxy::start(original.address, Protocol::Mysql);
    for sql in [
        "CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40)); INSERT INTO goods VALUES (1, '')",
        // It locks the row after its sleep.
        "UPDATE goods, (SELECT SLEEP(0.0)) AS slow SET name = 'first' WHERE id = 1",
        "UPDATE goods SET name = 'second' WHERE id = 1",
    ] {
        output(mariadb(proxy.address).args(["-e", sql]));
    }
    let mut entries = proxy.entries();
    delay_answer(&mut entries, b"SLEEP(0.0)", b"'second'");
    for entry in &mut entries {
        if let Entry::Request { payload, .. } = entry
            && let Some(at) = payload.windows(5).position(|part| part == b"(0.0)")
        {
            payload[at..at + 5].copy_from_slice(b"(0.3)");
        }
    }
    for parallel in [false, true] {
        let server = Server::start();
        let report = replay_all(&entries, &Settings { parallel, ..server.settings() });
        assert_eq!((report.differences, report.waited), (vec![], 0), "parallel: {parallel}");
        let dump = server.dump();
        assert!(dump.contains("(1,'second')"), "parallel: {parallel}: {dump}");
    }
}

#[test]
fn a_statement_that_waits_for_a_locked_table_gets_it_when_it_is_unlocked() {
    if !is_installed() {
        return;
    }
    let original = Server::start();
    let proxy = Proxy::start(original.address, Protocol::Mysql);
    let address = proxy.address;
    let table = "CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40)); \
                 INSERT INTO goods VALUES (1, ''); INSERT INTO goods VALUES (2, ''); \
                 INSERT INTO goods VALUES (3, ''); INSERT INTO goods VALUES (4, '');";
    output(mariadb(address).args(["-e", table]));
    let mut locking = mariadb(address).arg("--unbuffered").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = locking.stdin.take().unwrap();
    let recorded = proxy.entries().len();
    input.write_all(b"LOCK TABLES goods WRITE;\n").unwrap();
    let is_locked = |entry: &Entry| matches!(entry, Entry::Request { payload, .. } if payload.windows(4).any(|part| part == b"LOCK"));
    wait_until(|| {
        let entries = proxy.entries();
        let later = entries.get(recorded..).unwrap_or_default();
        later.iter().any(is_locked) && matches!(later.last(), Some(Entry::Completed { .. }))
    });
    let waiting = std::thread::spawn(move || {
        output(mariadb(address).args(["-e", "UPDATE goods SET name = 'second' WHERE id = 1"]))
    });
    wait_until(|| original.says("SHOW PROCESSLIST").contains("Waiting for table"));
    input.write_all(b"UPDATE goods SET name = 'first'; UNLOCK TABLES;\n").unwrap();
    drop(input);
    assert!(locking.wait().unwrap().success());
    waiting.join().unwrap();
    check(original, &proxy);
}
