//! Tests which texts of a page are commands, and where the program's commands are.

use super::*;

fn command(text: &str) -> Part {
    Part::Command {
        text: text.to_owned(),
        is_refused: false,
    }
}

#[test]
fn page_has_manifests_and_commands_in_order() {
    let page = "Use `kubectl get\nclonesets -A`, as `kubectl drain` does.\n\n```yaml\napiVersion: v1\nkind: Pod\n```\n\
                ```yaml\nspec: {}\n```\n1. then\n   ```sh\n   kubectl a |\n     kubectl b\n   ```\n```console\n$ kubectl c \\\n  d\n\
                out\n$ kubectl delete e\nError from server (Forbidden): no\n$ make\n```\n";
    let refused = Part::Command {
        text: "kubectl delete e".to_owned(),
        is_refused: true,
    };
    let expected = [
        command("kubectl get clonesets -A"),
        Part::Manifest("apiVersion: v1\nkind: Pod".to_owned()),
        command("kubectl a |\n  kubectl b"),
        command("kubectl c \\\n  d"),
        refused,
    ];
    assert_eq!(parts(page), expected);
}

#[test]
fn notes_are_a_command_for_each_paragraph() {
    let notes = "See that it runs:\n  kubectl get pods\n\nStart:\n  kubectl apply -f - <<YAML\n  a: b\n    c: d\n  YAML\n";
    assert_eq!(
        of_notes(notes),
        [
            command("kubectl get pods\n"),
            command("kubectl apply -f - <<YAML\na: b\n  c: d\nYAML\n")
        ]
    );
}

/// An exception that no page contains any more is an error.
#[test]
fn each_command_not_run_is_on_a_page() {
    let pages = all().unwrap();
    let of_pages = pages
        .iter()
        .flat_map(|page| &page.parts)
        .filter_map(|part| match part {
            Part::Command { text, .. } => Some(text.as_str()),
            Part::Manifest(_) => None,
        });
    let of_pages: Vec<_> = of_pages.collect();
    for (text, _) in NOT_RUN {
        assert!(
            of_pages.iter().any(|command| command.contains(text)),
            "no page has {text:?}"
        );
    }
}

/// A command in a block of another language would not be run.
#[test]
fn blocks_with_commands_are_sh_or_console() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in all()
        .unwrap()
        .iter()
        .filter(|page| page.name.ends_with(".md"))
    {
        let text = fs::read_to_string(root.join(&page.name)).unwrap();
        let mut language = None;
        for (number, line) in text.lines().enumerate() {
            if let Some(rest) = line.trim_start().strip_prefix("```") {
                language = if language.is_some() {
                    None
                } else {
                    Some(rest.trim().to_owned())
                };
            } else if let Some(language) = &language {
                let line = line.trim_start();
                let is_command = line.starts_with("kubectl ") || line.starts_with("$ kubectl ");
                let prompt = if line.starts_with('$') {
                    "console"
                } else {
                    "sh"
                };
                assert!(
                    !is_command || language == prompt || language == "console",
                    "{}:{}: a command in a block of {language:?}",
                    page.name,
                    number + 1
                );
            }
        }
    }
}

/// The files of the programs, without tests.
fn sources() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let name = entry
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if entry.is_dir() && !["tests", "target"].contains(&name.as_str()) {
                below(&entry, found);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                found.push(entry);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["controller", "daemon", "cni-hostlocal", "proto"] {
        below(&root.join(folder), &mut found);
    }
    found
}

/// A message takes its commands from `berth_api::commands`. Descriptions of fields name `kubectl
/// explain` and `kubectl get`.
#[test]
fn commands_of_messages_are_in_one_module() {
    for file in sources()
        .iter()
        .filter(|file| !file.ends_with("proto/api/src/commands.rs"))
    {
        let text = fs::read_to_string(file).unwrap();
        let text = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            let words: Vec<_> = line.split("kubectl ").skip(1).collect();
            let is_message = words.iter().any(|rest| !rest.starts_with("explain"));
            assert!(
                !is_message,
                "{}: take the command from berth_api::commands: {line}",
                file.display()
            );
        }
    }
}

#[test]
fn each_command_of_a_message_runs_on_a_cluster() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (module, test) = (
        text("proto/api/src/commands.rs"),
        text("tests/e2e/tests/on_cluster/remedies.rs"),
    );
    let functions = module
        .lines()
        .filter_map(|line| line.strip_prefix("pub fn ")?.split('(').next());
    let functions: Vec<_> = functions.collect();
    assert!(functions.len() > 5, "{functions:?}");
    for function in functions {
        assert!(
            test.contains(&format!("commands::{function}(")),
            "remedies.rs does not run commands::{function}"
        );
    }
}
