//! Keys that archives are encrypted with.
//!
//! ```text
//!   key file: 32 bytes ─┬─► HKDF-SHA256(salt of the object; database, name) ─► AES-256-GCM, of one object alone
//!                       └─► HKDF-SHA256("key id") ─► 8 bytes, in the object's header: which key it was
//! ```
//!
//! An object has a key of its own, so the numbers of its frames are enough as nonces; and it cannot be read in the place of another one. What a key
//! is made of is never shown: [`Key`] prints its id.

use std::fmt;

use base::bytes::u64_at;
use env::Entropy;
use redo::Id;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::error::KeyError;
use crate::name::Name;

/// The length of a key.
pub const KEY_BYTES: usize = 32;

/// The length of a salt.
pub(crate) const SALT_BYTES: usize = 32;

/// The length of what proves that something was encrypted with a key.
pub(crate) const TAG_BYTES: usize = 16;

const CONTEXT: &[u8] = b"indelible archive 1";
const ID_CONTEXT: &[u8] = b"indelible archive key id 1";

/// Which key it is. It tells nothing of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// See the file's top.
#[derive(Clone)]
pub struct Key {
    secret: [u8; KEY_BYTES],
    id: KeyId,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// As many bytes as `out` has, of a secret and what they are for.
fn derive(secret: &[u8; KEY_BYTES], salt: &[u8], context: &[&[u8]], out: &mut [u8]) {
    let derived = Salt::new(HKDF_SHA256, salt).extract(secret);
    let filled = derived.expand(context, Bytes(out.len())).and_then(|bytes| bytes.fill(out));
    filled.expect("so few bytes can be derived");
}

impl Key {
    /// The key of these bytes.
    #[must_use]
    pub fn new(secret: [u8; KEY_BYTES]) -> Self {
        let mut id = [0; 8];
        derive(&secret, &[], &[ID_CONTEXT], &mut id);
        Self { secret, id: KeyId(id) }
    }

    /// The key that a key file has: its bytes in 64 hexadecimal digits, and perhaps the end of a line.
    ///
    /// # Errors
    /// When it is no key.
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let digits = text.trim_ascii_end();
        let mut secret = [0; KEY_BYTES];
        if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(KeyError::NoKey);
        }
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
            *byte = u8::try_from(digit(pair[0]) << 4 | digit(pair[1])).unwrap_or(0);
        }
        Ok(Self::new(secret))
    }

    /// What a key file has of a new key, to be kept.
    #[must_use]
    pub fn generate(entropy: &mut dyn Entropy) -> String {
        let mut secret = [0; KEY_BYTES];
        entropy.fill(&mut secret);
        secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
    }

    /// Which key it is.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The key of one object.
    pub(crate) fn of_object(
        &self,
        salt: &[u8; SALT_BYTES],
        database: Id,
        name: &Name,
    ) -> ObjectKey {
        let mut key = [0; KEY_BYTES];
        let name = name.to_string();
        derive(&self.secret, salt, &[CONTEXT, &database.0, name.as_bytes()], &mut key);
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("it has the length of a key");
        ObjectKey(LessSafeKey::new(key))
    }
}

/// The key of one object. What makes its use safe is that no frame is encrypted twice with it.
pub(crate) struct ObjectKey(LessSafeKey);

/// What of an object is encrypted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// Nothing: its header is only proven.
    Header,
    /// A frame, by its number, and whether it is the last one.
    Frame(u64, bool),
}

impl Part {
    fn nonce(self) -> Nonce {
        let (number, is_last) = match self {
            Self::Header => (u64::MAX, false),
            Self::Frame(number, is_last) => (number, is_last),
        };
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        nonce[8] = u8::from(is_last);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl ObjectKey {
    /// Encrypts `bytes`, and proves them together with `clear`.
    pub(crate) fn seal(&self, part: Part, clear: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.seal_in_place_separate_tag(part.nonce(), Aad::from(clear), bytes);
        let tag = sealed.expect("a frame is short");
        tag.as_ref().try_into().expect("the length of a tag")
    }

    /// Decrypts `bytes`, behind which the tag is; `None` if they are not what was encrypted.
    pub(crate) fn open<'a>(
        &self,
        part: Part,
        clear: &[u8],
        bytes: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.0.open_in_place(part.nonce(), Aad::from(clear), bytes).ok()
    }
}

/// The keys of an archive: the first one encrypts, all of them decrypt.
#[derive(Debug, Clone, Default)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// No keys: nothing is encrypted.
    pub const NONE: Self = Self(Vec::new());

    /// These keys.
    #[must_use]
    pub const fn new(keys: Vec<Key>) -> Self {
        Self(keys)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that encrypts.
    pub(crate) fn first(&self) -> Option<&Key> {
        self.0.first()
    }

    /// The key with this id.
    pub(crate) fn find(&self, id: KeyId) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }
}

/// Salts that never come twice for two objects, of a random seed: not even if the process, with its seed and its count, is
/// there twice, as when a virtual machine is cloned or set back.
pub(crate) struct Salts {
    seed: [u8; KEY_BYTES],
    count: u64,
}

impl Salts {
    pub(crate) const fn new(seed: [u8; KEY_BYTES]) -> Self {
        Self { seed, count: 0 }
    }

    /// The salt of an object with this header and these bytes.
    pub(crate) fn next(&mut self, header: &[u8], bytes: &[u8]) -> [u8; SALT_BYTES] {
        let mut salt = [0; SALT_BYTES];
        self.count += 1;
        let mut content = ring::digest::Context::new(&ring::digest::SHA256);
        content.update(header);
        content.update(bytes);
        let content = content.finish();
        let parts = [b"salt", &self.count.to_le_bytes()[..], content.as_ref()];
        derive(&self.seed, &[], &parts, &mut salt);
        salt
    }

    /// Two numbers that are secret and never come again.
    pub(crate) fn pair(&mut self) -> (u64, u64) {
        let salt = self.next(b"pair", &[]);
        (u64_at(&salt, 0), u64_at(&salt, 8))
    }

    /// A number of the same seed, for what need not be secret.
    pub(crate) fn number(&self) -> u64 {
        u64_at(&self.seed, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Lsn;

    fn name(last: u64) -> Name {
        Name::Log { first: Lsn(1), last: Lsn(last), writer: 1 }
    }

    #[test]
    fn a_key_file_has_64_digits_and_perhaps_the_end_of_a_line() {
        let digits = "00ff".repeat(16);
        let key = Key::parse(digits.as_bytes()).unwrap();
        for text in [format!("{digits}\n"), format!("{digits}\r\n"), digits.to_uppercase()] {
            assert_eq!(Key::parse(text.as_bytes()).unwrap().id(), key.id());
        }
        for text in ["", "00ff", &digits[1..], &format!("{digits}0"), &digits.replace('f', "g")] {
            assert!(matches!(Key::parse(text.as_bytes()), Err(KeyError::NoKey)), "{text}");
        }
        assert_eq!(format!("{key:?}"), format!("Key({})", key.id()), "it is never shown");
    }

    /// RFC 5869, test case 3, of which an object's key is made as here: no salt, no context.
    #[test]
    fn keys_are_derived_as_the_standard_says() {
        let mut out = [0; 42];
        let secret = [0x0b; 22];
        let derived = Salt::new(HKDF_SHA256, &[]).extract(&secret);
        derived.expand(&[&[]], Bytes(out.len())).unwrap().fill(&mut out).unwrap();
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected =
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
        assert_eq!(hex, expected);
    }

    #[test]
    fn what_is_encrypted_is_bound_to_its_object_its_place_and_what_is_in_clear() {
        let (key, other) = (Key::new([1; 32]), Key::new([2; 32]));
        assert_ne!(key.id(), other.id());
        let database = Id([3; 16]);
        let salt = [4; 32];
        let object = key.of_object(&salt, database, &name(5));
        let mut sealed = *b"hello, here is room for a tag...";
        let tag = object.seal(Part::Frame(0, true), b"clear", &mut sealed[..16]);
        sealed[16..].copy_from_slice(&tag);
        assert_ne!(&sealed[..5], b"hello");
        let open = |object: &ObjectKey, part, clear: &[u8]| {
            let mut bytes = sealed;
            object.open(part, clear, &mut bytes).map(|plain| plain.to_vec())
        };
        let good = open(&object, Part::Frame(0, true), b"clear").unwrap();
        assert_eq!(good, b"hello, here is r");
        assert_eq!(open(&object, Part::Frame(0, false), b"clear"), None, "not the last one");
        assert_eq!(open(&object, Part::Frame(1, true), b"clear"), None);
        assert_eq!(open(&object, Part::Frame(0, true), b"Clear"), None);
        for wrong in [
            other.of_object(&salt, database, &name(5)),
            key.of_object(&[5; 32], database, &name(5)),
            key.of_object(&salt, Id([9; 16]), &name(5)),
            key.of_object(&salt, database, &name(6)),
        ] {
            assert_eq!(open(&wrong, Part::Frame(0, true), b"clear"), None);
        }
    }

    #[test]
    fn salts_do_not_come_again() {
        let mut salts = Salts::new([1; 32]);
        let mut other = Salts::new([2; 32]);
        let all: std::collections::BTreeSet<_> =
            (0..100).flat_map(|_| [salts.next(b"h", b"b"), other.next(b"h", b"b")]).collect();
        assert_eq!(all.len(), 200);
    }
}
