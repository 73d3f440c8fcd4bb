//! Conversion between v1alpha1 and v1beta1, in both directions and without loss.
//!
//! Each kind has a plain mapping of what both versions can say. Whatever the mapping alone would lose is found by mapping
//! the result back and comparing, and travels in one annotation, see [`memory`]. So the mapping may stay simple: it
//! decides how an object reads in the other version, never whether it survives.
//!
//! Only what a mapping touches is ever read ([`json`]): everything else, the template above all, is passed on as the text
//! that it is. So no object is too deep to be converted, and a conversion takes little more memory than the object's text.

pub(crate) mod json;
pub(crate) mod mapping;
pub(crate) mod memory;
#[cfg(test)]
mod tests;

pub(crate) use self::mapping::Mapping;
