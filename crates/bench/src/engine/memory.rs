//! A tree in memory: the cost of a workload without a store, and the model for tests.
//!
//! One transaction at a time. It writes in place and notes the previous values, so that an abort
//! can restore them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Connection, Counters, Direction, Engine, Settings, Table, Visitor};
use crate::error::Result;

type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

struct Memory {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    trees: Vec<Tree>,
    is_busy: bool,
}

/// What an abort restores: the table, the key, and the previous value.
type Undo = (usize, Vec<u8>, Option<Vec<u8>>);

struct MemoryConnection<'e> {
    memory: &'e Memory,
    undo: Vec<Undo>,
    is_active: bool,
}

pub(super) fn open(settings: &Settings) -> Box<dyn Engine> {
    let trees = vec![Tree::new(); settings.tables.len()];
    Box::new(Memory { state: Mutex::new(State { trees, is_busy: false }), ended: Condvar::new() })
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Memory {
    fn connect(&self) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(MemoryConnection { memory: self, undo: Vec::new(), is_active: false }))
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl MemoryConnection<'_> {
    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let mut state = self.memory.state();
        let tree = &mut state.trees[table.0];
        let before = match value {
            Some(value) => tree.insert(key.to_vec(), value.to_vec()),
            None => tree.remove(key),
        };
        self.undo.push((table.0, key.to_vec(), before));
    }

    fn end(&mut self) {
        if self.is_active {
            self.is_active = false;
            self.memory.state().is_busy = false;
            self.memory.ended.notify_one();
        }
    }
}

impl Connection for MemoryConnection<'_> {
    fn begin(&mut self) -> Result<()> {
        let mut state = self.memory.state();
        while state.is_busy {
            state = self.memory.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_busy = true;
        self.is_active = true;
        Ok(())
    }

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.memory.state().trees[table.0].get(key).cloned())
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.set(table, key, Some(value));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.set(table, key, None);
        Ok(())
    }

    fn scan(
        &mut self,
        table: Table,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let state = self.memory.state();
        let mut range = state.trees[table.0].range(low.to_vec()..high.to_vec());
        let mut next = || match direction {
            Direction::Up => range.next(),
            Direction::Down => range.next_back(),
        };
        while let Some((key, value)) = next() {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.undo.clear();
        self.end();
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        let mut state = self.memory.state();
        for (table, key, before) in self.undo.drain(..).rev() {
            match before {
                Some(value) => state.trees[table].insert(key, value),
                None => state.trees[table].remove(&key),
            };
        }
        drop(state);
        self.end();
        Ok(())
    }
}

impl Drop for MemoryConnection<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
