//! The patterns of SORT's BY and GET: how an element leads to a value elsewhere.
//!
//! ```text
//!   weight_*          the string at the key with the element in place of the star
//!   object_*->name    the field `name` of the hash at that key
//!   #                 the element itself
//! ```

use crate::context::Context;
use crate::hash;

/// A pattern, taken apart.
pub(super) enum Pattern<'a> {
    /// `#`.
    Element,
    /// No star, so it leads nowhere.
    Nowhere,
    /// A key, and the field of the hash at it if there is one.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    /// Takes a pattern apart.
    pub(super) fn parse(pattern: &'a [u8]) -> Self {
        if pattern == b"#" {
            return Self::Element;
        }
        let Some(star) = pattern.iter().position(|&byte| byte == b'*') else {
            return Self::Nowhere;
        };
        let (before, after) = (&pattern[..star], &pattern[star + 1..]);
        match after.windows(2).position(|pair| pair == b"->") {
            // An arrow at the very end belongs to the key.
            Some(arrow) if arrow + 2 < after.len() => {
                Self::Key { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) }
            }
            _ => Self::Key { before, after, field: None },
        }
    }

    /// The value that `element` leads to.
    pub(super) fn look_up(&self, ctx: &mut Context<'_>, element: &[u8]) -> Option<Box<[u8]>> {
        match *self {
            Self::Element => Some(element.into()),
            Self::Nowhere => None,
            Self::Key { before, after, field } => {
                let key = [before, element, after].concat();
                match field {
                    Some(field) => {
                        let hash = hash::view_of(ctx.keyspace, ctx.db, &key, &[field]).ok()??;
                        hash.get(field).map(Box::from)
                    }
                    None => {
                        let string = ctx.keyspace.string(ctx.db, &key).ok()??;
                        Some(string.as_bytes(&mut itoa::Buffer::new()).into())
                    }
                }
            }
        }
    }
}
