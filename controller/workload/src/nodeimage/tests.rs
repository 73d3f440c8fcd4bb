//! Tests of decisions about NodeImages.
