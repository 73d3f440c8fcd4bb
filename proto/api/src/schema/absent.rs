//! When a value is left out on the wire.

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

pub(crate) fn is_zero_i32(value: &i32) -> bool {
    *value == 0
}

pub(crate) fn is_zero_i64(value: &i64) -> bool {
    *value == 0
}
