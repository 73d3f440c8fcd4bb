//! Settings of a DaemonSet without effect: a hook that no pod waits for, or a surge that a port of
//! the host blocks. The object is accepted, and its author gets a warning.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::stage::{Stage, until};

/// The only option by which kubectl tells a warning from a refusal.
const STRICT: [&str; 2] = ["--warnings-as-errors", "--dry-run=server"];

fn set(fields: &Value) -> String {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "log"}},
        "template": {
            "metadata": {"labels": {"app": "log"}},
            "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
        },
    });
    merge(&mut spec, fields);
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": "log"}, "spec": spec})
        .to_string()
}

fn merge(into: &mut Value, fields: &Value) {
    match fields.as_object() {
        Some(fields) => fields
            .iter()
            .for_each(|(key, value)| merge(&mut into[key], value)),
        None => *into = fields.clone(),
    }
}

#[test]
fn pre_normal_hook_of_daemon_set_gets_a_warning() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("daemon-sets")?;
    let apply =
        |lifecycle: Value, more: &[&str]| apply(&stage, &json!({"lifecycle": lifecycle}), more);
    let hook = json!({"labelsHandler": {"example.com/in-use": "true"}});
    stage.run(async |_| {
        until("the policy is in force", async || {
            match apply(json!({"preNormal": hook}), &STRICT) {
                Ok(answer) => anyhow::bail!("no warning: {answer}"),
                Err(error) => {
                    let text = error.to_string();
                    ensure!(
                        text.contains("Warning: ")
                            && text.contains("spec.lifecycle.preNormal: is not heeded"),
                        "{text}"
                    );
                    Ok(())
                }
            }
        })
        .await
    })?;
    apply(json!({"preDelete": hook}), &STRICT)?;
    apply(json!({"preNormal": hook}), &[])?;
    surges(&stage)
}

/// A surge together with a port of the host.
fn surges(stage: &Stage) -> Result<()> {
    let with = |surge: Value, port: Value, on_host: bool| {
        let containers = json!([{"name": "main", "image": "busybox:1", "ports": [port]}]);
        let rolling = json!({"maxSurge": surge});
        json!({
            "updateStrategy": {"rollingUpdate": rolling},
            "template": {"spec": {"containers": containers, "hostNetwork": on_host}},
        })
    };
    let host_port = json!({"containerPort": 80, "hostPort": 8080});
    for (surge, port, on_host, number) in [
        (json!(1), host_port.clone(), false, 8080),
        (json!("10%"), host_port.clone(), false, 8080),
        (json!(1), json!({"containerPort": 9100}), true, 9100),
    ] {
        let Err(error) = apply(stage, &with(surge.clone(), port, on_host), &STRICT) else {
            anyhow::bail!("no warning of maxSurge {surge} and port {number}")
        };
        let words = format!(
            "is {}, but spec.template has port {number} of the host",
            surge.to_string().trim_matches('"')
        );
        let text = error.to_string();
        ensure!(
            text.contains("Warning: ")
                && text.contains(&words)
                && text.contains("use maxUnavailable"),
            "{text}"
        );
    }
    apply(
        stage,
        &with(json!(1), json!({"containerPort": 80}), false),
        &STRICT,
    )?;
    for zero in [json!(0), json!("0%")] {
        let mut fields = with(zero, host_port.clone(), false);
        fields["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(1);
        apply(stage, &fields, &STRICT)?;
    }
    Ok(())
}

fn apply(stage: &Stage, fields: &Value, more: &[&str]) -> Result<String> {
    stage.kubectl(
        &[&["apply", "--namespace=daemon-sets", "--filename=-"], more].concat(),
        Some(&set(fields)),
    )
}
