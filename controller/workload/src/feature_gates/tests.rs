use super::*;

#[test]
fn feature_gates_have_defaults_and_change_singly() {
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
