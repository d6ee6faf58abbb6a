//! What a function may still use, and whether it goes on.

use std::any::Any;

use super::Frame;
use crate::entry::Raise;
use crate::host::Interrupt;
use crate::machine::Run;
use crate::meter::STEP;

impl Frame<'_> {
    /// Fails when the heap is full. To be called before anything is allocated that a script can make
    /// larger than its arguments.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Raise> {
        if bytes < self.heap.room() {
            return Ok(());
        }
        self.heap.note_refused();
        Err(Raise::memory())
    }

    /// To be called in loops: asks from time to time whether the script goes on.
    pub(crate) fn pulse(&mut self) -> Result<(), Raise> {
        if !self.heap.meter().add(STEP) {
            return Ok(());
        }
        self.check_room(0).and(match self.interrupt() {
            Interrupt::Continue => Ok(()),
            Interrupt::Stop => Err(Raise::Stop),
        })
    }

    /// Counts work that needs no memory of Lua. Whether the script goes on, which is asked from time to time.
    pub(crate) fn goes_on(&mut self, work: usize) -> Interrupt {
        if self.heap.meter().add(work) { self.interrupt() } else { Interrupt::Continue }
    }

    /// The bytes that Lua has.
    pub(crate) fn used_bytes(&self) -> usize {
        self.heap.used_bytes()
    }

    /// The bytes that Lua may have in all.
    pub(crate) fn bytes_max(&self) -> usize {
        self.heap.max_bytes()
    }

    /// Asks the host whether the script goes on.
    pub(crate) fn interrupt(&mut self) -> Interrupt {
        self.heap.meter().restart();
        let answer = self.run().map_or(Interrupt::Continue, Run::interrupt);
        if answer == Interrupt::Stop {
            self.heap.meter().stop();
        }
        answer
    }

    /// Ends the script because of a panic, which goes on when Lua has returned.
    pub(crate) fn stop_by(&mut self, panic: Box<dyn Any + Send>) {
        self.heap.meter().stop();
        match self.run() {
            Some(run) => run.stop_by(panic),
            None => std::panic::resume_unwind(panic),
        }
    }
}
