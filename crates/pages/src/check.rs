//! Walks every page and proves the invariants of trees, chains and the pool.

use std::collections::BTreeSet;

use crate::catalog::is_deleted;
use crate::core::Core;
use crate::error::Result;
use crate::page::Kind;
use crate::position::PageId;

/// What a check has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Tables.
    pub tables: u64,
    /// Keys of all tables.
    pub keys: u64,
    /// Pages of trees, the catalog's included.
    pub tree_pages: u64,
    /// Pages of large values.
    pub overflow_pages: u64,
    /// Free pages.
    pub free_pages: u64,
}

/// A page of a tree still to be visited: its level if known, and the bounds of its keys.
struct Visit {
    id: PageId,
    level: Option<u8>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

struct Walk<'a> {
    core: &'a mut Core,
    seen: BTreeSet<PageId>,
    report: Report,
}

pub(crate) fn check(core: &mut Core) -> Result<Report> {
    core.pool.check()?;
    let meta = core.meta()?;
    let mut walk = Walk { core, seen: BTreeSet::new(), report: Report::default() };
    walk.mark(PageId::META)?;
    let mut roots = Vec::new();
    walk.tree(PageId::CATALOG, &mut |core, name, value| {
        roots.push((core.parse_root(value)?, is_deleted(name)));
        Ok(())
    })?;
    walk.report.keys = 0;
    for (root, is_deleted) in roots {
        let keys = walk.report.keys;
        walk.tree(root, &mut |_, _, _| Ok(()))?;
        if is_deleted {
            walk.report.keys = keys;
        } else {
            walk.report.tables += 1;
        }
    }
    let mut next = meta.free_head;
    while next != 0 {
        let id = PageId(next);
        walk.mark(id)?;
        let page = walk.core.pool.page(id)?;
        if page.kind() != Some(Kind::Free) {
            return Err(walk
                .core
                .corrupt_page(id, "it is in the list of free pages, and not free"));
        }
        next = page.next();
        walk.report.free_pages += 1;
    }
    let Walk { core, seen, report } = walk;
    if report.free_pages != meta.free_count {
        return Err(core.corrupt_page(PageId::META, "the free pages are miscounted"));
    }
    if seen.len() as u64 != meta.page_count || seen.last().is_some_and(|id| id.0 >= meta.page_count)
    {
        return Err(core.corrupt_page(PageId::META, "a page belongs to nothing"));
    }
    Ok(report)
}

impl Walk<'_> {
    fn mark(&mut self, id: PageId) -> Result<()> {
        if self.seen.insert(id) {
            Ok(())
        } else {
            Err(self.core.corrupt_page(id, "it is in two places"))
        }
    }

    fn tree(
        &mut self,
        root: PageId,
        entry: &mut impl FnMut(&Core, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut next = vec![Visit { id: root, level: None, low: Vec::new(), high: None }];
        while let Some(visit) = next.pop() {
            self.mark(visit.id)?;
            self.report.tree_pages += 1;
            let page = self.core.pool.page(visit.id)?.clone();
            let is_leaf = match page.kind() {
                Some(Kind::Leaf) => true,
                Some(Kind::Branch) => false,
                _ => return Err(self.core.corrupt_page(visit.id, "it is no page of a tree")),
            };
            if visit.level.is_some_and(|level| level != page.level())
                || is_leaf != (page.level() == 0)
            {
                return Err(self.core.corrupt_page(visit.id, "it is on the wrong level"));
            }
            for (i, cell) in page.cells().enumerate() {
                let is_lowest = !is_leaf && i == 0;
                let is_above = visit.high.as_ref().is_some_and(|high| cell.key >= high.as_slice());
                if is_above || (!is_lowest && cell.key < visit.low.as_slice()) {
                    return Err(self.core.corrupt_page(visit.id, "a key is outside of its bounds"));
                }
                if is_leaf {
                    self.report.keys += 1;
                    if cell.is_overflow {
                        self.overflow(visit.id, cell.value)?;
                    } else {
                        entry(self.core, cell.key, cell.value)?;
                    }
                    continue;
                }
                let low = if is_lowest { visit.low.clone() } else { cell.key.to_vec() };
                let above = (i + 1 < page.count()).then(|| page.cell(i + 1).key.to_vec());
                let high = above.or_else(|| visit.high.clone());
                next.push(Visit { id: page.child(i), level: Some(page.level() - 1), low, high });
            }
        }
        Ok(())
    }

    fn overflow(&mut self, owner: PageId, address: &[u8]) -> Result<()> {
        let mut pages = Vec::new();
        self.core.look().visit_overflow(owner, address, |id, _| pages.push(id))?;
        for id in pages {
            self.mark(id)?;
            self.report.overflow_pages += 1;
        }
        Ok(())
    }
}
