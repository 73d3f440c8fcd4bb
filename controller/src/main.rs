//! The controller: flags and wiring.

fn main() {}
