//! What is there without the token, with a wrong one, and with it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::browser::{Page, Reply};

/// What an answer must not tell to one that has no token.
fn tells_nothing(reply: &Reply) {
    let all = format!("{}{}", reply.head, reply.body).to_lowercase();
    for word in ["indelible", "9.8.7", "redo", "hyper", "server:"] {
        assert!(!all.contains(word), "{word}: {all}");
    }
}

#[test]
fn without_the_token_there_is_nothing() {
    let page = Page::new();
    for path in ["/", "/metrics", "/logout", "/other", "/../etc/passwd", "/%00"] {
        for method in ["GET", "HEAD", "POST"] {
            let reply = page.send(method, path, &[], "");
            assert_eq!(reply.status, 401, "{method} {path}");
            tells_nothing(&reply);
        }
    }
    let form = page.get("/", &[]);
    assert!(form.body.contains("<form method=\"post\" action=\"/login\">"), "{}", form.body);
    assert_eq!(page.server.asked.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn the_token_opens_the_page_and_the_metrics() {
    let page = Page::new();
    let bearer = page.bearer();
    let html = page.get("/", &[&bearer]);
    assert_eq!(html.status, 200);
    assert!(html.body.contains("9.8.7"), "{}", html.body);
    assert_eq!(page.get("/metrics", &[&bearer]).status, 200);
    assert_eq!(page.get("/other", &[&bearer]).status, 404);
    assert_eq!(page.send("POST", "/", &[&bearer], "").status, 405);
    assert_eq!(page.send("PUT", "/", &[&bearer], "").status, 405);
    let head = page.send("HEAD", "/", &[&bearer], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn a_form_makes_a_session_of_the_token() {
    let page = Page::new();
    let wrong = page.send("POST", "/login", &[], "token=wrong");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert!(wrong.body.contains("That is not the token"), "{}", wrong.body);
    let right = page.send("POST", "/login", &[], &format!("token={}", page.token));
    assert_eq!((right.status, right.header("location")), (303, Some("/")));
    let cookie = right.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.split("; ").any(|it| it == part), "{part}: {cookie}");
    }
    assert!(!cookie.contains(&page.token), "the cookie is not the token");
    let session = format!("Cookie: other=1; {}", cookie.split(';').next().unwrap());
    assert_eq!(page.get("/", &[&session]).status, 200);
    assert_eq!(page.get("/metrics", &[&session]).status, 200);
    assert_eq!(page.get("/", &[&session.replace('.', "0.")]).status, 401);
    let origin = "Origin: https://db.example";
    let body = format!("token={}", page.token);
    let proxied = page.send("POST", "/login", &["Host: db.example", origin], &body);
    assert!(proxied.header("set-cookie").unwrap().ends_with("; Secure"), "{}", proxied.head);
    assert!(!cookie.contains("Secure"), "{cookie}");
}

#[test]
fn a_session_ends_at_the_server_when_its_viewer_signs_out() {
    let page = Page::new();
    let sign_in = || {
        let reply = page.send("POST", "/login", &[], &format!("token={}", page.token));
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        format!("Cookie: {cookie}")
    };
    let (mine, other) = (sign_in(), sign_in());
    let out = page.send("POST", "/logout", &[&mine], "");
    assert_eq!(out.status, 303);
    assert!(out.header("set-cookie").unwrap().contains("=; Path=/; Max-Age=0;"));
    assert_eq!(page.get("/", &[&mine]).status, 401, "a copy of the cookie opens nothing");
    assert_eq!(page.get("/", &[&other]).status, 200);
}

#[test]
fn what_else_a_request_shows_does_not_outweigh_what_is_right() {
    let page = Page::new();
    let login = page.send("POST", "/login", &[], &format!("token={}", page.token));
    let cookie = login.header("set-cookie").unwrap().split(';').next().unwrap();
    let name = cookie.split('=').next().unwrap();
    let session = format!("Cookie: {cookie}");
    for lines in [
        &["Authorization: Basic eDp5", &session][..],
        &["Authorization: Bearer wrong", &session],
        &["Authorization: Basic eDp5", &page.bearer()],
        &[&format!("Cookie: {name}=1.x; {cookie}")],
        &[&format!("Cookie: {name}=1.x"), &session],
    ] {
        assert_eq!(page.get("/", lines).status, 200, "{lines:?}");
    }
}

#[test]
fn a_form_that_is_too_long_is_refused() {
    let page = Page::new();
    let long = "x".repeat(5000);
    assert_eq!(page.send("POST", "/login", &[], &format!("token={long}")).status, 413);
}

#[test]
fn a_wrong_token_is_answered_after_a_constant_time() {
    let page = Page::new();
    let almost = format!("Authorization: Bearer {}x", &page.token[..63]);
    for line in ["Authorization: Bearer wrong", &almost, "Authorization: Basic eDp5", "Cookie: x=y"]
    {
        let begun = Instant::now();
        let reply = page.get("/metrics", &[line]);
        let elapsed = begun.elapsed();
        assert_eq!(reply.status, 401, "{line}");
        if line.contains("Bearer") {
            assert!(elapsed >= Duration::from_millis(100), "{line}: {elapsed:?}");
        }
    }
}

#[test]
fn wrong_tokens_are_limited_and_a_right_one_is_never_refused() {
    let page = Page::new();
    let begun = Instant::now();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let viewer = scope.spawn(|| {
            for _ in 0..20 {
                assert_eq!(page.get("/metrics", &[&page.bearer()]).status, 200);
            }
        });
        let tries: Vec<_> = (0..14)
            .map(|_| scope.spawn(|| page.get("/metrics", &["Authorization: Bearer wrong"]).status))
            .collect();
        viewer.join().unwrap();
        tries.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let compared = statuses.iter().filter(|status| **status == 401).count();
    // A machine that is slow has another second by then.
    let seconds = 1 + usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(compared <= 10 * seconds, "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    let limited = page.get("/", &["Authorization: Bearer wrong"]);
    if limited.status == 429 {
        assert_eq!(limited.header("retry-after"), Some("1"));
    }
    assert_eq!(page.get("/metrics", &[&page.bearer()]).status, 200);
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let page = Page::new();
    let bearer = page.bearer();
    for (line, status) in [
        ("Host: evil.example", 421),
        ("Host: db.example:1234", 200),
        ("Host: [::1]:80", 200),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
        ("Sec-Fetch-Site: same-origin", 200),
        ("Sec-Fetch-Site: none", 200),
        ("Origin: http://evil.example", 403),
        ("Origin: http://localhost", 200),
        ("Origin: https://localhost", 200),
        ("Origin: null", 403),
    ] {
        let reply = page.get("/metrics", &[&bearer, line]);
        assert_eq!(reply.status, status, "{line}");
        if status != 200 {
            tells_nothing(&reply);
        }
    }
    let origin = "Origin: http://evil.example";
    assert_eq!(
        page.send("POST", "/login", &[origin], &format!("token={}", page.token)).status,
        403
    );
}

#[test]
fn a_request_that_is_none_learns_no_program() {
    let page = Page::new();
    for (bytes, status) in [
        (&b"what is this\r\n\r\n"[..], " 400 "),
        (b"*1\r\n$4\r\nPING\r\n", " 400 "),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", " 400 "),
        // It is closed without a word.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", " 400 "),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", " 400 "),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", " 401 "),
        (b"TRACE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", " 405 "),
        (b"GET /\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", " 400 "),
    ] {
        let mut stream = page.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // It may be reset behind its answer.
        let _ignored = stream.read_to_end(&mut answer);
        let head = String::from_utf8(answer).unwrap();
        let first = head.lines().next().unwrap_or_default();
        assert!(first.contains(status), "{}: {head}", bytes.escape_ascii());
        tells_nothing(&Reply { status: 0, head, body: String::new() });
    }
    assert_eq!(page.server.asked.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn every_answer_has_the_headers_that_keep_it_to_itself() {
    let page = Page::new();
    let bearer = page.bearer();
    for reply in [
        page.get("/", &[]),
        page.get("/", &[&bearer]),
        page.get("/metrics", &[&bearer]),
        page.get("/none", &[&bearer]),
        page.get("/", &["Host: evil.example"]),
        page.send("POST", "/login", &[], &format!("token={}", page.token)),
    ] {
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name}");
        }
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(reply.header("server"), None);
    }
}
