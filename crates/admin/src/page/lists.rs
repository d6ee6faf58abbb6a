//! Commands by latency, the slow log, clients.

use std::time::Duration;

use super::chart;
use super::format;
use super::html::Html;
use crate::report::Latency;
use crate::watch::Picture;

/// How many commands are shown.
const COMMANDS_MAX: usize = 16;

/// Says that a list is longer than what is shown of it.
pub(super) fn left_out(html: &mut Html, shown: usize, total: usize) {
    if total > shown {
        html.raw("<p class=\"dim\">").text(total - shown).raw(" more are not shown.</p>");
    }
}

/// Writes the section of latencies.
pub(super) fn latency(html: &mut Html, picture: &Picture) {
    html.section("latency", "Latency of commands");
    let mut commands: Vec<_> =
        picture.report.commands.iter().filter(|it| it.calls > 0 || it.rejected > 0).collect();
    if commands.is_empty() {
        html.raw("<p>No command was called.</p></section>");
        return;
    }
    let all = commands.iter().fold(Latency::default(), |sum, it| plus(sum, &it.latency));
    if all.count == 0 {
        html.raw(
            "<p>No latency was measured: latency-tracking is no, or nothing was executed.</p>",
        );
    } else {
        chart::histogram(html, "All commands", &all);
    }
    commands.sort_by_key(|it| std::cmp::Reverse(it.duration));
    let columns = [
        "Command",
        "Calls",
        "Time in all",
        "On average",
        "Half",
        "99 %",
        "99.9 %",
        "Errors",
        "Refused",
    ];
    html.table("Commands, by the time that they took", &columns);
    for command in commands.iter().take(COMMANDS_MAX) {
        let latency = &command.latency;
        html.raw("<tr><th scope=\"row\">").text(&command.name).raw("</th>");
        let us = micros(command.duration);
        html.number(format::count(command.calls)).number(format::micros(us));
        html.number(format::micros(us / command.calls.max(1)));
        for share in [0.5, 0.99, 0.999] {
            html.number(format::bound(latency.quantile(share)));
        }
        html.number(format::count(command.failed))
            .number(format::count(command.rejected))
            .raw("</tr>");
    }
    html.end_table();
    left_out(html, commands.len().min(COMMANDS_MAX), commands.len());
    html.raw("</section>");
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Two of them together; they have the same bounds.
fn plus(mut sum: Latency, other: &Latency) -> Latency {
    if sum.up_to_us.is_empty() {
        return other.clone();
    }
    sum.count = sum.count.saturating_add(other.count);
    sum.sum = sum.sum.saturating_add(other.sum);
    for (mine, theirs) in sum.up_to_us.iter_mut().zip(&other.up_to_us) {
        mine.1 = mine.1.saturating_add(theirs.1);
    }
    sum
}

/// Writes the slow log.
pub(super) fn slow(html: &mut Html, picture: &Picture) {
    let slow = &picture.report.slow;
    html.section("slow", "Slow log");
    if slow.some.is_empty() {
        html.raw("<p>No command took longer than slowlog-log-slower-than.</p></section>");
        return;
    }
    html.table("Slow commands, the newest first", &["When", "Took", "Command", "From", "Client"]);
    for command in &slow.some {
        html.raw("<tr><td class=\"t\">").text(format::moment(command.unix_s)).raw("</td>");
        html.number(format::micros(command.duration_us)).raw("<td><code>").foreign(&command.text);
        html.raw("</code></td>").cell(&command.peer).cell(&command.client_name).raw("</tr>");
    }
    html.end_table();
    left_out(html, slow.some.len(), slow.total);
    html.raw("</section>");
}

/// Writes the clients.
pub(super) fn clients(html: &mut Html, picture: &Picture) {
    let clients = &picture.report.clients;
    html.section("clients", "Clients");
    let info = &picture.info;
    html.raw("<p>").figure(
        info,
        "connected_clients",
        format::count(info.number("connected_clients")),
    );
    html.raw(" connected, ").figure(
        info,
        "blocked_clients",
        format::count(info.number("blocked_clients")),
    );
    html.raw(" in a blocking command, ");
    let held = info.number("redo_clients_held_back");
    html.figure(info, "redo_clients_held_back", format::count(held)).raw(" held back by the log, ");
    let rejected = info.number("rejected_connections");
    html.figure(info, "rejected_connections", format::count(rejected)).raw(" turned away.</p>");
    if !clients.some.is_empty() {
        let columns = [
            "Id",
            "Address",
            "Name",
            "User",
            "Last command",
            "Connected",
            "Idle",
            "Flags",
            "Memory",
            "Unread",
        ];
        html.table("Clients, those with the most memory first", &columns);
        for client in &clients.some {
            html.raw("<tr><th scope=\"row\">").text(client.id).raw("</th>").cell(&client.address);
            html.cell(&client.name).cell(&client.user).cell(&client.command);
            html.number(format::seconds(client.age_s)).number(format::seconds(client.idle_s));
            html.cell(&client.flags).number(format::bytes(client.memory_bytes));
            html.number(format::bytes(client.output_bytes)).raw("</tr>");
        }
        html.end_table();
        left_out(html, clients.some.len(), clients.total);
    }
    html.raw("</section>");
}
