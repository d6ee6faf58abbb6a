//! Objects that have a text: names of backups, and how the server was configured.

use base::Lsn;
use base::checksum::crc32c;
use redo::Id;

use crate::configurations::Configurations;
use crate::desk::Desk;
use crate::error::Result;
use crate::fill::Portion;
use crate::frames::Compression;
use crate::key::Salts;
use crate::name::Name;
use crate::named::Names;
use crate::object::Header;
use crate::target::Target;

/// What a text is put with.
pub(crate) struct TextWriter<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) database: Id,
    pub(crate) writer: u64,
    pub(crate) salts: &'a mut Salts,
    pub(crate) compression: Compression,
}

impl TextWriter<'_> {
    /// Puts an object that has nothing but this text. There is none of its name but one that says the same.
    pub(crate) fn put(&mut self, name: Name, text: &str) -> Result<()> {
        let header = Header {
            bytes: text.len() as u64,
            last_crc: crc32c(text.as_bytes()),
            ..Header::new(self.database, name)
        };
        let bytes = [&header.encode()[..], text.as_bytes()].concat();
        let mut portion = Portion::new(header, bytes);
        portion.encode(self.target, self.salts, self.compression);
        self.target.put_new(self.database, &name, portion.stored())?;
        Ok(())
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Texts {
    names: Names,
    configurations: Configurations,
}

impl Texts {
    /// Takes what was told.
    pub(crate) fn hear(&mut self, desk: &Desk) {
        if let Some(backups) = desk.take_backups() {
            self.names.tell(backups);
        }
        if let Some((from, text)) = desk.take_configuration() {
            self.configurations.tell(from, text);
        }
    }

    /// Puts or removes how the server was configured, if that is to be done.
    pub(crate) fn configure(&mut self, to: &mut TextWriter<'_>) -> Result<bool> {
        self.configurations.step(to)
    }

    /// Puts or removes the name of a backup, if that is to be done; blocks up to `archived` are there.
    pub(crate) fn name(&mut self, archived: Lsn, to: &mut TextWriter<'_>) -> Result<bool> {
        self.names.step(archived, to)
    }
}
