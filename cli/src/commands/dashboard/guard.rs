//! The checks of each request before it is answered.
//!
//! A page of another site can send requests to 127.0.0.1, and can give 127.0.0.1 a name of its own
//! by DNS. The check of `Host` stops the second, the checks of `Origin` and of the token the first.

use std::fmt::Write;
use std::hint::black_box;

use anyhow::anyhow;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{Method, StatusCode};

use super::answers::{LARGEST_BODY, Refused};

/// The secret that a request for data must carry.
#[derive(Debug)]
pub(super) struct Token(String);

impl Token {
    /// A token of 32 bytes from the generator that makes keys of TLS.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut bytes = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        let filled = random.fill(&mut bytes);
        filled.map_err(|_| anyhow!("the system has no random numbers for the token"))?;
        let mut text = String::new();
        for byte in bytes {
            write!(text, "{byte:02x}")?;
        }
        Ok(Self(text))
    }

    /// The token in hexadecimal digits.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token. The time does not depend on where the two differ.
    pub(super) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differing = own
            .iter()
            .zip(other)
            .fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        own.len() == other.len() && differing == 0
    }
}

/// The port and the token against which requests are checked.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) port: u16,
    pub(super) token: Token,
}

impl Guard {
    /// Checks the origin of a request. All requests must pass, also for the page itself.
    pub(super) fn check_origin(&self, parts: &Parts) -> Result<(), Refused> {
        let hosts = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        let host = only(parts, &HOST);
        let is_own = |host: &str| hosts.iter().any(|own| own == host);
        // A request to a proxy names the server in its first line.
        if parts.uri.host().is_some() || !host.is_some_and(is_own) {
            return Err(Refused::new(
                StatusCode::MISDIRECTED_REQUEST,
                format!("the header Host must be {}", hosts[0]),
            ));
        }
        if parts.headers.contains_key(ORIGIN) {
            let origin = only(parts, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if origin != host {
                return Err(Refused::new(
                    StatusCode::FORBIDDEN,
                    "the request comes from a page of another origin".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Checks the token of a request for data, and the form of a request that writes.
    pub(super) fn check_token(&self, parts: &Parts) -> Result<(), Refused> {
        let token = only(parts, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.token.is(token)) {
            return Err(Refused::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that \
                 `kubectl berth dashboard` printed"
                    .to_owned(),
            ));
        }
        if parts.method != Method::POST {
            return Ok(());
        }
        if only(parts, &CONTENT_TYPE) != Some("application/json") {
            return Err(Refused::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the header Content-Type must be application/json".to_owned(),
            ));
        }
        let length = only(parts, &CONTENT_LENGTH).and_then(|length| length.parse().ok());
        if length.is_some_and(|length: u64| length > LARGEST_BODY as u64) {
            return Err(Refused::too_large());
        }
        Ok(())
    }
}

/// The value of a header that the request has once.
fn only<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    let mut values = parts.headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests;
