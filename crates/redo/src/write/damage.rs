//! Damage that was met while the log runs: told of, and reported by readers.

use base::SegmentId;
use env::FileError;

use crate::error::Error;
use crate::repair::scrubber::{Finding, Target};
use crate::write::log::Log;

impl Log {
    /// Takes note that a reader of the log, such as that of a mark, has failed: a sealed file whose bytes are bad
    /// is healed, as if the scrubber had found it. Other errors are left to it.
    pub fn note_damage(&mut self, error: &Error) {
        let Error::File(FileError::Corrupt { path, offset, what, remedy }) = error else { return };
        let (healing, schedule, scene) = self.background();
        let is_it = |device, leader| scene.shared.file_of(device, leader) == *path;
        let mut leaders = scene.segments.iter().filter(|segment| segment.leader == segment.id);
        let Some(leader) = leaders.find(|leader| is_it(leader.device, leader.id)) else { return };
        // What is in several files, or still grows, was not read as a whole.
        let mut file = scene.segments.file(leader.id);
        if !file.all(|segment| segment.is_sealed && segment.parts.is_empty()) {
            return;
        }
        let (path, offset, what, remedy) = (path.clone(), *offset, what.clone(), *remedy);
        let error = FileError::Corrupt { path, offset, what, remedy }.into();
        let target = Target::of(scene.segments, scene.shared, leader);
        healing.note_finding(schedule, &scene, Finding { target, error });
    }

    /// Says something to people.
    pub(crate) fn tell(&mut self, event: String) {
        self.healing.tell(event);
    }

    /// Returns what was found out about damage, or why no history is kept, since this was asked last, for people.
    pub fn drain_events(&mut self) -> Vec<String> {
        if let Some(why) = self.marks.holds().take_refusal() {
            self.tell(format!(
                "what is replaced cannot be kept, so the log can be read as it was only from now on: {why}"
            ));
        }
        if let Some(bytes) = self.marks.holds().take_new_limit() {
            self.tell(format!(
                "a device takes no more although its disk seems to have room, as under a quota: no more than {bytes} bytes of history are kept until the next start"
            ));
        }
        self.healing.drain_events()
    }

    /// Segments that are damaged. Every entry with its record in one of them must be logged anew;
    /// the list is empty as soon as nothing needs that, and while what is needed is not known.
    #[must_use]
    pub fn rewrites(&self) -> Vec<SegmentId> {
        let is_known = self.validity.is_known();
        if is_known { self.healing.rewrites(&self.segments) } else { Vec::new() }
    }
}
