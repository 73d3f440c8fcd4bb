use std::collections::BTreeSet;

use serde_json::json;

use super::super::simulation::{World, template};
use super::*;

#[test]
fn no_id_is_that_of_a_pod() {
    let world = World::settled(2, template("web:1"), json!({}));
    let taken: BTreeSet<_> = world
        .pods()
        .iter()
        .map(|pod| instance(&pod.metadata).to_owned())
        .collect();
    let ids: BTreeSet<_> = fresh_ids(&world.snapshot()).take(1_000).collect();
    assert!(taken.len() == 2 && ids.len() == 1_000 && ids.is_disjoint(&taken));
}
