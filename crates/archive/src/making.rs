//! What a tidier makes: leaps, one after the other, and before them perhaps a copy.

use crate::copier::Copier;
use crate::error::Result;
use crate::target::Target;
use crate::thinner::{Thinner, Thinning};

/// See the file's top.
pub(crate) enum Making {
    Leap(Box<Thinner>),
    Copy(Box<Copier>),
}

impl Making {
    /// Does some of it.
    pub(crate) fn step(&mut self, target: &dyn Target) -> Result<Thinning> {
        match self {
            Self::Leap(thinner) => thinner.step(target),
            Self::Copy(copier) => copier.step(target),
        }
    }

    /// Whether it is a copy of which something may have been put: another one of the same name would have other objects.
    pub(crate) const fn is_copy_put(&self) -> bool {
        match self {
            Self::Leap(_) => false,
            Self::Copy(copier) => copier.is_putting(),
        }
    }
}
