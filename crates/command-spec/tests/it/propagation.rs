//! How commands reach a replica: each write says it, and nothing else does.

use command_spec::spec::{Flags, Propagation};
use command_spec::table::{self, Command};

/// Not writes by their flags, and yet a replica must hear of them.
const HEARD: [&str; 7] = ["eval", "evalsha", "exec", "fcall", "pfcount", "publish", "spublish"];

fn known() -> impl Iterator<Item = Command> {
    table::known().flat_map(|command| std::iter::once(command).chain(command.known_subcommands()))
}

#[test]
fn each_write_reaches_replicas_and_nothing_else_does() {
    for command in known() {
        let is_heard = command.flags.has(Flags::WRITE) || HEARD.contains(&command.name);
        assert_eq!(command.propagation != Propagation::None, is_heard, "{}", command.name);
    }
}

#[test]
fn what_may_replicate_by_its_flags_does() {
    for command in known().filter(|command| command.flags.has(Flags::MAY_REPLICATE)) {
        // Valkey sends it to replicas of the node that it moves slots from, in a way of its own.
        if command.name != "cluster|syncslots" {
            assert_ne!(command.propagation, Propagation::None, "{}", command.name);
        }
    }
}

/// The command that a call in the notation of the documentation is one of.
fn command_of(call: &str) -> Option<Command> {
    table::find_call(&call.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn what_is_sent_is_a_write_that_a_replica_executes_alike() {
    for command in known() {
        let rewrites = command.propagation.rewrites();
        assert_eq!(
            rewrites.is_empty(),
            !matches!(command.propagation, Propagation::Rewritten(_)),
            "{}",
            command.name
        );
        for rewrite in rewrites {
            let sent = command_of(rewrite.sent)
                .unwrap_or_else(|| panic!("{} sends {}", command.name, rewrite.sent));
            assert!(sent.flags.has(Flags::WRITE), "{} sends {}", command.name, rewrite.sent);
            assert!(!sent.flags.has(Flags::BLOCKING), "{} sends {}", command.name, rewrite.sent);
            let words = rewrite.sent.split(' ').count();
            assert!(
                sent.accepts(words) || words == 2,
                "{} sends {}, which {} does not accept",
                command.name,
                rewrite.sent,
                sent.name
            );
            // What is sent is not rewritten in turn, but where it lacks what it is sent with: a time
            // that is absolute, an id that is whole.
            let settles = match sent.propagation {
                Propagation::Verbatim | Propagation::Always => true,
                Propagation::Rewritten(again) => again.iter().all(|next| !next.when.is_empty()),
                Propagation::None | Propagation::Effects => false,
            };
            assert!(settles, "{} sends {}", command.name, rewrite.sent);
        }
    }
}

#[test]
fn what_blocks_is_sent_as_what_does_not() {
    for command in known() {
        if command.flags.has(Flags::WRITE) && command.flags.has(Flags::BLOCKING) {
            assert!(!command.propagation.rewrites().is_empty(), "{}", command.name);
        }
    }
}

#[test]
fn times_are_sent_as_points_in_time() {
    for command in known().filter(|command| command.flags.has(Flags::WRITE)) {
        let takes_seconds = command
            .arguments
            .iter()
            .chain(command.arguments.iter().flat_map(|argument| argument.arguments))
            .any(|argument| matches!(argument.name, "seconds" | "milliseconds"));
        if takes_seconds {
            let sends_time = |sent: &str| sent.contains("unix-time-milliseconds");
            let rewrites = command.propagation.rewrites();
            assert!(rewrites.iter().any(|rewrite| sends_time(rewrite.sent)), "{}", command.name);
        }
    }
}

#[test]
fn the_cases_of_a_command_differ_and_the_rest_comes_last() {
    for command in known() {
        let cases: Vec<&str> =
            command.propagation.rewrites().iter().map(|rewrite| rewrite.when).collect();
        for (index, case) in cases.iter().enumerate() {
            assert!(!cases[..index].contains(case), "{}: {case}", command.name);
            assert!(!case.is_empty() || index + 1 == cases.len(), "{}", command.name);
        }
    }
}
