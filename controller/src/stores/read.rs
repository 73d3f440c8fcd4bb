//! What a type says of how it is read.

use std::sync::Arc;

use berth_runtime::Object;
use berth_runtime::store::Store;

/// A kind of object that controllers read.
pub(crate) trait Read: Object {
    /// An empty store, with the indexes by which its objects are looked up.
    fn store() -> Arc<Store<Self>>;

    /// Is the object kept? What is not costs nothing but the wire.
    fn is_kept(&self) -> bool {
        true
    }
}
