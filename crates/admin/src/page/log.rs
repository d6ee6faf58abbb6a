//! The log: devices, garbage, compaction, syncs.

use super::chart::{self, Part};
use super::format;
use super::html::Html;
use crate::report::LogDevice;
use crate::watch::Picture;

/// Writes the section.
pub(super) fn section(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.section("log", "Log");
    let absence = match info.is("redo_enabled") {
        _ if info.is("loading") => "It is being read.",
        true => "",
        false => "There is none.",
    };
    if !absence.is_empty() {
        html.raw("<p>").raw(absence).raw("</p></section>");
        return;
    }
    let (records, invalid) = (info.number("redo_records"), info.number("redo_invalid_records"));
    let parts = [
        Part { class: "c1", label: "live", value: records.saturating_sub(invalid) },
        Part { class: "c4", label: "garbage", value: invalid },
    ];
    html.raw("<h3>Records</h3>");
    chart::bar(html, "Records of the log", &parts, format::count);
    html.raw("<p>Segments: ");
    html.figure(info, "redo_segments", format::count(info.number("redo_segments")));
    html.raw(", files: ").figure(info, "redo_files", format::count(info.number("redo_files")));
    let bytes = info.number("redo_disk_bytes");
    html.raw(", size: ").figure(info, "redo_disk_bytes", format::bytes(bytes));
    html.raw(". Compaction: <strong>");
    html.figure(
        info,
        "redo_compacting",
        if info.is("redo_compacting") { "at work" } else { "at rest" },
    );
    html.raw("</strong>, ");
    html.figure(info, "redo_compactions", format::count(info.number("redo_compactions")));
    html.raw(" done, ");
    let failed = info.number("redo_compactions_failed");
    html.figure(info, "redo_compactions_failed", format::count(failed)).raw(" failed, ");
    let reclaimed = info.number("redo_reclaimed_bytes");
    html.figure(info, "redo_reclaimed_bytes", format::bytes(reclaimed)).raw(" freed.");
    html.raw(" Whole log read again to find damage: ");
    let passes = info.number("redo_scrub_passes");
    html.figure(info, "redo_scrub_passes", format::count(passes)).raw(" times; damaged files: ");
    html.figure(info, "redo_scrub_errors", format::count(info.number("redo_scrub_errors")));
    html.raw(".");
    index(html, picture);
    html.raw("</p>");
    devices(html, &picture.report.devices);
    html.raw("<div class=\"two\">");
    for device in &picture.report.devices {
        html.raw("<div><h3>Syncs of device ").text(device.index).raw("</h3>");
        chart::histogram(html, "Syncs", &device.syncs);
        html.raw("</div>");
    }
    html.raw("</div>");
    rates(html, picture);
    html.raw("</section>");
}

fn index(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    if !info.is("redo_index") {
        html.raw(" There is no index: a start reads all of the log.");
        return;
    }
    html.raw(" Index: ").figure(
        info,
        "redo_index_bytes",
        format::bytes(info.number("redo_index_bytes")),
    );
    html.raw(", ").figure(
        info,
        "redo_index_lag_bytes",
        format::bytes(info.number("redo_index_lag_bytes")),
    );
    html.raw(" of the log behind it");
    html.raw(if info.is("redo_index_usable") {
        "; a start would go by it."
    } else {
        "; a start could not use it."
    });
}

fn devices(html: &mut Html, devices: &[LogDevice]) {
    let columns = [
        "Device",
        "State",
        "Segments",
        "Size",
        "Garbage",
        "Waiting",
        "Written",
        "Blocks",
        "Syncs",
        "Sync half",
        "Sync 99 %",
        "Last error",
    ];
    html.table("Devices of the log", &columns);
    for device in devices {
        html.raw("<tr><th scope=\"row\">").text(device.index).raw(" ").foreign(&device.path);
        let (class, sign) = match device.state.as_str() {
            "Healthy" => ("state-good", "✔ "),
            "Draining" => ("state-look", "… "),
            _ => ("state-bad", "✖ "),
        };
        html.raw("</th><td><span").attribute("class", class).raw(">").raw(sign).text(&device.state);
        html.raw("</span></td>")
            .number(format::count(device.segments))
            .number(format::bytes(device.bytes));
        html.number(format::percent(device.invalid_records, device.records));
        html.number(format::bytes(device.queued_bytes)).number(format::bytes(device.written_bytes));
        html.number(format::count(device.written_blocks)).number(format::count(device.syncs.count));
        for share in [0.5, 0.99] {
            html.number(format::bound(device.syncs.quantile(share)));
        }
        html.cell(device.last_error.as_deref().unwrap_or("none")).raw("</tr>");
    }
    html.end_table();
}

fn rates(html: &mut Html, picture: &Picture) {
    let Some(first) = picture.trail.first().map(|point| point.at) else { return };
    if picture.trail.len() < 3 {
        return;
    }
    let elapsed_ms = |at: std::time::Instant| {
        u64::try_from(at.saturating_duration_since(first).as_millis()).unwrap_or(u64::MAX)
    };
    let of = |value: fn(&crate::watch::Point) -> u64| -> Vec<(u64, u64)> {
        picture.trail.iter().skip(1).map(|point| (elapsed_ms(point.at), value(point))).collect()
    };
    html.raw("<div class=\"two\"><div><h3>Blocks made durable</h3>");
    chart::curve(html, "Blocks a second", &of(|point| point.blocks_per_s));
    html.raw("</div><div><h3>Commands</h3>");
    chart::curve(html, "Commands a second", &of(|point| point.commands_per_s));
    html.raw("</div></div>");
}
