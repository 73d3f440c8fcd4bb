//! Until when the authorities of a `caBundle` are valid.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use x509_parser::pem::Pem;

/// The end of the authority that is valid for the longest time; `None` if none can be read. The
/// bundle is the base64 text of PEM blocks.
pub(super) fn end_of_bundle(bundle: &str) -> Option<Timestamp> {
    let pem = BASE64_STANDARD.decode(bundle).ok()?;
    let blocks = Pem::iter_from_buffer(&pem).filter_map(Result::ok);
    let ends = blocks.filter_map(|block| {
        let end = block.parse_x509().ok()?.validity().not_after;
        Timestamp::from_second(end.timestamp()).ok()
    });
    ends.max()
}
