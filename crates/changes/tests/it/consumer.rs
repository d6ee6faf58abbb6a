//! A program that follows the change stream, as docs/change-stream.md says how to write one: it keeps data by the id
//! of the database, and large values by their object.

use std::collections::BTreeMap;

use serde_json::Value;

/// Bytes of a name or a value.
pub(crate) type Bytes = Vec<u8>;

/// What a key has, in a form that two sides can be compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) value_type: String,
    pub(crate) expires_at_ms: Option<i64>,
    pub(crate) content: Content,
}

/// A value as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    String(Bytes),
    List(Vec<Bytes>),
    /// Fields with values, members, or members with scores (their bits). Of a stream a line of each entry, group, consumer
    /// and pending entry, and of the last id.
    Pairs(BTreeMap<Bytes, Bytes>),
}

/// A large value, or a small one.
#[derive(Debug, Clone, Default)]
struct Parts {
    string: Bytes,
    nodes: BTreeMap<u64, Vec<Bytes>>,
    pairs: BTreeMap<Bytes, Bytes>,
    stream: Stream,
}

/// The changes that say what a stream is now: of its root, of each node, group, consumer and pending entry.
#[derive(Debug, Clone, Default)]
struct Stream {
    root: Value,
    nodes: BTreeMap<(u64, u64), Value>,
    groups: BTreeMap<u64, Value>,
    consumers: BTreeMap<(u64, u64), Value>,
    pending: BTreeMap<(u64, String), Value>,
}

#[derive(Debug, Clone)]
enum Held {
    Whole(Parts),
    Object(u64),
}

#[derive(Debug, Clone)]
struct Key {
    value_type: String,
    expires_at_ms: Option<i64>,
    held: Held,
}

/// See the file's top.
#[derive(Debug, Clone, Default)]
pub(crate) struct Consumer {
    /// The last block that it has.
    pub(crate) last: u64,
    /// How many changes it was told.
    pub(crate) changes: u64,
    databases: BTreeMap<u64, BTreeMap<Bytes, Key>>,
    /// Which id each number has.
    numbers: BTreeMap<u64, u64>,
    objects: BTreeMap<u64, Parts>,
}

impl Consumer {
    /// Takes a line.
    pub(crate) fn take(&mut self, line: &str) {
        let block: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let lsn = number(&block["lsn"]);
        assert_eq!(lsn, self.last + 1, "every block comes once, in order");
        assert!(block["time_ms"].is_i64(), "{line}");
        for change in block["changes"].as_array().expect("a list") {
            self.apply(change);
            self.changes += 1;
        }
        self.last = lsn;
        // An object that no key has at the end of a block is gone.
        let keys = self.databases.values().flat_map(BTreeMap::values);
        let used: Vec<u64> = keys
            .filter_map(|key| if let Held::Object(object) = key.held { Some(object) } else { None })
            .collect();
        self.objects.retain(|object, _| used.contains(object));
    }

    fn apply(&mut self, change: &Value) {
        let operation = change["op"].as_str().expect("it has one");
        if let (Some(index), Some(id)) = (change["db"].as_u64(), change["db_id"].as_u64()) {
            self.numbers.insert(index, id);
        }
        match operation {
            "set" => {
                let value_type = change["type"].as_str().expect("it has one");
                let parts = parts_of(value_type, change);
                self.put(change, Held::Whole(parts));
            }
            "root" => {
                let object = number(&change["object"]);
                // Wherever it was before, it is here now.
                let others = self.databases.values_mut();
                others.for_each(|keys| keys.retain(|_, key| !key.has(object)));
                let parts = self.objects.entry(object).or_default();
                if let Some(bytes) = change["bytes"].as_u64() {
                    parts.string.resize(usize::try_from(bytes).expect("it fits"), 0);
                }
                parts.stream.root = change.clone();
                self.put(change, Held::Object(object));
            }
            "delete" => {
                let key = bytes(&change["key"]);
                self.keys(change).remove(&key);
            }
            "element" | "delete-element" => self.element(change, operation == "element"),
            "databases" => self.move_databases(change),
            // It changes nothing.
            "note" => {}
            other => panic!("{other}: {change}"),
        }
    }

    fn keys(&mut self, change: &Value) -> &mut BTreeMap<Bytes, Key> {
        self.databases.entry(number(&change["db_id"])).or_default()
    }

    fn put(&mut self, change: &Value, held: Held) {
        let value_type = change["type"].as_str().expect("it has one").to_owned();
        let expires_at_ms = change["expires_at_ms"].as_i64();
        let name = bytes(&change["key"]);
        self.keys(change).insert(name, Key { value_type, expires_at_ms, held });
    }

    fn element(&mut self, change: &Value, is_there: bool) {
        let object = number(&change["object"]);
        let key = bytes(&change["key"]);
        let found = self.keys(change).get(&key);
        assert!(found.is_some_and(|found| found.has(object)), "the key is the object's: {change}");
        assert_eq!(change["type"], found.expect("seen above").value_type, "{change}");
        let parts = self.objects.get_mut(&object).expect("its root came before");
        if let Some(offset) = change["offset"].as_u64() {
            assert!(is_there, "a string loses no part: {change}");
            let (from, value) =
                (usize::try_from(offset).expect("it fits"), bytes(&change["value"]));
            let to = from + value.len();
            parts.string.resize(parts.string.len().max(to), 0);
            parts.string[from..to].copy_from_slice(&value);
        } else if change["type"] == "stream" {
            parts.stream.take(change, is_there);
        } else if let Some(node) = change["node"].as_str() {
            let node: u64 = node.parse().expect("a number");
            if is_there {
                parts.nodes.insert(node, list(&change["items"]));
            } else {
                assert!(parts.nodes.remove(&node).is_some(), "it was there: {change}");
            }
        } else {
            let name = if change["field"].is_null() { &change["member"] } else { &change["field"] };
            let name = bytes(name);
            if !is_there {
                assert!(parts.pairs.remove(&name).is_some(), "it was there: {change}");
            } else if !change["score"].is_null() {
                parts.pairs.insert(name, score(&change["score"]));
            } else if !change["value"].is_null() {
                parts.pairs.insert(name, bytes(&change["value"]));
            } else {
                parts.pairs.insert(name, Vec::new());
            }
        }
    }

    /// Exchanges and empties databases: all of them at once.
    fn move_databases(&mut self, change: &Value) {
        let mut gone = Vec::new();
        for moved in change["moved"].as_array().expect("a list") {
            let (index, id) = (number(&moved["db"]), number(&moved["db_id"]));
            gone.extend(self.numbers.insert(index, id));
        }
        for id in gone {
            if !self.numbers.values().any(|other| *other == id) {
                self.databases.remove(&id);
            }
        }
    }

    /// All that there is, by number of the database and key.
    pub(crate) fn seen(&self) -> BTreeMap<(u64, Bytes), Seen> {
        let mut all = BTreeMap::new();
        for (index, id) in &self.numbers {
            for (name, key) in self.databases.get(id).into_iter().flatten() {
                let parts = match &key.held {
                    Held::Whole(parts) => parts,
                    Held::Object(object) => &self.objects[object],
                };
                let content = match key.value_type.as_str() {
                    "string" => Content::String(parts.string.clone()),
                    "stream" => Content::Pairs(parts.stream.lines()),
                    "list" => Content::List(parts.nodes.values().flatten().cloned().collect()),
                    _ => Content::Pairs(parts.pairs.clone()),
                };
                let (value_type, expires_at_ms) = (key.value_type.clone(), key.expires_at_ms);
                all.insert((*index, name.clone()), Seen { value_type, expires_at_ms, content });
            }
        }
        all
    }
}

impl Stream {
    fn take(&mut self, change: &Value, is_there: bool) {
        let said = is_there.then(|| change.clone());
        if let Some(node) = change["node"].as_str() {
            keep(&mut self.nodes, id(node), said);
        } else if let Some(group) = change["group"].as_u64() {
            if let Some(pending) = change["pending"].as_str() {
                keep(&mut self.pending, (group, pending.to_owned()), said);
            } else if let Some(consumer) = change["consumer"].as_u64() {
                keep(&mut self.consumers, (group, consumer), said);
            } else {
                keep(&mut self.groups, group, said);
            }
        }
    }

    fn lines(&self) -> BTreeMap<Bytes, Bytes> {
        let mut lines = BTreeMap::new();
        let mut put = |name: String, value: String| {
            assert!(
                lines.insert(name.clone().into_bytes(), value.into_bytes()).is_none(),
                "{name}"
            );
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (mut last, mut added) = (text(&self.root["last_id"]), &self.root["entries_added"]);
        for node in self.nodes.values() {
            for entry in node["entries"].as_array().expect("a list") {
                let fields = entry["fields"].as_array().expect("a list").iter();
                let pair = |pair: &Value| [bytes(&pair[0]), bytes(&pair[1])];
                let fields: Vec<Bytes> = fields.flat_map(pair).collect();
                let shown: Vec<String> =
                    fields.iter().map(|it| it.escape_ascii().to_string()).collect();
                put(format!("entry {}", text(&entry["id"])), shown.join(" "));
                let newest = text(&entry["id"]);
                if id(&newest) > id(&last) {
                    (last, added) = (newest, &node["entries_added"]);
                }
            }
        }
        put("last".to_owned(), format!("{last} {}", text(added)));
        let name = |of: Option<&Value>| text(&of.expect("it is there")["name"]);
        for (number, group) in &self.groups {
            let value = format!("{} {}", text(&group["last_id"]), text(&group["entries_read"]));
            put(format!("group {}", name(self.groups.get(number))), value);
        }
        for (group, consumer) in self.consumers.keys() {
            let consumer = name(self.consumers.get(&(*group, *consumer)));
            put(format!("consumer {} {consumer}", name(self.groups.get(group))), String::new());
        }
        for ((group, entry), said) in &self.pending {
            let number = number(&said["consumer"]);
            let consumer = name(self.consumers.get(&(*group, number)));
            let value = format!("{consumer} {}", text(&said["deliveries"]));
            put(format!("pending {} {entry}", name(self.groups.get(group))), value);
        }
        lines
    }
}

fn keep<K: Ord + std::fmt::Debug>(all: &mut BTreeMap<K, Value>, key: K, said: Option<Value>) {
    match said {
        Some(said) => _ = all.insert(key, said),
        None => _ = all.remove(&key).expect("it was there"),
    }
}

/// The two numbers of an id.
fn id(text: &str) -> (u64, u64) {
    let (ms, sequence) = text.split_once('-').expect("an id");
    (ms.parse().expect("a number"), sequence.parse().expect("a number"))
}

impl Key {
    fn has(&self, object: u64) -> bool {
        matches!(self.held, Held::Object(held) if held == object)
    }
}

fn parts_of(value_type: &str, change: &Value) -> Parts {
    let mut parts = Parts::default();
    let pair = |pair: &Value, value: fn(&Value) -> Bytes| (bytes(&pair[0]), value(&pair[1]));
    let all = |name: &str| change[name].as_array().expect("a list").iter();
    match value_type {
        "string" => parts.string = bytes(&change["value"]),
        "list" => _ = parts.nodes.insert(0, list(&change["items"])),
        "set" => parts.pairs = all("members").map(|it| (bytes(it), Vec::new())).collect(),
        "hash" => parts.pairs = all("fields").map(|it| pair(it, bytes)).collect(),
        "zset" => parts.pairs = all("members").map(|it| pair(it, score)).collect(),
        other => panic!("{other}"),
    }
    parts
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> Vec<Bytes> {
    value.as_array().expect("a list").iter().map(bytes).collect()
}

fn score(value: &Value) -> Bytes {
    let number: f64 = value.as_str().and_then(|text| text.parse().ok()).expect("a score");
    number.to_bits().to_le_bytes().to_vec()
}

/// A string, or an object with base64.
fn bytes(value: &Value) -> Bytes {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        Value::Object(_) => base64(value["base64"].as_str().expect("it has some")),
        other => panic!("{other} are no bytes"),
    }
}

fn base64(text: &str) -> Bytes {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit"),
    };
    let mut out = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let digits = group.iter().take_while(|byte| **byte != b'=').map(|byte| digit(*byte));
        let digits: Vec<u8> = digits.collect();
        let word = digits.iter().fold(0u32, |word, digit| word << 6 | u32::from(*digit));
        let word = word << (6 * (4 - digits.len()));
        out.extend_from_slice(&word.to_be_bytes()[1..digits.len()]);
    }
    out
}
