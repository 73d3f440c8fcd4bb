//! What the status of a NodeImage says about a pull.

use berth_api::image::split;
use serde_json::Value;

use crate::objects::{items, number, text};

/// The status of an image's pull in a NodeImage.
pub(super) fn tag_status<'a>(node_image: &'a Value, image: &str) -> Option<&'a Value> {
    let (name, tag) = split(image).ok()?;
    let image = &node_image["status"]["imageStatuses"][&name];
    items(image, "/tags").find(|one| text(one, "/tag") == tag)
}

/// The size of a pulled image, or an empty text.
pub(super) fn size(pull: &Value) -> String {
    match number(pull, "/bytesTotal") {
        0 => String::new(),
        total => bytes(total),
    }
}

/// A number of bytes in MiB with one digit, or in KiB below.
pub(super) fn bytes(bytes: i64) -> String {
    const MIB: i64 = 1 << 20;
    let bytes = bytes.max(0);
    if bytes < MIB {
        return format!(
            "{} KiB",
            bytes.div_euclid(1 << 10) + i64::from(bytes % (1 << 10) > 0)
        );
    }
    let tenths = bytes.saturating_mul(10) / MIB;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
