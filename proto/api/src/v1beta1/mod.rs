//! The stored version.

pub mod cloneset;
pub mod imagepulljob;
pub mod nodeimage;

pub use cloneset::CloneSet;
pub use imagepulljob::ImagePullJob;
pub use nodeimage::NodeImage;
