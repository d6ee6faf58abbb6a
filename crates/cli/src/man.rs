//! The manual pages of the subcommands, `packaging/man/*.1`: made of the definitions of their arguments.
//!
//! A test makes them and compares them with those that are there, so a page never says something else than the
//! program, and the program that is shipped has nothing of this.
//! `INDELIBLE_WRITE_DOCS=1 cargo test -p indelible-cli --bin indelible man` writes them anew.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

/// The pages that are written by hand: the server's arguments are those of redis-server.
const BY_HAND: &[&str] = &["indelible-server.1"];

/// Where the reader of a page goes from there.
const SEE_ALSO: &str = "\
.SH \"SEE ALSO\"
.BR indelible (1),
.BR indelible\\-server (1),
.BR indelible.conf (5).
.PP
/usr/share/doc/indelible/docs, or docs in the sources
";

/// The program with all of its subcommands.
fn program() -> Command {
    let server = Command::new("server")
        .about("Runs the server with a configuration in the format of redis.conf.");
    let restore_keys =
        crate::give_back::Arguments::command().name("restore-keys").bin_name("indelible restore");
    let subcommands = [
        crate::ping::Arguments::command().name("ping"),
        crate::log::Arguments::command().name("log"),
        crate::index::Arguments::command().name("index"),
        crate::export::Arguments::command().name("export"),
        crate::restore::Arguments::command().name("restore"),
        restore_keys,
        crate::view::Arguments::command().name("view"),
        crate::archive::Arguments::command().name("backup"),
        crate::import::Arguments::command().name("import"),
        crate::rdb::Arguments::command().name("rdb"),
        crate::transfer::Arguments::command().name("transfer"),
        crate::tap::Arguments::command().name("tap"),
    ];
    Command::new("indelible")
        .version(env!("CARGO_PKG_VERSION"))
        .about("An in-memory database that speaks the Redis protocol and loses nothing.")
        .subcommand_required(true)
        .subcommand(server)
        .subcommands(subcommands)
}

/// Every page that is made, by the name of its file.
fn pages() -> BTreeMap<String, String> {
    let mut program = program();
    program.build();
    let mut pages = BTreeMap::new();
    add(&program, &mut pages);
    pages.retain(|name, _| !BY_HAND.contains(&name.as_str()));
    pages
}

fn add(command: &Command, pages: &mut BTreeMap<String, String>) {
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    command.get_subcommands().filter(shown).for_each(|below| add(below, pages));
    let source = concat!("Indelible ", env!("CARGO_PKG_VERSION"));
    // An empty date would let what comes after it take its place.
    let page = Man::new(with_short_name(command.clone())).date(" ");
    let page = page.source(source).manual("Indelible");
    let (name, mut text) = (page.get_filename(), Vec::new());
    page.render(&mut text).expect("memory takes everything");
    let text = String::from_utf8(text).expect("help is text");
    pages.insert(name, text + SEE_ALSO);
}

/// The section NAME is one sentence, which `whatis` shows; the rest is the description.
fn with_short_name(command: Command) -> Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let whole = command.get_long_about().map_or_else(|| about.clone(), ToString::to_string);
    let marks = [". ", ": ", "; "].iter();
    let end = marks.filter_map(|mark| about.find(mark)).min().unwrap_or(about.len());
    let short = about[..end].trim_end_matches('.').to_owned();
    command.about(short).long_about(whole)
}

#[test]
fn manual_pages_are_those_of_the_arguments() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/man");
    let pages = pages();
    if std::env::var_os("INDELIBLE_WRITE_DOCS").is_some() {
        for (name, page) in &pages {
            std::fs::write(directory.join(name), page).unwrap();
        }
    }
    let again = "INDELIBLE_WRITE_DOCS=1 cargo test -p indelible-cli --bin indelible man";
    for (name, page) in &pages {
        let there = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
        assert!(there == *page, "packaging/man/{name} is of other arguments: {again}");
    }
    for entry in std::fs::read_dir(&directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_known = pages.contains_key(&name) || BY_HAND.contains(&name.as_str());
        assert!(is_known || !name.ends_with(".1"), "packaging/man/{name} is of no subcommand");
    }
}
