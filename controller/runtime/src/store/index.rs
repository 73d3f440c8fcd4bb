//! Secondary indexes of a store.

/// A secondary index: the objects that share a value.
pub struct Index<T> {
    /// Names the index within its store.
    pub name: &'static str,
    /// The value under which an object is found; `None` or empty leaves it out.
    pub key: fn(&T) -> Option<&str>,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Index<T> {}

impl<T> Index<T> {
    /// Declares an index.
    pub const fn new(name: &'static str, key: fn(&T) -> Option<&str>) -> Self {
        Self { name, key }
    }

    pub(super) fn value<'a>(&self, object: &'a T) -> Option<&'a str> {
        (self.key)(object).filter(|value| !value.is_empty())
    }
}
