//! Where the data can go back to: history, backups, restore points, dumps, the archive.

use super::chart::{self, Mark, Shape};
use super::format;
use super::html::Html;
use crate::report::{Event, EventKind};
use crate::watch::Picture;

/// What an event is called, and how it is drawn.
const fn look(kind: EventKind) -> (&'static str, &'static str, Shape) {
    match kind {
        EventKind::Backup => ("Backup", "c1", Shape::Diamond),
        EventKind::LostBackup => ("Backup, lost", "bad", Shape::Diamond),
        EventKind::Point => ("Restore point: before a database was emptied", "c3", Shape::Circle),
        EventKind::Command => ("Dangerous command", "bad", Shape::Triangle),
    }
}

/// Writes the section.
pub(super) fn section(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.section("backups", "Snapshots, backups and restore points");
    if info.is("loading") {
        html.raw("<p>They are known when the log is read.</p></section>");
        return;
    }
    let now_s = (info.number("server_time_usec") / 1_000_000).cast_signed();
    let from_s = match info.number("history_from_time").cast_signed() {
        0 => now_s,
        from_s => from_s,
    };
    let mut marks: Vec<Mark> = picture.report.events.some.iter().map(mark).collect();
    if info.number("rdb_saves") > 0 {
        let unix_s = info.number("rdb_last_save_time").cast_signed();
        let title = format!("Dump, {}", format::moment(unix_s));
        marks.push(Mark { class: "c4", shape: Shape::Square, unix_s, title });
    }
    chart::time_line(html, now_s, from_s, &marks);
    html.raw("<p>The log can be read as of every moment of the last ");
    html.figure(info, "history_seconds", format::seconds(info.number("history_seconds")))
        .raw(", since block ");
    html.figure(info, "history_from_lsn", format::count(info.number("history_from_lsn"))).raw("; ");
    html.figure(info, "history_bytes", format::bytes(info.number("history_bytes")))
        .raw(" are kept for that, ");
    html.figure(info, "backups_held_bytes", format::bytes(info.number("backups_held_bytes")));
    html.raw(" for ")
        .figure(info, "backups", format::count(info.number("backups")))
        .raw(" named backups, of which ");
    html.figure(info, "backups_lost", format::count(info.number("backups_lost")))
        .raw(" are lost. Verified: ");
    html.figure(info, "backup_verify_state", info.text("backup_verify_state")).raw(".</p>");
    dumps_and_archive(html, picture);
    events(html, picture);
    html.raw("</section>");
}

fn mark(event: &Event) -> Mark {
    let (what, class, shape) = look(event.kind);
    let unix_s = event.unix_ms / 1000;
    let title = format!("{what}, block {}, {} {}", event.lsn, format::moment(unix_s), event.text);
    Mark { class, shape, unix_s, title }
}

fn dumps_and_archive(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.raw("<p>Dumps: ");
    if info.is("rdb_bgsave_in_progress") {
        html.raw("one is being written, ").figure(
            info,
            "current_fork_perc",
            info.text("current_fork_perc"),
        );
        html.raw(" %; ");
    }
    html.figure(info, "rdb_saves", format::count(info.number("rdb_saves")))
        .raw(" written since the start, the last one ");
    html.figure(info, "rdb_last_bgsave_status", info.text("rdb_last_bgsave_status"))
        .raw(". Archive: ");
    html.figure(info, "archive_state", info.text("archive_state"));
    if !matches!(info.text("archive_state"), "" | "off") {
        html.raw(" at ").foreign(info.text("archive_target")).raw(", up to block ");
        html.figure(info, "archive_lsn", format::count(info.number("archive_lsn"))).raw(", ");
        let lag = info.number("archive_lag_bytes");
        html.figure(info, "archive_lag_bytes", format::bytes(lag)).raw(" to be sent, ");
        html.figure(info, "archive_errors", format::count(info.number("archive_errors")))
            .raw(" errors");
    }
    html.raw(".</p>");
}

fn events(html: &mut Html, picture: &Picture) {
    let events = &picture.report.events;
    if events.some.is_empty() {
        html.raw("<p>There are no backups, restore points or dangerous commands.</p>");
        return;
    }
    html.table(
        "Backups, restore points and dangerous commands",
        &["When", "What", "Block", "Which"],
    );
    for event in &events.some {
        html.raw("<tr><td class=\"t\">")
            .text(format::moment(event.unix_ms / 1000))
            .raw("</td><td>");
        html.raw(look(event.kind).0).raw("</td>").number(format::count(event.lsn));
        html.raw("<td><code>").foreign(&event.text).raw("</code></td></tr>");
    }
    html.end_table();
    super::lists::left_out(html, events.some.len(), events.total);
}
