//! The trait of types that stores hold.

use std::sync::Arc;

use berth_runtime::Object;
use berth_runtime::store::Store;

/// A kind of object that controllers read.
pub(crate) trait Read: Object {
    /// An empty store, with the indexes by which its objects are looked up.
    fn store() -> Arc<Store<Self>>;

    /// Whether the store keeps the object. An object that the store drops costs only its transfer.
    fn is_kept(&self) -> bool {
        true
    }
}
