//! The connected clients, each in a numbered place that is used again when it has gone.

use std::collections::HashMap;

use super::client::Client;

/// The place of a client. It is given to another one after the client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(pub usize);

/// See the file's top.
#[derive(Default)]
pub(crate) struct Slab {
    places: Vec<Option<Box<Client>>>,
    free: Vec<usize>,
    by_id: HashMap<u64, ClientKey>,
}

impl Slab {
    /// How many clients there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, client: Client) -> ClientKey {
        let id = client.id;
        let client = Some(Box::new(client));
        let key = match self.free.pop() {
            Some(place) => {
                self.places[place] = client;
                ClientKey(place)
            }
            None => {
                self.places.push(client);
                ClientKey(self.places.len() - 1)
            }
        };
        self.by_id.insert(id, key);
        key
    }

    pub(crate) fn remove(&mut self, key: ClientKey) -> Option<Box<Client>> {
        let client = self.places.get_mut(key.0)?.take()?;
        self.by_id.remove(&client.id);
        self.free.push(key.0);
        Some(client)
    }

    pub(crate) fn get(&self, key: ClientKey) -> Option<&Client> {
        self.places.get(key.0)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, key: ClientKey) -> Option<&mut Client> {
        self.places.get_mut(key.0)?.as_deref_mut()
    }

    /// The clients in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientKey, &Client)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(place, client)| Some((ClientKey(place), client.as_deref()?)))
    }

    /// The places that are in use.
    pub(crate) fn keys(&self) -> Vec<ClientKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// The place of the client with this id.
    pub(crate) fn by_id(&self, id: u64) -> Option<ClientKey> {
        self.by_id.get(&id).copied()
    }
}

impl std::ops::Index<ClientKey> for Slab {
    type Output = Client;

    fn index(&self, key: ClientKey) -> &Client {
        self.get(key).expect("the client is connected")
    }
}

impl std::ops::IndexMut<ClientKey> for Slab {
    fn index_mut(&mut self, key: ClientKey) -> &mut Client {
        self.get_mut(key).expect("the client is connected")
    }
}
