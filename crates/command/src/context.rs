//! What a command handler works on.

use std::marker::PhantomData;

/// The view that a handler has of its client, the keyspace and the reply.
#[derive(Debug)]
pub struct Context<'a> {
    lifetime: PhantomData<&'a mut ()>,
}
