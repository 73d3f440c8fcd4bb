//! Images that nodes pull: ahead of an update, when a node joins, and by jobs.

pub mod predownload;
pub mod prepull;
pub mod pull;
