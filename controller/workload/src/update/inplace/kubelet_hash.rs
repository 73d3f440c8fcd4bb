//! The kubelet's own record of what a container was created from.

use std::fmt::Write;

/// The value of the annotation `io.kubernetes.container.hash` that the kubelet (1.31 and later)
/// gives to a container of this name and image: FNV-1a, 32 bits, over Go's notation of the bytes of
/// a small JSON document.
pub fn kubelet_hash(container: &str, image: &str) -> String {
    let document = serde_json::json!({"image": image, "name": container}).to_string();
    format!("{:x}", deep_hash(&document))
}

/// The result of Kubernetes' `DeepHashObject` for a JSON document: FNV-1a, 32 bits, over Go's
/// notation of its bytes.
pub fn deep_hash(document: &str) -> u32 {
    let mut text = String::from("([]uint8)[");
    for (at, byte) in document.bytes().enumerate() {
        let space = if at == 0 { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{space}{byte}");
    }
    text.push(']');
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;
