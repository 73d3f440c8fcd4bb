use clap::Parser;

use super::*;
use crate::settings::flags::Cli;

#[test]
fn defaults_are_those_of_the_flags() {
    let flags = Cli::parse_from(["berth-controller"]).run;
    assert_eq!(Published::of(&flags), Published::default());
}
