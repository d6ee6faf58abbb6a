//! The admin page of a server and its metrics, on a port of their own.
//!
//! ```text
//!   browser ──┐                                                            ┌─ page: HTML, rendered here
//!   Prometheus ┴─► house ─► http ─► guard ─► access ─► watch ─► picture ───┴─ metrics: OpenMetrics
//!               at most     hyper   method,  token or    │   at most one a second,
//!               32 guests           host,    session     ▼   of all viewers together
//!                                   origin            Server::ask ─ ─ ► executor ─ ─ ► Report
//! ```
//!
//! Everything runs on one thread, `admin`. The executor is asked by [`Server::ask`], which returns at once, and is waited
//! for at most [`watch::ANSWER_WITHIN`]: a server that is busy or starting is shown with its last figures and their age.
//!
//! What is told apart here: *figures* are what INFO has (`info`), which page and metrics name by INFO's names, so that
//! they cannot differ from it; a *report* has besides what INFO has no room for, lists and histograms; *findings*
//! (`health`) are what of it a person must act on; for that it is remembered when counters of failures rose (`rises`).
//!
//! # Invariants
//! 1. A request without the token learns nothing but that there is a form for it: not the name of the program, not its
//!    version, not which paths exist.
//! 2. The executor makes at most one report a second, whatever the number of requests, and no request holds it up.
//! 3. Nothing grows with what a client sends: guests, bytes of a request, time for it and for its answer are bounded, and
//!    a guest that has not shown the token gives way to a new one, but not before it could.
//! 4. Tokens are compared in constant time; a wrong one is answered after [`access::WRONG_AFTER`]; a right one is never
//!    refused, however many wrong ones others send.
//! 5. What clients of the database have named (keys, clients, errors) is on the page as escaped text and in no label of
//!    a metric.
//! 6. The page works without its script, loads nothing from elsewhere, and says in words what it shows in colours.
//!
//! A session is a cookie with a number and a code over it. Its end, the server's end and signing out end it. Browsers send
//! the cookies of `127.0.0.1` to every port there, so the cookie is not the token.

mod access;
mod error;
#[cfg(test)]
mod extremes;
mod guard;
mod health;
mod house;
mod http;
mod info;
mod metrics;
mod page;
mod report;
mod rises;
mod start;
mod token;
mod watch;

pub use error::{AdminError, Result};
pub use report::{
    Answer, Bound, CommandLatency, Event, EventKind, Latency, LogDevice, Report, Server, Shown,
    SlowCommand, ViewedClient,
};
pub use start::{Admin, CONNECTIONS_MAX, Settings, start};
