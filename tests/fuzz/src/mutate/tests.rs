use super::*;

#[test]
fn what_was_json_stays_json_and_every_place_is_reached() {
    let seed = br#"{"a":[1,{"b":"{\"c\":[true]}"}],"d":null}"#;
    let mut random = Rng::with_seed(1);
    let mutants: Vec<_> = (0..2000).map(|_| mutated(seed, &mut random)).collect();
    let values: Vec<Value> = mutants
        .iter()
        .map(|mutant| serde_json::from_slice(mutant).unwrap())
        .collect();
    assert!(values.iter().any(|value| value["d"] == "Ordered"));
    assert!(values.iter().any(|value| value["a"][0] == i64::MIN));
    assert!(
        values
            .iter()
            .any(|value| value["a"][1]["b"] == r#"{"c":[false]}"#),
        "inside of a text, too"
    );
    let mut bytes: Vec<_> = (0..2000)
        .map(|_| mutated(b"no JSON", &mut random))
        .collect();
    bytes.sort();
    bytes.dedup();
    assert!(bytes.len() > 1000, "{} of 2000 differ", bytes.len());
}
