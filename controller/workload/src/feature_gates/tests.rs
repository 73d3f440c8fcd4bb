use super::*;

#[test]
fn gates_are_as_they_are_known_and_change_one_by_one() {
    let gates = Gates::default();
    for known in KNOWN {
        let Ok(gate) = known.meaning else { continue };
        assert_eq!(gates.has(gate), known.default, "{}", known.name);
        assert_eq!(
            gates.with(gate, !known.default).with(gate, known.default),
            gates,
            "{}",
            known.name
        );
        assert_ne!(gates.with(gate, !known.default), gates, "{}", known.name);
    }
}
