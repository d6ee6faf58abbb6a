//! Requests and what they are answered.
//!
//! | request | without the token | with it |
//! |---|---|---|
//! | `GET /` | 401 and the form | the page |
//! | `POST /login` | 303 to `/` with a session, or 401 | the same |
//! | `POST /logout` | 401 | 303 to `/` |
//! | `GET /metrics` | 401 | OpenMetrics |
//! | anything else | 401 | 404 |

use std::fmt::Write as _;
use std::time::Instant;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderMap,
    HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};

use crate::access::{Access, Credential, SESSION_FOR, Verdict, WRONG_AFTER};
use crate::guard;
use crate::house::{REQUEST_WITHIN, Seat};
use crate::metrics;
use crate::page;
use crate::watch::Watch;

/// How many bytes a form has at most.
const FORM_BYTES_MAX: usize = 4096;

const HTML: &str = "text/html; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What every answer has besides: it is no other site's frame, picture or script, and is kept nowhere.
const HEADERS: [(HeaderName, &str); 9] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // With no-referrer a browser sends `Origin: null` with our own form.
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("x-permitted-cross-domain-policies"), "none"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

type Answered = Response<Full<Bytes>>;

/// What is served, and what opens it.
pub(crate) struct Site {
    pub(crate) access: Access,
    pub(crate) watch: Watch,
    /// Names that `Host` may have, besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// The name of the cookie: browsers do not tell ports of a host apart.
    pub(crate) cookie: String,
    policy: HeaderValue,
}

impl Site {
    pub(crate) fn new(access: Access, watch: Watch, hosts: Vec<String>, port: u16) -> Self {
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'",
            page::source_of(page::STYLE),
            page::source_of(page::SCRIPT)
        );
        let policy = HeaderValue::from_str(&policy).expect("it is ASCII");
        Self { access, watch, hosts, cookie: format!("admin-session-{port}"), policy }
    }

    /// Answers a request of a connection, and notes in its seat whether it has shown the token.
    pub(crate) async fn answer(&self, request: Request<Incoming>, seat: &Seat) -> Answered {
        let begun = Instant::now();
        let mut response = self.route(request, begun, seat).await;
        seat.rest();
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(&self, request: Request<Incoming>, begun: Instant, seat: &Seat) -> Answered {
        if let Some(status) = guard::refusal(request.method(), request.headers(), &self.hosts) {
            return plain(status);
        }
        let path = request.uri().path().to_owned();
        let is_post = request.method() == Method::POST;
        if is_post && path == "/login" {
            return self.log_in(request, begun, seat).await;
        }
        let shown = credentials(request.headers(), &self.cookie);
        let verdict = self.access.judge(&shown, Instant::now());
        match verdict {
            Verdict::Granted => seat.welcome(),
            Verdict::Absent => return refused(verdict, !is_post && path == "/", ""),
            Verdict::Wrong | Verdict::Limited => {
                wait_until(begun + WRONG_AFTER).await;
                return refused(verdict, !is_post && path == "/", "");
            }
        }
        match (is_post, path.as_str()) {
            (false, "/") => {
                let picture = self.watch.picture().await;
                with_body(StatusCode::OK, HTML, page::render(picture.as_deref()))
            }
            (false, "/metrics") => {
                let picture = self.watch.picture().await;
                with_body(StatusCode::OK, OPEN_METRICS, metrics::encode(picture.as_deref()))
            }
            (true, "/logout") => {
                self.access.end_sessions(&shown);
                self.see_page("", "")
            }
            (_, "/" | "/metrics" | "/logout") => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
                let allowed = if is_post { "GET, HEAD" } else { "POST" };
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
            _ => plain(StatusCode::NOT_FOUND),
        }
    }

    async fn log_in(&self, request: Request<Incoming>, begun: Instant, seat: &Seat) -> Answered {
        let is_https = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
        // A browser that has come through a proxy with TLS sends the session over nothing else.
        let secure =
            if request.headers().get(ORIGIN).is_some_and(is_https) { "; Secure" } else { "" };
        let body = Limited::new(request.into_body(), FORM_BYTES_MAX).collect();
        let body = match tokio::time::timeout(REQUEST_WITHIN, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return plain(StatusCode::PAYLOAD_TOO_LARGE),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT),
        };
        let token = field(&body, "token").unwrap_or_default();
        let verdict = self.access.judge(&[Credential::Token(token.trim())], Instant::now());
        if verdict != Verdict::Granted {
            wait_until(begun + WRONG_AFTER).await;
            let why = match verdict {
                Verdict::Limited => "Too many wrong tokens: try again in a second.",
                _ => "That is not the token.",
            };
            return refused(verdict, true, why);
        }
        seat.welcome();
        self.see_page(&self.access.begin_session(Instant::now()), secure)
    }

    /// Sends a browser to the page, with a session or, if that is empty, without.
    fn see_page(&self, session: &str, secure: &'static str) -> Answered {
        let age_s = if session.is_empty() { 0 } else { SESSION_FOR.as_secs() };
        let cookie = format!(
            "{}={session}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}",
            self.cookie
        );
        let mut response = with_body(StatusCode::SEE_OTHER, HTML, String::new());
        let headers = response.headers_mut();
        headers.insert(SET_COOKIE, HeaderValue::from_str(&cookie).expect("it is ASCII"));
        headers.insert(LOCATION, HeaderValue::from_static("/"));
        response
    }
}

async fn wait_until(moment: Instant) {
    tokio::time::sleep(moment.saturating_duration_since(Instant::now())).await;
}

/// What a request shows: tokens, and sessions of cookies of this name. What another scheme wants is not for us: a
/// proxy before us may have its own.
fn credentials<'a>(headers: &'a HeaderMap, cookie: &str) -> Vec<Credential<'a>> {
    let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let schemes = texts(AUTHORIZATION).filter_map(|it| it.split_once(' '));
    let tokens = schemes.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let pairs = texts(COOKIE).flat_map(|it| it.split(';'));
    let pairs = pairs.filter_map(|it| it.trim().split_once('='));
    let sessions = pairs.filter(|(name, _)| *name == cookie);
    let tokens = tokens.map(|(_, token)| Credential::Token(token.trim()));
    tokens.chain(sessions.map(|(_, session)| Credential::Session(session))).collect()
}

/// The field of a form, as browsers encode it.
fn field(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let value = text.split('&').filter_map(|pair| pair.split_once('=')).find(|it| it.0 == name)?.1;
    let (mut decoded, mut rest) = (Vec::new(), value.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, behind @ ..]) => {
                let digits = [*high, *low];
                decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = behind;
            }
            _ => decoded.push(*first),
        }
    }
    String::from_utf8(decoded).ok()
}

fn with_body(status: StatusCode, kind: &'static str, body: String) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn plain(status: StatusCode) -> Answered {
    let mut text = String::new();
    let _infallible = writeln!(text, "{}", status.canonical_reason().unwrap_or_default());
    with_body(status, "text/plain; charset=utf-8", text)
}

fn refused(verdict: Verdict, has_form: bool, why: &'static str) -> Answered {
    let status = match verdict {
        Verdict::Limited => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::UNAUTHORIZED,
    };
    let mut response =
        if has_form { with_body(status, HTML, page::form(why)) } else { plain(status) };
    let headers = response.headers_mut();
    if verdict == Verdict::Limited {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    } else {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_request_shows_is_looked_at() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (AUTHORIZATION, "Basic eDp5"),
            (AUTHORIZATION, "bearer  abc"),
            (COOKIE, "other=1; s=2.x;s=3.y"),
            (COOKIE, "s=4.z; ss=5"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let expected =
            [Credential::Token("abc"), Credential::Session("2.x"), Credential::Session("3.y")];
        let shown = credentials(&headers, "s");
        assert_eq!(shown[..3], expected);
        assert_eq!(shown[3..], [Credential::Session("4.z")]);
    }

    #[test]
    fn a_form_is_read_as_browsers_write_it() {
        for (body, expected) in [
            ("token=abc", Some("abc")),
            ("x=1&token=a%2Bb+c%25", Some("a+b c%")),
            ("token=", Some("")),
            ("other=1", None),
            ("token=%zz", None),
            ("token=%", Some("%")),
        ] {
            assert_eq!(field(body.as_bytes(), "token").as_deref(), expected, "{body}");
        }
    }
}
