//! What stands first: is the data safe, is the server well, and what to do.

use super::format;
use super::html::Html;
use crate::health::{Finding, Level, findings};
use crate::watch::Picture;

fn worst(all: &[Finding]) -> Option<Level> {
    all.iter().map(|finding| finding.level).max()
}

/// The title of the window: it is what a tab that is not looked at shows.
pub(super) fn title(picture: &Picture) -> &'static str {
    match worst(&findings(picture)) {
        Some(Level::Danger) => "(!) Act now: Indelible",
        Some(Level::Look) => "(?) Look: Indelible",
        Some(Level::Note) | None => "Indelible",
    }
}

/// Writes the section.
pub(super) fn section(html: &mut Html, picture: &Picture) {
    let all = findings(picture);
    let info = &picture.info;
    let is_kept = info.is("redo_enabled");
    let is_loading = info.is("loading");
    let promise = match info.text("redo_policy") {
        _ if is_loading => "What was durable is being read. Nothing is written meanwhile.",
        _ if !is_kept => "There is no log: the data is gone when the server ends.",
        _ if info.text("aof_last_write_status") == "err" => {
            "Writes are refused. Reads go on, and what was durable stays."
        }
        "always" => "A write is on disk before it is answered.",
        "everysec" => {
            "A write is answered when it is written; a power failure can lose the last second."
        }
        _ => "A write is answered when it is written; the system decides when it is on disk.",
    };
    let (class, headline) = match worst(&all) {
        Some(Level::Danger) => ("verdict bad", "✖ Act now"),
        Some(Level::Look) => ("verdict look", "▲ Have a look"),
        _ if is_loading => ("verdict look", "… The data is being loaded"),
        _ if info.text("redo_policy") == "always" => {
            ("verdict good", "✔ Your data is safe, and the server is well")
        }
        _ => ("verdict good", "✔ The server is well"),
    };
    html.raw("<section id=\"safe\" aria-labelledby=\"verdict\"><div").attribute("class", class);
    html.raw("><h2 id=\"verdict\">").raw(headline).raw("</h2><p>").raw(promise).raw("</p></div>");
    if !all.is_empty() {
        html.raw("<ul class=\"findings\">");
        for finding in &all {
            let (class, word) = match finding.level {
                Level::Danger => ("bad", "Act now: "),
                Level::Look => ("look", "Look: "),
                Level::Note => ("note", "Note: "),
            };
            html.raw("<li")
                .attribute("class", class)
                .raw("><strong>")
                .raw(word)
                .foreign(&finding.what);
            html.raw("</strong>").raw(finding.advice).raw("</li>");
        }
        html.raw("</ul>");
    }
    tiles(html, picture);
    html.raw("</section>");
}

/// The figures of what is not known before the log was read.
fn log_tiles(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    let durable = info.number("redo_durable_lsn");
    tile(html, "Durable up to block");
    html.figure(info, "redo_durable_lsn", format::count(durable));
    // The open block has nothing yet that anyone waits for.
    let waiting = info.number("redo_open_lsn").saturating_sub(1).saturating_sub(durable);
    html.raw("<small>").text(format::count(waiting)).raw(" blocks on their way</small></dd></div>");
    tile(html, "Replies held until durable");
    let held = info.number("redo_held_replies");
    html.figure(info, "redo_held_replies", format::count(held)).raw("</dd></div>");
    tile(html, "Log on disk");
    let bytes = info.number("redo_disk_bytes");
    html.figure(info, "redo_disk_bytes", format::bytes(bytes)).raw("<small>");
    let (records, invalid) = (info.number("redo_records"), info.number("redo_invalid_records"));
    html.text(format::percent(invalid, records)).raw(" garbage</small></dd></div>");
    tile(html, "Keys");
    let keys = info.keys();
    html.raw("<data").attribute("value", keys).attribute("data-field", "keys").raw(">");
    html.text(format::count(keys)).raw("</data><small>");
    let cold = info.number("cold_keys");
    html.figure(info, "cold_keys", format::count(cold))
        .raw(" of them not in memory</small></dd></div>");
}

fn tiles(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.raw("<dl class=\"tiles\">");
    if !info.is("loading") {
        log_tiles(html, picture);
    }
    let syncs = picture.report.devices.iter().map(|device| &device.syncs);
    let slowest = syncs.max_by_key(|syncs| syncs.quantile(0.99));
    tile(html, "A sync takes");
    match slowest.filter(|syncs| syncs.count > 0) {
        Some(syncs) => {
            html.text(format::bound(syncs.quantile(0.5))).raw("<small>99 % ");
            html.text(format::bound(syncs.quantile(0.99))).raw("</small></dd></div>");
        }
        None => drop(html.raw("–</dd></div>")),
    }
    tile(html, "Commands a second");
    let rate = info.number("instantaneous_ops_per_sec");
    html.figure(info, "instantaneous_ops_per_sec", format::count(rate)).raw("<small>");
    let processed = info.number("total_commands_processed");
    html.figure(info, "total_commands_processed", format::count(processed));
    html.raw(" in all</small></dd></div>");
    tile(html, "Memory");
    html.figure(info, "used_memory", format::bytes(info.number("used_memory"))).raw("<small>");
    match info.number("maxmemory") {
        0 => drop(html.raw("no limit")),
        most => drop(html.raw("of ").figure(info, "maxmemory", format::bytes(most))),
    }
    html.raw("</small></dd></div>");
    tile(html, "Clients");
    html.figure(info, "connected_clients", format::count(info.number("connected_clients")));
    html.raw("<small>of ").figure(info, "maxclients", format::count(info.number("maxclients")));
    html.raw("</small></dd></div>");
    tile(html, "Archive");
    let state = info.text("archive_state");
    html.figure(info, "archive_state", if state.is_empty() { "–" } else { state }).raw("<small>");
    if !matches!(state, "" | "off") {
        html.figure(
            info,
            "archive_behind_seconds",
            format::seconds(info.number("archive_behind_seconds")),
        );
        html.raw(" behind");
    }
    html.raw("</small></dd></div>");
    tile(html, "Running for");
    html.figure(info, "uptime_in_seconds", format::seconds(info.number("uptime_in_seconds")));
    html.raw("<small>version ").figure(info, "indelible_version", info.text("indelible_version"));
    html.raw("</small></dd></div></dl><p class=\"dim\">As of ");
    let now_s = info.number("server_time_usec") / 1_000_000;
    html.text(format::moment(now_s.cast_signed())).raw(", ");
    html.text(picture.at.elapsed().as_secs()).raw(" s ago.</p>");
}

fn tile(html: &mut Html, name: &'static str) {
    html.raw("<div><dt>").raw(name).raw("</dt><dd>");
}
