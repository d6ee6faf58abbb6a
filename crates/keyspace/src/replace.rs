//! Putting a new collection in the place of whatever a key held, as SORT … STORE and its like do.

use base::DbIndex;

use crate::collection::{Collection, Updated};
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::value_type::WrongType;

impl Keyspace {
    /// Fills a new collection of the type `C`, which takes the place of what the key held, with one
    /// record of the key entry. It does not expire. When nothing is put into it the key is deleted.
    ///
    /// # Errors
    /// None: the old value may be of any type.
    pub fn replace<C: Collection, R>(
        &mut self,
        db: DbIndex,
        key: &[u8],
        fill: impl FnOnce(&mut C::Guard<'_>) -> R,
    ) -> Result<Option<Updated<R>>, WrongType> {
        let hash = self.hash_of(key);
        let Some(place) = self.locate_name(db, hash, key) else {
            return self.update::<C, R>(db, key, true, fill);
        };
        self.dbs[db].set_expiry(&mut self.walk, place, hash, None);
        let old = self.dbs[db].take_value(&mut self.walk, place, hash);
        let entry = self.dbs[db].change(&mut self.walk, place, hash);
        // Its address stays: the record of the new collection retires that of the old value.
        match C::packed_kind() {
            Some(kind) => entry.replace_bytes(kind.0, &[0]),
            None => entry.replace_object(Object::begin(C::TYPE, &mut self.recorder)),
        }
        let updated = self.update::<C, R>(db, key, false, fill);
        self.free.value(&mut self.recorder, old);
        updated
    }
}
