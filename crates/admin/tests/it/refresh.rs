//! What an open page says when it cannot be refreshed: its script, run by node against the real port.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::browser::Page;

const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/refresh.mjs");

/// Ended when it is dropped.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_waited_for = self.0.wait();
    }
}

/// The script of the page, as it is served.
fn script(page: &Page) -> String {
    let html = page.get("/", &[&page.bearer()]).body;
    let (_, behind) = html.split_once("<script>").unwrap();
    behind.split_once("</script>").unwrap().0.to_owned()
}

/// An open page whose session is one of another life of the server; nothing where node is not installed.
fn open(page: &Page) -> Option<(Browser, BufReader<ChildStdout>)> {
    let cookie = format!("admin-session-{}=1.{}", page.address.port(), "0".repeat(64));
    let mut command = Command::new("node");
    command.args([RUNNER, &format!("http://{}/", page.address), &cookie]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            testing::skipped("node", error);
            return None;
        }
    };
    let said = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let browser = Browser(child);
    input.write_all(script(page).as_bytes()).unwrap();
    Some((browser, said))
}

#[test]
fn a_page_says_that_tokens_are_being_tried_and_asks_for_its_own_afterwards() {
    let page = Page::new();
    let Some((_browser, said)) = open(&page) else { return };
    let mut lines = said.lines();
    let is_over = AtomicBool::new(false);
    let first = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    page.get("/metrics", &["Authorization: Bearer wrong"]);
                }
            });
        }
        let first = lines.next();
        is_over.store(true, Ordering::Relaxed);
        first
    });
    let first = first.unwrap().unwrap();
    assert!(first.starts_with("Too many wrong tokens are being tried"), "{first}");
    assert_eq!(lines.next().unwrap().unwrap(), "reload", "it asks for the token");
}

#[test]
fn a_page_says_that_its_server_is_gone() {
    let page = Page::new();
    let Some((_browser, said)) = open(&page) else { return };
    drop(page);
    let first = said.lines().next().unwrap().unwrap();
    assert_eq!(first, "The server does not answer: these figures are old.");
}
