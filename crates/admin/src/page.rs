//! The page: rendered whole for each request, in the order of what a person asks first.
//!
//! ```text
//!   verdict     is my data safe, is the server well; what to do
//!   figures     the few numbers that say so
//!   log         devices, garbage, compaction, syncs
//!   recovery    how far a start is, what is not in memory yet
//!   memory      by residence: in memory, without its value, cold
//!   backups     the time that can be gone back to, as a line and a table
//!   latency     commands
//!   slow log, clients, databases
//! ```

mod chart;
mod format;
mod html;
mod lists;
mod log;
mod memory;
mod timeline;
mod verdict;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};

use crate::watch::Picture;
use html::Html;

/// The style sheet, which is part of each document.
pub(crate) const STYLE: &str = include_str!("page/style.css");

/// What reads the page again while it is looked at.
pub(crate) const SCRIPT: &str = include_str!("page/refresh.js");

/// How a policy names a style or script that is part of the document.
pub(crate) fn source_of(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

const SECTIONS: [(&str, &str); 8] = [
    ("safe", "Safety"),
    ("log", "Log"),
    ("recovery", "Recovery"),
    ("memory", "Memory"),
    ("backups", "Backups"),
    ("latency", "Latency"),
    ("slow", "Slow log"),
    ("clients", "Clients"),
];

/// The page for those that have no session.
pub(crate) fn form(why: &'static str) -> String {
    let mut html = Html::default();
    begin(&mut html, "Sign in");
    html.raw("<main class=\"login\"><h1>Sign in</h1>");
    if !why.is_empty() {
        html.raw("<p role=\"alert\" class=\"state-bad\">").raw(why).raw("</p>");
    }
    html.raw(
        "<form method=\"post\" action=\"/login\"><label for=\"token\">Token</label><input id=\"token\" name=\"token\" \
         type=\"password\" autocomplete=\"current-password\" required autofocus><button>Sign in</button></form>",
    );
    html.raw("<p class=\"dim\">The log file of the server says where the token is.</p></main></body></html>\n");
    html.finish()
}

/// The page of a picture, or the one that says that there is none yet.
pub(crate) fn render(picture: Option<&Picture>) -> String {
    let mut html = Html::default();
    let Some(picture) = picture else {
        begin(&mut html, "Indelible: no answer yet");
        header(&mut html, None);
        html.raw("<main id=\"main\" tabindex=\"-1\"><section id=\"safe\" class=\"verdict look\"><h2 id=\"verdict\">");
        html.raw(
            "The server has not answered yet</h2><p>It is starting, or busy.</p></section></main>",
        );
        end(&mut html);
        return html.finish();
    };
    begin(&mut html, verdict::title(picture));
    header(&mut html, Some(picture));
    html.raw("<main id=\"main\" tabindex=\"-1\">");
    verdict::section(&mut html, picture);
    log::section(&mut html, picture);
    memory::recovery(&mut html, picture);
    memory::section(&mut html, picture);
    timeline::section(&mut html, picture);
    lists::latency(&mut html, picture);
    lists::slow(&mut html, picture);
    lists::clients(&mut html, picture);
    html.raw("</main>");
    end(&mut html);
    html.finish()
}

fn begin(html: &mut Html, title: &'static str) {
    html.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>").raw(title);
    html.raw("</title><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.raw("<link rel=\"icon\" href=\"data:,\"><style>").raw(STYLE).raw("</style></head><body>");
}

fn header(html: &mut Html, picture: Option<&Picture>) {
    html.raw("<a class=\"skip\" href=\"#main\">Skip to the figures</a><header><h1>Indelible</h1>");
    html.raw("<nav aria-label=\"Sections\"><ul>");
    for (id, title) in SECTIONS.iter().filter(|_| picture.is_some()) {
        html.raw("<li><a").attribute("href", format_args!("#{id}")).raw(">").raw(title);
        html.raw("</a></li>");
    }
    html.raw("</ul></nav><div class=\"tools\"><span id=\"said\" role=\"status\"></span><a href=\"/\">Refresh</a>");
    html.raw("<button id=\"pause\" type=\"button\" aria-pressed=\"false\" hidden>Pause</button>");
    html.raw(
        "<form method=\"post\" action=\"/logout\"><button>Sign out</button></form></div></header>",
    );
}

fn end(html: &mut Html) {
    html.raw("<script>").raw(SCRIPT).raw("</script></body></html>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        CommandLatency, Event, EventKind, Latency, LogDevice, Report, Shown, SlowCommand,
        ViewedClient,
    };
    use std::time::{Duration, Instant};

    const EVIL: &str = "<script>alert(1)</script>\"'&";

    fn picture() -> Picture {
        let info = "redo_enabled:1\nredo_policy:always\nredo_health:ok\nredo_durable_lsn:17\nused_memory:1048576\n\
                    indelible_version:1.2.3\ndb0:keys=3,expires=1,avg_ttl=0\nserver_time_usec:1795877219215651\n";
        let latency = Latency {
            count: 3,
            sum: Duration::from_micros(30),
            up_to_us: (0..25).map(|power| (1 << power, if power < 4 { 1 } else { 3 })).collect(),
        };
        let some = |text: &str| text.to_owned();
        let report = Report {
            info: some(info),
            devices: vec![LogDevice {
                path: some(EVIL),
                state: some("Healthy"),
                syncs: latency.clone(),
                last_error: Some(some(EVIL)),
                ..LogDevice::default()
            }],
            commands: vec![CommandLatency {
                name: some("set"),
                latency,
                ..CommandLatency::default()
            }],
            slow: Shown {
                some: vec![SlowCommand { text: some(EVIL), ..SlowCommand::default() }],
                total: 1,
            },
            clients: Shown {
                some: vec![ViewedClient { name: some(EVIL), ..ViewedClient::default() }],
                total: 1,
            },
            events: Shown {
                some: vec![Event {
                    kind: EventKind::Command,
                    lsn: 5,
                    unix_ms: 1_795_877_000_000,
                    text: some(EVIL),
                }],
                total: 1,
            },
        };
        Picture::of(report, Instant::now(), Vec::new())
    }

    #[test]
    fn what_clients_have_named_is_no_markup() {
        let page = render(Some(&picture()));
        assert!(!page.contains("<script>alert"), "{page}");
        // A device and its error, the slow log, a client, an event in the table and in the picture.
        assert_eq!(page.matches("&lt;script&gt;alert(1)").count(), 6);
    }

    #[test]
    fn figures_have_their_value_for_programs() {
        let page = render(Some(&picture()));
        assert!(
            page.contains("<data value=\"17\" data-field=\"redo_durable_lsn\">17</data>"),
            "{page}"
        );
        assert!(
            page.contains("<data value=\"1048576\" data-field=\"used_memory\">1.00 MiB</data>")
        );
    }

    #[test]
    fn the_form_tells_nothing() {
        let form = form("");
        assert!(!form.to_lowercase().contains("indelible") && !form.contains("<script"), "{form}");
    }

    #[test]
    fn markup_is_balanced() {
        for page in [render(Some(&picture())), render(None), form("x")] {
            let mut open: Vec<&str> = Vec::new();
            let body = page.replace(SCRIPT, "").replace(STYLE, "");
            for tag in body.split('<').skip(1).filter(|it| !it.starts_with('!')) {
                let name = tag.split(['>', ' ', '/']).find(|it| !it.is_empty()).unwrap();
                let is_void = matches!(name, "meta" | "link" | "input")
                    || tag.split('>').next().unwrap().ends_with('/');
                if tag.starts_with('/') {
                    assert_eq!(open.pop(), Some(name), "{tag}");
                } else if !is_void {
                    open.push(name);
                }
            }
            assert_eq!(open, [""; 0]);
        }
    }
}
