//! How far a start is, and what of the data is in memory.

use super::chart::{self, Part};
use super::format;
use super::html::Html;
use crate::watch::Picture;

/// Writes the section of recovery and warm-up.
pub(super) fn recovery(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.section("recovery", "Recovery and warm-up");
    let state = info.text("recovery_state");
    let words = match state {
        "loading" => "the log is being read",
        "restoring" => "clients are served, and keys come back into memory",
        "failing" => "reading the log fails, and is tried again",
        "on_demand" => "keys come back when they are needed",
        _ => "nothing of the start is left to do",
    };
    html.raw("<p>State: <strong>")
        .figure(info, "recovery_state", state)
        .raw("</strong>, ")
        .raw(words);
    html.raw(".</p>");
    if info.is("loading") {
        let (loaded, total) =
            (info.number("loading_loaded_bytes"), info.number("loading_total_bytes"));
        progress(html, "Bytes of the log that are read", loaded, total);
        html.raw("<p>").figure(info, "loading_loaded_bytes", format::bytes(loaded)).raw(" of ");
        html.figure(info, "loading_total_bytes", format::bytes(total)).raw(", about ");
        html.figure(
            info,
            "loading_eta_seconds",
            format::seconds(info.number("loading_eta_seconds")),
        );
        html.raw(" to go.</p>");
    }
    let total = info.number("recovery_keys_total");
    if total > 0 {
        let cold = info.number("recovery_keys_cold");
        progress(html, "Keys that are back", total.saturating_sub(cold), total);
        html.raw("<p>").figure(info, "recovery_keys_cold", format::count(cold)).raw(" of ");
        html.figure(info, "recovery_keys_total", format::count(total))
            .raw(" keys are not back; stage ");
        html.figure(info, "recovery_stage", info.text("recovery_stage")).raw(", ");
        let (done, hot) =
            (info.number("recovery_hot_keys_done"), info.number("recovery_hot_keys_total"));
        html.figure(info, "recovery_hot_keys_done", format::count(done)).raw(" of ");
        html.figure(info, "recovery_hot_keys_total", format::count(hot)).raw(" hot keys, ");
        let rate = info.number("recovery_keys_per_sec");
        html.figure(info, "recovery_keys_per_sec", format::count(rate))
            .raw(" keys a second, about ");
        html.figure(
            info,
            "recovery_eta_seconds",
            format::seconds(info.number("recovery_eta_seconds")),
        );
        html.raw(" to go.</p>");
    }
    html.raw("</section>");
}

fn progress(html: &mut Html, what: &'static str, done: u64, total: u64) {
    html.raw("<progress").attribute("aria-label", what).attribute("value", done.min(total));
    html.attribute("max", total.max(1))
        .raw(">")
        .text(format::percent(done, total))
        .raw("</progress>");
}

/// Writes the section of memory by residence.
pub(super) fn section(html: &mut Html, picture: &Picture) {
    let info = &picture.info;
    html.section("memory", "Memory by residence");
    let keys = info.keys();
    let cold = info.number("cold_keys");
    html.raw("<div class=\"two\"><div><h3>Keys</h3>");
    let parts = [
        Part { class: "c1", label: "in memory", value: keys.saturating_sub(cold) },
        Part { class: "c3", label: "cold (in the log only)", value: cold },
    ];
    chart::bar(html, "Keys", &parts, format::count);
    html.raw("<p>");
    html.figure(info, "cold_values", format::count(info.number("cold_values")));
    html.raw(" entries in memory are without their value, which the log has.</p></div><div><h3>Bytes</h3>");
    let used = info.number("used_memory");
    let (data, most) = (info.number("used_memory_dataset"), info.number("maxmemory"));
    let mut parts = vec![
        Part { class: "c1", label: "data", value: data },
        Part { class: "c4", label: "overhead", value: used.saturating_sub(data) },
    ];
    if most > 0 {
        parts.push(Part {
            class: "none",
            label: "free up to maxmemory",
            value: most.saturating_sub(used),
        });
    }
    chart::bar(html, "Memory", &parts, format::bytes);
    html.raw("<p>");
    html.figure(info, "used_memory", format::bytes(used)).raw(" used, ");
    html.figure(info, "used_memory_rss", format::bytes(info.number("used_memory_rss")))
        .raw(" resident, ");
    html.figure(info, "used_memory_peak", format::bytes(info.number("used_memory_peak")));
    html.raw(" at the most. Policy: ");
    html.figure(info, "maxmemory_policy", info.text("maxmemory_policy")).raw(".</p></div></div>");
    html.table("What was not in memory when it was needed", &["What", "Since the start"]);
    let rows: [(&str, &'static str); 7] = [
        ("Looks for keys that were not in memory", "cold_lookups"),
        ("Keys that came back before a command needed them", "cold_fetches"),
        ("Values that the executor had to read itself", "cold_blocking_fetches"),
        ("Clients that wait for keys now", "cold_fetching_clients"),
        ("Values that have left memory", "evicted_values"),
        ("Reads that failed", "cold_failures"),
        ("Values that are lost", "lost_values"),
    ];
    for (what, field) in rows {
        html.raw("<tr><th scope=\"row\">").raw(what).raw("</th><td class=\"n\">");
        html.figure(info, field, format::count(info.number(field))).raw("</td></tr>");
    }
    html.end_table();
    let databases = info.databases();
    if !databases.is_empty() {
        html.table("Databases", &["Database", "Keys", "With an expiry"]);
        for (number, keys, expiring) in databases.into_iter().take(64) {
            html.raw("<tr><th scope=\"row\">")
                .text(number)
                .raw("</th>")
                .number(format::count(keys));
            html.number(format::count(expiring)).raw("</tr>");
        }
        html.end_table();
    }
    html.raw("</section>");
}
