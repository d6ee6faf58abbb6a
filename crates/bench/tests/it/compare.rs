//! `indelible-bench compare` on two servers of Redis: lines of JSON, and a table.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// After this time, a server counts as stuck, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that is killed when this is dropped, also by a failing test.
struct Redis {
    process: Child,
    port: u16,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Redis {
    /// `None` if it is not installed.
    fn start(dir: &Path) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        let process = command.arg(dir).stdout(Stdio::null()).spawn();
        if let Err(error) = &process {
            testing::skipped("redis-server", error);
        }
        let mut server = Self { process: process.ok()?, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.process.try_wait().unwrap().is_none(), "redis-server has ended");
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    /// Sends a command, and returns its reply, which is a line.
    fn call(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }
}

fn compare(servers: &[&Redis], options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible-bench"));
    command.arg("compare");
    for (name, server) in ["one", "other"].iter().zip(servers) {
        command.args(["--target", &format!("{name}={}", server.port)]);
    }
    command.args(options.split(' ')).output().unwrap()
}

/// The lines of JSON, the first one apart, and the table.
fn lines(output: &Output) -> (Value, Vec<Value>, String) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let (json, table) = text.split_once("\n\n").unwrap();
    let mut lines = json.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.next().unwrap(), lines.collect(), table.to_owned())
}

#[test]
fn two_servers_are_loaded_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let Some(one) = Redis::start(dir.path()) else { return };
    let Some(other) = Redis::start(dir.path()) else { return };
    let options = "--workload e --keys 500 --fields 2 --value-bytes 100 --connections 4 --rounds 3 --seconds 0.3 \
                   --settle 0.1 --rest 0";
    let (header, runs, table) = lines(&compare(&[&one, &other], options));
    assert!(header["targets"][0]["version"].as_str().unwrap().starts_with("redis "), "{header}");
    assert!(header["targets"][0]["command"][0].as_str().unwrap().contains("redis"), "{header}");
    assert_eq!(header["targets"][1]["pid"], other.process.id(), "{header}");
    let turns: Vec<_> =
        runs.iter().map(|run| (run["round"].clone(), run["target"].clone())).collect();
    let expected = [(1, "one"), (1, "other"), (2, "other"), (2, "one"), (3, "one"), (3, "other")];
    assert_eq!(turns, expected.map(|(round, target)| (round.into(), target.into())));
    for run in &runs {
        assert!(run["scans"]["count"].as_u64().unwrap() > 0, "{run}");
        assert!(run["inserted"].as_u64().unwrap() > 0, "{run}");
        assert_eq!((&run["missing"], &run["wrong"]), (&0.into(), &0.into()), "{run}");
        let share = run["client_processor"].as_f64().unwrap();
        assert!(share > 0.0 && share < 1.1, "{run}");
        let server = &run["server"];
        assert!(server["threads_us"]["redis-server"].as_f64().unwrap() > 0.0, "{run}");
        assert!(server["pss_bytes"].as_u64().unwrap() > 100_000, "{run}");
        assert!(server["device_written_bytes"].is_u64(), "{run}");
    }
    assert!(
        table.starts_with("| median (least – greatest) | one | other | other ÷ one |\n"),
        "{table}"
    );
    for row in ["operations/s", "p99.9 µs", "CPU µs/request, redis-server", "PSS MB"] {
        assert!(table.contains(&format!("\n| {row} | ")), "{row}: {table}");
    }
    // What was inserted is removed: the same again finds its records, and no others.
    let (_, again, _) =
        lines(&compare(&[&one, &other], &options.replace("--rounds 3", "--rounds 1")));
    assert_eq!(again.len(), 2);
    let fails = |options: &str, why: &str| {
        let output = compare(&[&one], options);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{error}");
    };
    // A server with other keys is not written over.
    fails(&options.replace("--keys 500", "--keys 300"), "one has 501 keys");
    // Keys that are not the records are not taken for them, as many as they are.
    assert_eq!(one.call("RENAME key:000000000007 mine"), "+OK");
    fails(options, r#""missing":1"#);
    // A key that is to be inserted is there: its insert would be an update.
    assert_eq!(one.call("RENAME mine key:000000000500"), "+OK");
    fails(&format!("{options} --no-fill"), "one was to have ");
    // What fails is no measurement, whatever the table says.
    assert_eq!(one.call("FLUSHALL"), "+OK");
    let reads = options.replace("--workload e", "--workload c");
    fails(&format!("{reads} --no-fill"), "no measurement: one in round 1: {");
}
