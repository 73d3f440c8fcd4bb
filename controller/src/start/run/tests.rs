use crate::settings::flags::Cli;
use clap::Parser;

use super::*;

#[test]
fn two_lives_of_one_pod_have_two_identities() {
    let flags = Cli::parse_from(["berth-controller", "--pod-name=manager-0"]).run;
    let (before, after) = (identity(&flags), identity(&flags));
    assert_ne!(before, after);
    assert!(before.starts_with("manager-0_"), "{before}");
}
