//! The engine driven with bytes: what a client sees, and when.

mod access;
mod backups;
mod client_library;
mod connections;
mod cooling;
mod durability;
mod functions;
mod loading;
mod locks;
mod log_switch;
mod messages;
mod migrating;
mod overload;
mod protocol;
mod report;
mod restoring;
mod script_limits;
mod scripting;
mod server;
mod serving;
mod sweeping;
mod tailing;
mod threads;
mod tracking;
mod transactions;
mod waiting;
