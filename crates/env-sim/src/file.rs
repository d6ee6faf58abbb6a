//! An open file of the simulated disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use env::File;

use crate::disk::{SimDisk, State, enospc};
use crate::faults::Verdict;
use crate::inode::Inode;
use crate::names::InodeId;

/// A handle. It belongs to one life of the process and fails in the next.
#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    inode: InodeId,
    writable: bool,
    generation: u64,
    /// Whether the file had another name when it was opened.
    is_shared: bool,
    _open: Arc<()>,
}

impl SimFile {
    pub(crate) fn new(
        disk: SimDisk,
        path: PathBuf,
        inode: InodeId,
        writable: bool,
        generation: u64,
        is_shared: bool,
        open: Arc<()>,
    ) -> Self {
        Self { disk, path, inode, writable, generation, is_shared, _open: open }
    }

    fn inode<'a>(&self, state: &'a mut State) -> &'a mut Inode {
        state.inodes.get_mut(&self.inode).expect("an open file is not forgotten")
    }

    /// Runs a call that changes the file, subject to faults.
    fn change<T>(
        &self,
        name: &str,
        run: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        if !self.writable && name != "sync_data" {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let verdict = state.effect(self.generation, name, &self.path);
        verdict.carry_out(|| run(&mut state))
    }
}

impl SimFile {
    /// Runs a call that makes something durable, subject to faults.
    fn sync_with(&self, sync: impl FnOnce(&mut Inode)) -> io::Result<()> {
        let mut state = self.disk.state();
        let state = &mut *state;
        let verdict = state.effect(self.generation, "sync_data", &self.path);
        let inode = state.inodes.get_mut(&self.inode).expect("an open file is not forgotten");
        // A crash itself decides what was kept; only a failed sync in a live process drops data.
        let drops = matches!(&verdict, Verdict::Fail(error) if error.raw_os_error().is_some());
        if drops {
            inode.fail_sync(&mut state.rng);
        }
        verdict.carry_out(|| {
            sync(inode);
            Ok(())
        })
    }

    /// Notes a change, from `start` on, of a file that is shared with other programs.
    fn check_own(&self, state: &mut State, name: &str, start: u64) {
        if !state.links.is_shared(&state.names, &self.path, self.inode) {
            return;
        }
        let kept = self.inode(state).kept();
        if self.is_shared || start < kept {
            let path = self.path.display();
            state.trespass.note(|| {
                format!("{name} at {start} of {path}, which has another name: {kept} bytes stay")
            });
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.look(self.generation, &self.path)?;
        let mut wanted = buf.len();
        if state.faults.short_reads && wanted > 1 && state.rng.coin() {
            wanted = 1 + usize::try_from(state.rng.below(wanted as u64 - 1)).expect("fits");
        }
        Ok(self.inode(&mut state).read(&mut buf[..wanted], offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change("write", |state| {
            state.note(&offset.to_le_bytes());
            state.note(bytes);
            let same = if self.is_shared { 0 } else { self.inode(state).kept_as(bytes, offset) };
            self.check_own(state, "write", offset + same);
            let occupied = self.inode(state).occupied();
            let end = offset + bytes.len() as u64;
            let room = state.room();
            let lands_at = state.landing(self.inode, offset);
            if end.saturating_sub(occupied) > room {
                // Writes the part that still fits, as the kernel does.
                let fits = (occupied + room).saturating_sub(offset).min(bytes.len() as u64);
                let fits = usize::try_from(fits).expect("not more than was given");
                self.inode(state).write(&bytes[..fits], offset, lands_at);
                return Err(enospc());
            }
            self.inode(state).write(bytes, offset, lands_at);
            self.inode(state).note_written(end);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_with(Inode::sync)
    }

    fn write_durably_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)?;
        // What was written before, and was not synced, is not its matter.
        self.sync_with(|inode| inode.sync_last(bytes.len(), offset))
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.alive(self.generation)?;
        Ok(self.inode(&mut state).len())
    }

    fn has_name(&self) -> io::Result<bool> {
        let state = self.disk.state();
        state.alive(self.generation)?;
        Ok(state.names.of(self.inode).next().is_some())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change("set_len", |state| {
            state.note(&len.to_le_bytes());
            self.check_own(state, "set_len", len);
            let growth = len.saturating_sub(self.inode(state).occupied());
            if growth > state.room() {
                return Err(enospc());
            }
            self.inode(state).set_len(len);
            Ok(())
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change("allocate", |state| {
            let end = offset + len;
            let growth = end.saturating_sub(self.inode(state).occupied());
            if growth > state.room() {
                return Err(enospc());
            }
            self.inode(state).reserve(end);
            Ok(())
        })
    }
}
