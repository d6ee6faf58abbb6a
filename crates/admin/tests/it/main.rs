//! Tests of the page and the metrics over real sockets, with a server that is none.
//!
//! ```text
//!   access      without the token there is nothing; wrong tokens; sessions
//!   bounds      connections, bytes and time that a client can take
//!   metrics     what a strict parser of OpenMetrics makes of them
//!   refresh     what an open page says when it cannot be refreshed
//!   browser     one request, as a browser or another program sends it
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bounds;
mod browser;
mod metrics;
mod open_metrics;
mod refresh;
