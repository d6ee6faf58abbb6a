//! The catalog: the tables that exist, and the remains of deleted ones.
//!
//! ```text
//!   name of a table, up to 255 bytes            ─► its root
//!   256 bytes 0xff, then the number of a root   ─► the root of a deleted table
//! ```
//!
//! Deleting a table moves its root to the second kind of entry, in the same group as the deleting
//! transaction; the cost does not depend on the size of the table. The pages are freed later, a few
//! at a time, each batch in its own group, from the last leaf to the first. What remains is a valid
//! tree at all times, also after a crash.

use std::ops::Bound;

use crate::core::{Change, Core};
use crate::error::Result;
use crate::position::PageId;
use crate::redo_record::Op;
use crate::tree::slice;

/// The longest name of a table, in bytes.
pub const TABLE_NAME_BYTES_MAX: usize = 255;

/// Whether an entry of the catalog is the remainder of a deleted table.
pub(crate) fn is_deleted(key: &[u8]) -> bool {
    key.len() > TABLE_NAME_BYTES_MAX
}

fn deleted_key(root: PageId) -> Vec<u8> {
    let mut key = vec![0xff; TABLE_NAME_BYTES_MAX + 1];
    key.extend_from_slice(&root.0.to_be_bytes());
    key
}

impl Core {
    /// Returns the names of all tables.
    pub(crate) fn table_names(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut from = Bound::Unbounded;
        loop {
            let name =
                self.look().tree_next(PageId::CATALOG, slice(&from), |key| key.map(<[u8]>::to_vec));
            match name? {
                Some(name) if !is_deleted(&name) => {
                    from = Bound::Excluded(name.clone());
                    names.push(name);
                }
                _ => return Ok(names),
            }
        }
    }

    /// Deletes a table if it exists.
    pub(crate) fn delete_table(&mut self, change: &mut Change, name: &[u8]) -> Result<()> {
        let Some(root) = self.look().root(name)? else { return Ok(()) };
        self.forget_root(name);
        self.tree_remove(change, PageId::CATALOG, name)?;
        let value = root.0.to_le_bytes();
        self.tree_put(change, PageId::CATALOG, &deleted_key(root), &value)?;
        self.has_deleted_tables = true;
        Ok(())
    }

    /// Frees about `page_count` pages of deleted tables, if there are any. Pages that cannot be
    /// read are left until the store is opened again.
    pub(crate) fn reclaim(&mut self, page_count: usize) {
        if self.has_deleted_tables && self.try_reclaim(page_count).is_err() {
            self.has_deleted_tables = false;
        }
    }

    fn try_reclaim(&mut self, page_count: usize) -> Result<()> {
        let last = self.look().tree_previous_entry(PageId::CATALOG, Bound::Unbounded)?;
        let Some((key, value)) = last.filter(|(key, _)| is_deleted(key)) else {
            self.has_deleted_tables = false;
            return Ok(());
        };
        let root = self.parse_root(&value)?;
        let mut change = self.begin_change(0);
        let made = self.free_tree(&mut change, root, page_count).and_then(|is_gone| {
            if is_gone {
                self.tree_remove(&mut change, PageId::CATALOG, &key)?;
            }
            Ok(())
        });
        self.end_change(change, made).map(drop)
    }

    /// Frees the leaves of a tree from the last on, and each branch that becomes empty. Returns
    /// whether all is gone.
    fn free_tree(&mut self, change: &mut Change, root: PageId, page_count: usize) -> Result<bool> {
        for _ in 0..page_count {
            let mut path = self.look().last_path(root)?;
            let leaf = path.pop().expect("it has the root");
            let page = self.pool.page(leaf)?;
            let large: Vec<Vec<u8>> =
                page.cells().filter(|cell| cell.is_overflow).map(|c| c.value.to_vec()).collect();
            for address in large {
                self.free_overflow(change, leaf, &address)?;
            }
            self.free(change, leaf)?;
            loop {
                let Some(branch) = path.pop() else { return Ok(true) };
                let page = self.pool.page(branch)?;
                if page.count() > 1 {
                    let key = page.cell(page.count() - 1).key.to_vec();
                    self.change_page(change, branch, &Op::Remove { key: &key })?;
                    break;
                }
                self.free(change, branch)?;
            }
        }
        Ok(false)
    }
}
