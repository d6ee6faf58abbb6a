//! What scripts decode: JSON, MessagePack, binary structures, patterns; and source that is compiled.
//!
//! The first byte chooses the decoder. What was decoded and can be encoded is decoded to the same
//! again, as far as its length tells: the order of fields is not kept. (MessagePack has nil in arrays, which
//! tables cannot hold: what is compared was written twice.)

use std::cell::RefCell;
use std::time::Duration;

use resp::Writer;
use scripting::{Host, Interrupt, Level, Options, Origin, Permission, Scripts};

/// How often a script may go on: a pattern that backtracks for long is stopped.
const PATIENCE: u32 = 20;

const MEMORY_BYTES_MAX: usize = 8 << 20;

const DECODERS: [&[u8]; 5] = [
    b"local read, value = pcall(cjson.decode, ARGV[1]) \
      if not read then return end \
      local written, text = pcall(cjson.encode, value) \
      if written then return #text - #cjson.encode(cjson.decode(text)) end",
    b"local read, value = pcall(cmsgpack.unpack, ARGV[1]) \
      if not read then return end \
      local text = cmsgpack.pack(cmsgpack.unpack(cmsgpack.pack(value))) \
      return #text - #cmsgpack.pack(cmsgpack.unpack(text))",
    b"pcall(struct.unpack, ARGV[1], ARGV[2]) pcall(struct.size, ARGV[1])",
    b"pcall(string.find, ARGV[2], ARGV[1]) pcall(string.gsub, ARGV[2], ARGV[1], '%0%1')",
    b"loadstring(ARGV[1])",
];

/// A server that does nothing, and lets a script go on so often.
pub(crate) struct Impatient {
    asks_left: u32,
}

impl Impatient {
    pub(crate) const fn new(patience: u32) -> Self {
        Self { asks_left: patience }
    }
}

impl Host for Impatient {
    fn call(&mut self, _arguments: &[&[u8]], reply: &mut Writer) {
        reply.ok();
    }

    fn log(&mut self, _level: Level, _line: &[u8]) {}

    fn permission(&mut self, _arguments: &[&[u8]]) -> Permission {
        Permission::Denied
    }

    fn interrupt(&mut self) -> Interrupt {
        if self.asks_left == 0 {
            return Interrupt::Stop;
        }
        self.asks_left -= 1;
        Interrupt::Continue
    }

    fn clock(&mut self) -> Duration {
        Duration::ZERO
    }
}

thread_local! {
    static SCRIPTS: RefCell<Scripts> =
        RefCell::new(Scripts::new(Options { memory_bytes_max: MEMORY_BYTES_MAX, ..Options::default() }));
}

pub(crate) fn run(input: &[u8]) {
    let Some((chosen, bytes)) = input.split_first() else { return };
    let source = DECODERS[usize::from(*chosen) % DECODERS.len()];
    let (before, after) = bytes.split_at(bytes.len() / 2);
    let arguments = if matches!(chosen % 5, 2 | 3) { [before, after] } else { [bytes, after] };
    SCRIPTS.with_borrow_mut(|scripts| {
        let script = scripts.load(source, Origin::Load).expect("it is Lua");
        let mut out = Writer::default();
        let host = &mut Impatient::new(PATIENCE);
        let _ = scripts.run(script, &[], &arguments, host, &mut out);
        let reply = out.take();
        let is_right = reply == b"$-1\r\n" || reply == b":0\r\n" || reply.starts_with(b"-");
        assert!(is_right, "{}", reply.escape_ascii());
        assert!(scripts.machine_bytes() <= MEMORY_BYTES_MAX * 2, "what was decoded is garbage");
    });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 16] = [
        b"\0{\"a\": [1, -2.5e3, true, false, null, \"\\u00e9\\ud83d\\ude00\\n\"], \"b\": {}}",
        b"\0[[[[1]]], 0x1F, inf, -nan, 1e400, 12345678901234567890]",
        b"\0{\"1\": 1, \"a\\/b\": \"\\b\\f\"}",
        b"\x01\x93\x01\xa1a\x81\xa1k\xcb\x3f\xf8\0\0\0\0\0\0",
        b"\x01\xdc\0\x02\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xd3\x80\0\0\0\0\0\0\0",
        b"\x01\x82\x01\xc0\x02\xc3",
        b"\x01\xdd\xff\xff\xff\xff\x01",
        b"\x02>I4c0sbd\0\0\0\x03abcxyz\0\x01\0\0\0\0",
        b"\x02!8 b i16 <hHlLTf\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x03(%w+)=(%w-)%s*$key=value  ",
        b"\x03%b()%f[%a][^%]a-z]a(b(c)d)e]f",
        b"\x03a*a*a*a*a*a*a*baaaaaaaaaaaaaaaa",
        b"\x03()(.)%2.-?$aabbccddeeff",
        b"\x04local t = {1, [2] = 'x', y = function(...) return ... end} return t.y(#t)",
        b"\x04for i = 1, 10 do if i % 2 == 0 then break end end -- [[x]] [==[ y ]==]",
        b"\x04\x1bLuaQ",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}
