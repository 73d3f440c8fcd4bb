//! The present and former forms of a SidecarSet: the hashes of its containers, its revisions, and
//! the revision that a new pod gets.

pub mod hash;
pub(super) mod revisions;
pub(super) mod wanted;
