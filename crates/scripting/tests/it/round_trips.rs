//! What is written by `cjson`, `cmsgpack` and `struct` is read back the same.

use proptest::prelude::*;

use crate::host::Session;

/// A value that JSON and MessagePack can both write, as a constructor of Lua.
fn constructors() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i32>().prop_map(|value| value.to_string()),
        (-1e6..1e6).prop_map(|value: f64| format!("{value:.3}")),
        "[ -~]{0,12}".prop_map(|text| format!("{text:?}").replace("\\'", "'")),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..5)
                .prop_map(|items| format!("{{{}}}", items.join(","))),
            prop::collection::btree_map("[a-z]{1,5}", inner, 1..5).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.into_iter().map(|(k, v)| format!("[{k:?}]={v}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

const SAME: &str = "local function same(a, b) \
    if type(a) ~= type(b) then return false end \
    if type(a) ~= 'table' then return a == b end \
    for k, v in pairs(a) do if not same(v, b[k]) then return false end end \
    for k in pairs(b) do if a[k] == nil then return false end end \
    return true end ";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_survive_json_and_messagepack(value in constructors()) {
        let mut session = Session::new();
        let script = format!(
            "{SAME} local v = {value} return {{same(v, cjson.decode(cjson.encode(v))), \
             same(v, cmsgpack.unpack(cmsgpack.pack(v)))}}"
        );
        prop_assert_eq!(session.eval(&script), r"*2\r\n:1\r\n:1\r\n", "{}", value);
    }

    #[test]
    fn bytes_survive_messagepack_and_struct(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut session = Session::new();
        let script = "return cmsgpack.unpack(cmsgpack.pack(ARGV[1])) == ARGV[1] \
            and struct.unpack('>I4c0', struct.pack('>I4c0', #ARGV[1], ARGV[1])) == ARGV[1]";
        prop_assert_eq!(session.eval_with(script, &[&bytes]), r":1\r\n");
    }

    #[test]
    fn numbers_survive_messagepack_and_struct(number in any::<f64>(), whole in any::<i32>()) {
        let mut session = Session::new();
        let script = "local n, i = struct.unpack('d', ARGV[1]), tonumber(ARGV[2]) \
            local function same(a, b) return a == b or (a ~= a and b ~= b) end \
            return {same(n, cmsgpack.unpack(cmsgpack.pack(n))), \
            same(n, (struct.unpack('>d', struct.pack('>d', n)))), \
            same(i, (struct.unpack('<i5', struct.pack('<i5', i))))}";
        let reply = session.eval_with(script, &[&number.to_le_bytes(), whole.to_string().as_bytes()]);
        prop_assert_eq!(reply, r"*3\r\n:1\r\n:1\r\n:1\r\n");
    }

    #[test]
    fn no_input_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut session = Session::new();
        for script in [
            "return {pcall(cjson.decode, ARGV[1])}",
            "return {pcall(cmsgpack.unpack, ARGV[1])}",
            "return {pcall(struct.unpack, ARGV[1], ARGV[1])}",
            "return {pcall(string.find, ARGV[1], ARGV[1])}",
            "return {pcall(string.gsub, ARGV[1], ARGV[1], ARGV[1])}",
            "return {loadstring(ARGV[1])}",
        ] {
            prop_assert!(!session.eval_with(script, &[&bytes]).is_empty());
        }
        let _ = session.run(&bytes, &[], &[]);
        prop_assert_eq!(session.eval("return 1"), r":1\r\n");
    }
}
