//! The kubelet's hash of a container's spec, which it leaves on every container that it creates.
//!
//! Since Kubernetes 1.31 the hash covers only the container's name and image. So it shows which
//! image name a container was created from, even if the runtime forgets it: containerd before 2.0
//! keeps only the image's id, and two tags of one digest look alike.

/// The annotation of a CRI container that carries the hash, in lower-case hex without leading
/// zeros.
pub const ANNOTATION: &str = "io.kubernetes.container.hash";

/// The hash that a kubelet of 1.31 or later gives a container called `name` with the image `image`,
/// spelled as in the pod's spec. As in [`ANNOTATION`].
pub fn container_hash(name: &str, image: &str) -> String {
    // The kubelet hashes the JSON of {image, name} in the notation of Go's spew for a byte slice:
    // decimal numbers.
    let json = format!(r#"{{"image":{},"name":{}}}"#, quoted(image), quoted(name));
    let mut hash = Fnv32a::default();
    hash.write(b"([]uint8)[");
    for (i, byte) in json.bytes().enumerate() {
        if i > 0 {
            hash.write(b" ");
        }
        hash.write(byte.to_string().as_bytes());
    }
    hash.write(b"]");
    format!("{:x}", hash.0)
}

/// A JSON string; names and images hold nothing that JSON libraries escape in different ways.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The 32-bit FNV-1a hash.
struct Fnv32a(u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Fnv32a(0x811c_9dc5)
    }
}

impl Fnv32a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests;
