//! What a SidecarSet was and is: the hashes of its containers, its revisions, and the revision that a new pod gets.

pub mod hash;
pub(super) mod revisions;
pub(super) mod wanted;
