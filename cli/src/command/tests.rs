use super::*;

#[test]
fn bash_script_finds_its_own_labels() {
    let script = shell_script(Shell::Bash);
    let label = "kubectl__berth__subcmd__drain";
    assert!(script.contains(&format!("cmd=\"{label}\"")), "{script}");
    assert!(
        script.contains(&format!("\n        {label})\n")),
        "{script}"
    );
}

#[test]
fn command_line_is_consistent() {
    Cli::command().debug_assert();
}
