use clap::CommandFactory;

use super::*;

#[test]
fn every_flag_has_a_variable() {
    Flags::command().debug_assert();
    for argument in Flags::command().get_arguments() {
        let name = argument.get_long().unwrap_or_default();
        if name.is_empty() || name == "help" || name == "version" {
            continue;
        }
        let variable = argument.get_env().map(|v| v.to_string_lossy().into_owned());
        assert_eq!(
            variable.as_deref(),
            Some(name.replace('-', "_").to_uppercase().as_str())
        );
    }
}

#[test]
fn a_node_name_that_changes_a_url_is_refused() {
    let parsed = Flags::try_parse_from(["berth-daemon", "--node-name=a/status?x#"]);
    assert!(
        parsed
            .unwrap_err()
            .to_string()
            .contains("is no object's name")
    );
}

#[test]
fn empty_values_are_no_values() {
    let flags = Flags::parse_from([
        "berth-daemon",
        "--node-name=n",
        "--cri-socket=",
        "--controller=",
    ]);
    let settings = flags.settings();
    assert!(settings.socket.socket.is_none() && settings.secrets.is_none());
}
