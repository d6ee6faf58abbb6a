//! What a request must be before its token is looked at: of a known method, for a host that we are, and not sent by
//! another site's page.
//!
//! A site that has its name resolve to this address after a while (DNS rebinding) makes a browser send its name in `Host`:
//! so a name is refused unless it is `localhost` or one that the operator has listed. An address cannot be rebound.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused, or nothing.
pub(crate) fn refusal(
    method: &Method,
    headers: &HeaderMap<HeaderValue>,
    hosts: &[String],
) -> Option<StatusCode> {
    if !matches!(*method, Method::GET | Method::HEAD | Method::POST) {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let text = |name: &HeaderName| match headers.get_all(name).iter().collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [value] => value.to_str().map(Some).map_err(|_| StatusCode::BAD_REQUEST),
        _ => Err(StatusCode::BAD_REQUEST),
    };
    let all = [&HOST, &SEC_FETCH_SITE, &ORIGIN].map(text);
    let [Ok(host), Ok(site), Ok(origin)] = all else { return Some(StatusCode::BAD_REQUEST) };
    let Some(host) = host else { return Some(StatusCode::BAD_REQUEST) };
    if !is_ours(name_of(host), hosts) {
        return Some(StatusCode::MISDIRECTED_REQUEST);
    }
    let is_ours = match (site, origin) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        // An old browser, none, or one that has come by HTTP to an address that is not its own machine's.
        (None, Some(origin)) => is_at(origin, host),
        (None, None) => true,
    };
    (!is_ours).then_some(StatusCode::FORBIDDEN)
}

/// Whether an origin is the one of this host: by HTTP, or by HTTPS through a proxy that leaves `Host` as it is.
fn is_at(origin: &str, host: &str) -> bool {
    let is_of = |scheme: &str, default_port: &str| {
        let bare = |it| str::strip_suffix(it, default_port).unwrap_or(it);
        origin.strip_prefix(scheme).is_some_and(|it| bare(it).eq_ignore_ascii_case(bare(host)))
    };
    is_of("http://", ":80") || is_of("https://", ":443")
}

/// The name of a `Host`, without its port.
fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn is_ours(name: &str, hosts: &[String]) -> bool {
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(method: Method, headers: &[(&'static str, &'static str)]) -> Option<StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        refusal(&method, &map, &["db.example".to_owned()])
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused() {
        for (host, is_ours) in [
            ("127.0.0.1:9000", true),
            ("[::1]:9000", true),
            ("10.1.2.3", true),
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("db.example:9000", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:9000", false),
            ("localhost.evil.example", false),
            ("db.example.evil", false),
            ("", false),
        ] {
            let expected = (!is_ours).then_some(StatusCode::MISDIRECTED_REQUEST);
            assert_eq!(judge(Method::GET, &[("host", host)]), expected, "{host}");
        }
        assert_eq!(judge(Method::GET, &[]), Some(StatusCode::BAD_REQUEST));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(judge(Method::GET, &two), Some(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn what_another_site_sends_is_refused() {
        let of_site =
            |site| judge(Method::POST, &[("host", "localhost:1"), ("sec-fetch-site", site)]);
        for site in ["cross-site", "same-site", "anything"] {
            assert_eq!(of_site(site), Some(StatusCode::FORBIDDEN), "{site}");
        }
        assert_eq!((of_site("same-origin"), of_site("none")), (None, None));
        let of_origin =
            |origin| judge(Method::POST, &[("host", "localhost:1"), ("origin", origin)]);
        for origin in ["http://evil.example", "null", "http://localhost:2", "https://localhost", ""]
        {
            assert_eq!(of_origin(origin), Some(StatusCode::FORBIDDEN), "{origin}");
        }
        assert_eq!([of_origin("http://localhost:1"), of_origin("https://localhost:1")], [None; 2]);
    }

    #[test]
    fn a_browser_off_the_loopback_or_behind_a_proxy_is_ours() {
        for (host, origin, is_ours) in [
            ("10.1.2.3:8379", "http://10.1.2.3:8379", true),
            ("db.example", "https://db.example", true),
            ("db.example:443", "https://db.example", true),
            ("db.example", "http://db.example:80", true),
            ("DB.example:8443", "https://db.example:8443", true),
            ("db.example", "https://db.example:8443", false),
            ("db.example:80", "https://db.example", false),
            ("db.example", "https://db.example.evil", false),
            ("db.example", "ftp://db.example", false),
        ] {
            let refused = judge(Method::POST, &[("host", host), ("origin", origin)]);
            assert_eq!(refused.is_none(), is_ours, "{host} {origin}");
        }
    }

    #[test]
    fn other_methods_are_refused() {
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE, Method::CONNECT]
        {
            let refused = judge(method, &[("host", "localhost")]);
            assert_eq!(refused, Some(StatusCode::METHOD_NOT_ALLOWED));
        }
    }
}
