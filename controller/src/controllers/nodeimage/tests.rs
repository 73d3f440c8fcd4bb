use super::*;

#[test]
fn node_images_are_worked_on_only_where_there_are_daemons() {
    let gates = Gates::default();
    assert!(NodeImageController::is_possible(gates));
    assert!(!NodeImageController::is_possible(
        gates.with(Gate::KruiseDaemon, false)
    ));
}
