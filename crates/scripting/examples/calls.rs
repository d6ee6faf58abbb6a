//! What a call of `redis.call` costs: a script of three calls to a host that does nothing.
//!
//! `cargo run --release -p indelible-scripting --example calls`

use std::hint::black_box;
use std::time::{Duration, Instant};

use resp::Writer;
use scripting::{Ending, Host, Interrupt, Level, Options, Origin, Permission, Scripts};

struct Nothing;

impl Host for Nothing {
    fn call(&mut self, arguments: &[&[u8]], reply: &mut Writer) {
        match black_box(arguments).len() {
            2 => reply.bulk(b"some value"),
            _ => reply.ok(),
        }
    }

    fn log(&mut self, _level: Level, _line: &[u8]) {}

    fn permission(&mut self, _arguments: &[&[u8]]) -> Permission {
        Permission::Granted
    }

    fn interrupt(&mut self) -> Interrupt {
        Interrupt::Continue
    }

    fn clock(&mut self) -> Duration {
        Duration::ZERO
    }
}

const RUN_TIME: Duration = Duration::from_millis(300);

fn measure(name: &str, source: &str) {
    let mut scripts = Scripts::new(Options::default());
    let id = scripts.load(source.as_bytes(), Origin::Load).expect("it is Lua").id();
    let mut out = Writer::default();
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let mut runs = 0_u32;
        while !runs.is_multiple_of(64) || start.elapsed() < RUN_TIME {
            let script = scripts.find(&id).expect("it was loaded");
            let ending = scripts.run(script, &[b"key"], &[b"value"], &mut Nothing, &mut out);
            assert_eq!(ending, Ending::Returned);
            out.reset(1 << 10);
            runs += 1;
        }
        fastest = fastest.min(start.elapsed() / runs);
    }
    println!("{name:>24} {:>7} ns a run", fastest.as_nanos());
}

fn main() {
    let start = Instant::now();
    let bytes = Scripts::new(Options::default()).machine_bytes();
    println!("a new state: {} µs, {} KiB", start.elapsed().as_micros(), bytes >> 10);
    measure("return 1", "return 1");
    measure("one GET", "return redis.call('GET', KEYS[1])");
    measure(
        "SET, GET, GET",
        "redis.call('SET', KEYS[1], ARGV[1]) redis.call('GET', KEYS[1]) \
         return redis.call('GET', KEYS[1])",
    );
    measure(
        "unlock",
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) \
         else return 0 end",
    );
    measure("1,000 GET", "for i = 1, 1000 do redis.call('GET', KEYS[1]) end");
    measure("1,000 SET", "for i = 1, 1000 do redis.call('SET', KEYS[1], ARGV[1]) end");
    measure("1,000 redis.call alone", "for i = 1, 1000 do local x = redis.call end");
    measure("1,000 bit.band", "for i = 1, 1000 do bit.band(1, 2) end");
    measure("cjson.encode", "return cjson.encode({a = 1, b = {1, 2, 3}, c = ARGV[1]})");
    measure("cjson.decode", "return cjson.decode('{\"a\": 1, \"b\": [1, 2, 3]}').a");
}
