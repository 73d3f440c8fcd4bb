//! What Berth costs, measured.

fn main() {}
