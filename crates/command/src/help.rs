//! The HELP subcommands of containers.

use resp::Writer;

/// Replies what `container HELP` says: a head line, `lines`, and the lines about HELP itself.
pub fn write_help(reply: &mut Writer, container: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}
