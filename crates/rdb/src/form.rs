//! The forms of values, by the numbers that stand before them; source: Redis' and Valkey's `rdb.h`.

use crate::event::Kind;
use crate::packed::Packing;
use crate::version::Version;

/// The forms that values are written in.
pub(crate) mod number {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const HASH: u8 = 4;
    /// Scores as binary doubles.
    pub(crate) const ZSET_2: u8 = 5;
    /// Streams of Redis 5.0, of 7.0 with more numbers, of 7.2 with when a consumer got something.
    pub(crate) const STREAM: u8 = 15;
    pub(crate) const STREAM_2: u8 = 19;
    pub(crate) const STREAM_3: u8 = 21;
    /// Redis: fields that expire, each after its time.
    pub(crate) const HASH_TIMED: u8 = 24;
    /// Valkey: fields that expire, each before its time.
    pub(crate) const VALKEY_HASH_TIMED: u8 = 22;
}

/// What is no value, by the byte that stands where a form could.
pub(crate) mod opcode {
    /// Redis: the names of the fields of many hashes.
    pub(crate) const HASH_TEMPLATE: u8 = 242;
    /// Redis: what modules know of the key that follows. Valkey: a slot that was being imported.
    pub(crate) const KEY_METADATA: u8 = 243;
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    /// As the release candidates of Redis 7.0 wrote them.
    pub(crate) const FUNCTION_PRE_GA: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const SIZES: u8 = 251;
    pub(crate) const EXPIRES_MS: u8 = 252;
    pub(crate) const EXPIRES_S: u8 = 253;
    pub(crate) const DATABASE: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// How a value is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One string.
    String,
    /// A count and that many strings: a list or a set.
    Strings(Kind),
    /// A count and that many members with scores.
    Scored(Score),
    /// A count and that many fields.
    Fields(FieldTimes),
    /// One blob, behind a time that is of no use here or not.
    Packed { packing: Packing, shape: Shape, behind_time: bool },
    /// A count and that many blobs, all ziplists or each a listpack or an item by itself: a list.
    Nodes(Packing),
    /// A hash with the names of its fields elsewhere.
    Template { names: Names, values: Values },
    /// A stream, in the form of this generation.
    Stream(u8),
}

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    Value(Form),
    /// Something that there is no event for.
    Foreign(Foreign),
}

/// How scores are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    Text,
    Binary,
}

/// Where a plain hash says when its fields expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldTimes {
    None,
    /// Before each field, as a length: 0 for never.
    Before,
    /// As before, counted from one less than a time at the hash's beginning.
    BeforeFromBase,
    /// Behind each field, in eight bytes: -1 for never.
    Behind,
}

/// What the elements of a blob are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Items,
    Members,
    Scored,
    Fields,
    /// Name, value, and when it expires: 0 for never.
    TimedFields,
}

impl Shape {
    /// How many elements of the blob make one of the value.
    pub(crate) const fn width(self) -> u64 {
        match self {
            Self::Items | Self::Members => 1,
            Self::Scored | Self::Fields => 2,
            Self::TimedFields => 3,
        }
    }
}

/// Where the names of a hash's fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// In the template of the number that stands with the values.
    Numbered,
    /// Before the values.
    Inline,
}

/// How the values of a hash are laid out whose names are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// In a listpack, behind the number of a template.
    Packed,
    Strings,
}

/// What there is no event for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Of a module of Redis 4.0's release candidates, which nothing but the module can read.
    OldModule,
    Module,
    /// A stream of Redis 8.6 or 8.8, with what producers and readers have given back: generations 4 and 5.
    Stream(u8),
    Array,
}

impl Foreign {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OldModule | Self::Module => "module",
            Self::Stream(_) => "stream",
            Self::Array => "array",
        }
    }
}

/// Returns what this number stands for, if the version has it.
pub(crate) fn of(number: u8, version: Version) -> Option<Numbered> {
    let packed = |packing, shape, behind_time| Form::Packed { packing, shape, behind_time };
    let template = |names, values| Form::Template { names, values };
    let form = match (number, version) {
        (0, _) => Form::String,
        (1, _) => Form::Strings(Kind::List),
        (2, _) => Form::Strings(Kind::Set),
        (3, _) => Form::Scored(Score::Text),
        (4, _) => Form::Fields(FieldTimes::None),
        (5, _) => Form::Scored(Score::Binary),
        (9, _) => packed(Packing::Zipmap, Shape::Fields, false),
        (10, _) => packed(Packing::Ziplist, Shape::Items, false),
        (11, _) => packed(Packing::Intset, Shape::Members, false),
        (12, _) => packed(Packing::Ziplist, Shape::Scored, false),
        (13, _) => packed(Packing::Ziplist, Shape::Fields, false),
        (14, _) => Form::Nodes(Packing::Ziplist),
        (15, _) => Form::Stream(1),
        (16, _) => packed(Packing::Listpack, Shape::Fields, false),
        (17, _) => packed(Packing::Listpack, Shape::Scored, false),
        (18, _) => Form::Nodes(Packing::Listpack),
        (19, _) => Form::Stream(2),
        (20, _) => packed(Packing::Listpack, Shape::Members, false),
        (21, _) => Form::Stream(3),
        (22, Version::Valkey(_)) => Form::Fields(FieldTimes::Behind),
        (22, Version::Redis(_)) => Form::Fields(FieldTimes::Before),
        (23, Version::Redis(_)) => packed(Packing::Listpack, Shape::TimedFields, false),
        (24, Version::Redis(_)) => Form::Fields(FieldTimes::BeforeFromBase),
        (25, Version::Redis(_)) => packed(Packing::Listpack, Shape::TimedFields, true),
        (29, Version::Redis(_)) => template(Names::Inline, Values::Packed),
        (30, Version::Redis(_)) => template(Names::Numbered, Values::Packed),
        (31, Version::Redis(_)) => template(Names::Inline, Values::Strings),
        (32, Version::Redis(_)) => template(Names::Numbered, Values::Strings),
        _ => return foreign(number, version).map(Numbered::Foreign),
    };
    Some(Numbered::Value(form))
}

fn foreign(number: u8, version: Version) -> Option<Foreign> {
    match (number, version) {
        (6, _) => Some(Foreign::OldModule),
        (7, _) => Some(Foreign::Module),
        (26, Version::Redis(_)) => Some(Foreign::Stream(4)),
        (27, Version::Redis(_)) => Some(Foreign::Stream(5)),
        (28, Version::Redis(_)) => Some(Foreign::Array),
        _ => None,
    }
}

impl Form {
    /// Returns the type of its values.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::String => Kind::String,
            Self::Strings(kind) => kind,
            Self::Nodes(_) | Self::Packed { shape: Shape::Items, .. } => Kind::List,
            Self::Packed { shape: Shape::Members, .. } => Kind::Set,
            Self::Scored(_) | Self::Packed { shape: Shape::Scored, .. } => Kind::ZSet,
            Self::Fields(_) | Self::Packed { .. } | Self::Template { .. } => Kind::Hash,
            Self::Stream(_) => Kind::Stream,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_is_another_form_in_valkey() {
        let (redis, valkey) = (Version::Redis(12), Version::Valkey(80));
        let fields = |times| Some(Numbered::Value(Form::Fields(times)));
        assert_eq!(of(22, redis), fields(FieldTimes::Before));
        assert_eq!(of(22, valkey), fields(FieldTimes::Behind));
        for number in 0..=u8::MAX {
            let (redis, valkey) = (of(number, redis), of(number, valkey));
            assert_eq!(redis.is_some(), number <= 32 && number != 8, "{number}");
            assert_eq!(valkey.is_some(), number <= 22 && number != 8, "{number}");
            assert!(number > 21 || redis == valkey, "{number}");
        }
    }
}
