//! The node agent: NodeImage facts, image pulls, container facts.

fn main() {}
