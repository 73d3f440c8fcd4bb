use http::Request;

use super::*;

const PORT: u16 = 3100;
const HOST_HEADER: (&str, &str) = ("host", "127.0.0.1:3100");

fn guard() -> Guard {
    Guard {
        port: PORT,
        token: Token("ab".repeat(32)),
    }
}

fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// A path, headers, and the expected status.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let cases: &[Case] = &[
        ("/", &[HOST_HEADER], 200),
        ("/", &[("host", "localhost:3100")], 200),
        (
            "/",
            &[HOST_HEADER, ("origin", "http://127.0.0.1:3100")],
            200,
        ),
        (
            "/",
            &[
                ("host", "localhost:3100"),
                ("origin", "http://localhost:3100"),
            ],
            200,
        ),
        ("/", &[], 421),
        ("/", &[("host", "127.0.0.1")], 421),
        ("/", &[("host", "127.0.0.1:3101")], 421),
        ("/", &[("host", "evil.example:3100")], 421),
        ("/", &[("host", "127.0.0.1:3100.evil.example")], 421),
        ("/", &[("host", "[::1]:3100")], 421),
        ("/", &[HOST_HEADER, HOST_HEADER], 421),
        ("/", &[HOST_HEADER, ("host", "evil.example")], 421),
        ("http://evil.example/", &[HOST_HEADER], 421),
        ("/", &[HOST_HEADER, ("origin", "http://evil.example")], 403),
        ("/", &[HOST_HEADER, ("origin", "null")], 403),
        ("/", &[HOST_HEADER, ("origin", "")], 403),
        (
            "/",
            &[HOST_HEADER, ("origin", "https://127.0.0.1:3100")],
            403,
        ),
        (
            "/",
            &[HOST_HEADER, ("origin", "http://127.0.0.1:8080")],
            403,
        ),
        (
            "/",
            &[HOST_HEADER, ("origin", "http://localhost:3100")],
            403,
        ),
        (
            "/",
            &[
                HOST_HEADER,
                ("origin", "http://127.0.0.1:3100"),
                ("origin", "http://evil.example"),
            ],
            403,
        ),
    ];
    for (uri, headers, expected) in cases {
        let checked = guard().check_origin(&parts("GET", uri, headers));
        let status = checked.map_or_else(|refused| refused.status.as_u16(), |()| 200);
        assert_eq!(status, *expected, "{uri} {headers:?}");
    }
}

#[test]
fn token_and_form_of_writes_are_checked() {
    let bearer = format!("Bearer {}", "ab".repeat(32));
    let own = ("authorization", bearer.as_str());
    let json = ("content-type", "application/json");
    let cases: &[Case] = &[
        ("GET", &[own], 200),
        ("GET", &[], 401),
        ("GET", &[("authorization", "Bearer ")], 401),
        ("GET", &[("authorization", "Bearer abab")], 401),
        ("GET", &[("authorization", &"ab".repeat(32))], 401),
        ("GET", &[own, own], 401),
        ("POST", &[own, json], 200),
        ("POST", &[json], 401),
        ("POST", &[own], 415),
        ("POST", &[own, ("content-type", "text/plain")], 415),
        ("POST", &[own, json, ("content-length", "65536")], 200),
        ("POST", &[own, json, ("content-length", "65537")], 413),
    ];
    for (method, headers, expected) in cases {
        let checked = guard().check_token(&parts(method, "/api/nodes", headers));
        let status = checked.map_or_else(|refused| refused.status.as_u16(), |()| 200);
        assert_eq!(status, *expected, "{method} {headers:?}");
    }
}

#[test]
fn tokens_are_long_and_differ() {
    let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
    assert_eq!(one.text().len(), 64);
    assert!(one.text().bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_ne!(one.text(), other.text());
    assert!(one.is(one.text()) && !one.is(other.text()));
    assert!(!one.is("") && !one.is(&one.text()[1..]) && !one.is(&format!("{}0", one.text())));
}
