//! A real multi-node Kubernetes on one Linux machine: a library and a command.

fn main() {}
