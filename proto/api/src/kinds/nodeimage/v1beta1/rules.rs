//! Rules of a NodeImage: the requests to nodes, and how much a daemon may report. Each node writes
//! its own, and every controller holds all of them.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use crate::schema::field::{described, patched};
use crate::schema::patch::at;

/// Most images that one NodeImage can name.
pub const MAX_IMAGES: usize = 256;
/// Most pods that `spec.inspectPods` can name.
pub const MAX_INSPECTED_PODS: usize = 500;
/// Most containers that `spec.stopContainers` can name.
pub const MAX_STOPPED_CONTAINERS: usize = 100;
/// Seconds after which a pull has failed, where nothing is said.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 600;
/// How often a pull is tried again, where nothing is said.
pub const DEFAULT_BACKOFF_LIMIT: i32 = 3;
/// Most seconds that one try of a pull can be given: it holds one of the node's few slots for that
/// long.
pub const MAX_TIMEOUT_SECONDS: i32 = 3600;
/// Most times that a pull can be tried again.
pub const MAX_BACKOFF_LIMIT: i32 = 100;
/// Most tags of one image that a NodeImage can name.
pub const MAX_TAGS: usize = 64;
/// Most bytes of the labels and annotations of a [`SandboxConfig`], keys and values together.
pub const MAX_SANDBOX_BYTES: usize = 16 * 1024;
/// Most labels, and most annotations, of a [`SandboxConfig`].
pub const MAX_SANDBOX_PAIRS: usize = 256;
/// The longest name: of an object, a container, a hash.
pub(super) const NAME: usize = 253;
/// The longest image reference, and the longest id of an image or a container.
pub(super) const REFERENCE: usize = 1024;
/// The longest message of a pull.
pub(super) const MESSAGE: usize = 4096;
/// The longest message of a condition, as Kubernetes' own conditions have it: it has the runtime's
/// words.
pub(super) const CONDITION_MESSAGE: usize = 32_768;

pub(crate) fn have_names() -> Value {
    json!({"rule": "!('' in self)", "message": "has an image without a name: name it or remove it"})
}

/// At most so many tags, or no more than there were before.
pub(crate) fn tag_count() -> Value {
    json!({
        "rule": format!("size(self) <= {MAX_TAGS} || (oldSelf.hasValue() && size(self) <= size(oldSelf.value()))"),
        "messageExpression": format!("'has %d tags, but can have {MAX_TAGS}: remove some'.format([size(self)])"),
        "optionalOldSelf": true,
    })
}

/// Describes references to objects.
pub(super) fn owners(schema: &mut Schema) {
    let said = [
        ("apiVersion", "The object's API version."),
        ("fieldPath", "The part of the object that is meant; unused."),
        ("kind", "The object's kind."),
        ("name", "The object's name."),
        ("namespace", "The object's namespace."),
        ("resourceVersion", "The object's resourceVersion; unused."),
        ("uid", "The object's uid."),
    ];
    let mut patches = described("[]", &said);
    patches.push(at("[]", json!({"x-kubernetes-map-type": "atomic"})));
    patched(patches).transform(schema);
}

/// A map's keys have no length of their own in a schema.
pub(super) fn short_names() -> Value {
    json!({
        "rule": format!("self.all(name, size(name) <= {REFERENCE})"),
        "message": format!("has an image whose name is longer than {REFERENCE} characters: no image has such a name"),
    })
}
