//! Berth on a real cluster: the demo and the end-to-end tests.

fn main() {}
