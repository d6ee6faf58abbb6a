//! What a walk promises besides what it emits.
