//! Patches: of pods, and of any object by the two rules that the apiserver knows.

pub mod merge;
pub mod pod;
pub mod strategic;
