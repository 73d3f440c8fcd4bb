//! A hook that no pod of a DaemonSet waits for: it passes, and whoever writes it is told.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::stage::{Stage, until};

fn set(lifecycle: &Value) -> String {
    let template = json!({
        "metadata": {"labels": {"app": "log"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    });
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": "log"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template, "lifecycle": lifecycle},
    })
    .to_string()
}

#[test]
fn a_pre_normal_hook_of_a_daemon_set_passes_with_a_warning_and_others_without() -> Result<()> {
    let stage = Stage::with_chart()?;
    let apply = |lifecycle: Value, more: &[&str]| {
        stage.kubectl(&[&["apply", "--namespace=default", "--filename=-"], more].concat(), Some(&set(&lifecycle)))
    };
    let hook = json!({"labelsHandler": {"example.com/in-use": "true"}});
    // kubectl tells a warning from a refusal by this alone.
    let strict = ["--warnings-as-errors", "--dry-run=server"];
    stage.run(async |_| {
        until("the policy is in force", async || match apply(json!({"preNormal": hook}), &strict) {
            Ok(answer) => anyhow::bail!("no warning: {answer}"),
            Err(error) => {
                let text = error.to_string();
                ensure!(
                    text.contains("Warning: ") && text.contains("spec.lifecycle.preNormal: is not heeded"),
                    "{text}"
                );
                Ok(())
            }
        })
        .await
    })?;
    apply(json!({"preDelete": hook}), &strict)?;
    apply(json!({"preNormal": hook}), &[])?;
    Ok(())
}
