//! What the step machines of this crate say after each step.

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something; there may be more to do at once.
    Worked,
    /// Nothing; wait before the next step.
    Idle,
    /// Nothing, and there will never be anything to do again.
    Finished,
}
