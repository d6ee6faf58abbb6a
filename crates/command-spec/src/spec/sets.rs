//! The sets of flags in a spec, as bits with the names that COMMAND shows for them.
//!
//! The macros at the end are the table's notation: `flags![WRITE FAST]`.

/// Defines a set of named bits: a newtype whose names are those that COMMAND shows.
macro_rules! bit_set {
    ($(#[$doc:meta])* $type:ident($raw:ty) { $($(#[$item_doc:meta])* $name:ident = $bit:literal $shown:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $type($raw);

        impl $type {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $($(#[$item_doc])* pub const $name: Self = Self(1 << $bit);)*

            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $shown)),*];

            /// Both sets together.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The elements of `self` that are not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether all of `other` is in this set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether anything of `other` is in this set.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The names of what is in the set; internal members have none.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES
                    .iter()
                    .filter(move |(bit, shown)| self.has(*bit) && !shown.is_empty())
                    .map(|(_, shown)| *shown)
            }

            /// The member called `name`, in any case.
            #[must_use]
            pub fn by_name(name: &[u8]) -> Option<Self> {
                Self::NAMES
                    .iter()
                    .find(|(_, shown)| !shown.is_empty() && shown.as_bytes().eq_ignore_ascii_case(name))
                    .map(|(bit, _)| *bit)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_set().entries(self.names()).finish()
            }
        }
    };
}

bit_set! {
    /// When and how a command may be called.
    Flags(u32) {
        /// May change the keyspace.
        WRITE = 0 "write";
        /// Reads keys and changes none.
        READONLY = 1 "readonly";
        /// May use more memory, so it is refused when `maxmemory` is reached.
        DENYOOM = 2 "denyoom";
        /// For administrators.
        ADMIN = 3 "admin";
        /// Belongs to publish/subscribe.
        PUBSUB = 4 "pubsub";
        /// Not callable from scripts.
        NOSCRIPT = 5 "noscript";
        /// May make its client wait.
        BLOCKING = 6 "blocking";
        /// Allowed while the data is being loaded.
        LOADING = 7 "loading";
        /// Allowed on a replica that has lost its master.
        STALE = 8 "stale";
        /// Not shown to MONITOR.
        SKIP_MONITOR = 9 "skip_monitor";
        /// Not entered in the slow log.
        SKIP_SLOWLOG = 10 "skip_slowlog";
        /// Allowed in a slot that is being imported, without ASKING.
        ASKING = 11 "asking";
        /// Constant or logarithmic time.
        FAST = 12 "fast";
        /// Allowed before authentication.
        NO_AUTH = 13 "no_auth";
        /// Not a write, yet replicas must see it; COMMAND does not show it.
        MAY_REPLICATE = 14 "";
        /// Its keys may all be left out.
        NO_MANDATORY_KEYS = 15 "no_mandatory_keys";
        /// Only for the clients that the configuration trusts (DEBUG).
        PROTECTED = 16 "";
        /// Refused while a replica loads a new data set next to the old one.
        NO_ASYNC_LOADING = 17 "no_async_loading";
        /// Not allowed between MULTI and EXEC.
        NO_MULTI = 18 "no_multi";
        /// The one-range form does not find all of its keys.
        MOVABLEKEYS = 19 "movablekeys";
        /// Allowed while a script runs for too long.
        ALLOW_BUSY = 20 "allow_busy";
        /// Touches keys that its call does not name; COMMAND does not show it.
        TOUCHES_ARBITRARY_KEYS = 21 "";
        /// May still change from version to version; COMMAND does not show it.
        EXPERIMENTAL = 22 "";
        /// Works on all databases at once; COMMAND does not show it.
        ALL_DBS = 23 "";
        /// Calls other commands, which may write; COMMAND does not show it.
        MAY_WRITE = 24 "";
    }
}

bit_set! {
    /// ACL categories, in the order ACL CAT lists them.
    Categories(u32) {
        /// Works on keys of any type.
        KEYSPACE = 0 "keyspace";
        /// Reads keys.
        READ = 1 "read";
        /// Writes keys.
        WRITE = 2 "write";
        /// Sets.
        SET = 3 "set";
        /// Sorted sets.
        SORTEDSET = 4 "sortedset";
        /// Lists.
        LIST = 5 "list";
        /// Hashes.
        HASH = 6 "hash";
        /// Strings.
        STRING = 7 "string";
        /// Bits of strings.
        BITMAP = 8 "bitmap";
        /// HyperLogLog.
        HYPERLOGLOG = 9 "hyperloglog";
        /// Geographic indices.
        GEO = 10 "geo";
        /// Streams.
        STREAM = 11 "stream";
        /// Publish/subscribe.
        PUBSUB = 12 "pubsub";
        /// Administration.
        ADMIN = 13 "admin";
        /// Constant or logarithmic time.
        FAST = 14 "fast";
        /// Everything that is not fast.
        SLOW = 15 "slow";
        /// May make its client wait.
        BLOCKING = 16 "blocking";
        /// Can hurt the server or its other users.
        DANGEROUS = 17 "dangerous";
        /// The connection itself.
        CONNECTION = 18 "connection";
        /// Transactions.
        TRANSACTION = 19 "transaction";
        /// Scripts and functions.
        SCRIPTING = 20 "scripting";
        /// Arrays; ACL CAT does not list it, as no command in it is served.
        ARRAY = 21 "";
    }
}

bit_set! {
    /// What a command does with the keys that a [`crate::spec::KeySpec`] finds.
    KeyFlags(u16) {
        /// Reads, never writes.
        RO = 0 "RO";
        /// Changes what is there.
        RW = 1 "RW";
        /// Replaces whatever is there.
        OW = 2 "OW";
        /// Deletes the key.
        RM = 3 "RM";
        /// The value is returned, copied or compared.
        ACCESS = 4 "access";
        /// The value is updated.
        UPDATE = 5 "update";
        /// Something is added to the value.
        INSERT = 6 "insert";
        /// Something is taken out of the value.
        DELETE = 7 "delete";
        /// Looks like a key and is none (a shard channel).
        NOT_KEY = 8 "not_key";
        /// Does not find all the keys.
        INCOMPLETE = 9 "incomplete";
        /// Other arguments decide which of the flags hold.
        VARIABLE_FLAGS = 10 "variable_flags";
    }
}

bit_set! {
    /// How often an argument appears.
    ArgFlags(u8) {
        /// May be left out.
        OPTIONAL = 0 "optional";
        /// May be repeated.
        MULTIPLE = 1 "multiple";
        /// Its token is repeated with it.
        MULTIPLE_TOKEN = 2 "multiple_token";
    }
}

/// `flags![WRITE FAST]`: a set of [`Flags`] in the table's notation.
macro_rules! flags {
    ($($name:ident)*) => { $crate::spec::Flags::NONE$(.with($crate::spec::Flags::$name))* };
}

/// `acl![KEYSPACE]`: a set of [`Categories`] in the table's notation.
macro_rules! acl {
    ($($name:ident)*) => { $crate::spec::Categories::NONE$(.with($crate::spec::Categories::$name))* };
}

/// `key_flags![RO ACCESS]`: a set of [`KeyFlags`] in the table's notation.
macro_rules! key_flags {
    ($($name:ident)*) => { $crate::spec::KeyFlags::NONE$(.with($crate::spec::KeyFlags::$name))* };
}

pub(crate) use {acl, flags, key_flags};
