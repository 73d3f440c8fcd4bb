//! Conversion between v1alpha1 and v1beta1, in both directions and without loss.
//!
//! Each kind has a simple mapping of the parts that both versions have. To find the values that the
//! mapping alone would lose, the result is mapped back and compared. These values are kept in one
//! annotation, see [`memory`]. So the mapping may stay simple: it decides only how an object looks
//! in the other version, and nothing is lost.
//!
//! Only the parts that a mapping uses are parsed ([`json`]). Everything else, above all the
//! template, stays text. So no object is too deep for conversion, and a conversion takes little
//! more memory than the object's text.

pub(crate) mod json;
pub(crate) mod mapping;
pub(crate) mod memory;
#[cfg(test)]
mod tests;

pub(crate) use self::mapping::Mapping;
