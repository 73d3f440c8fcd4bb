use super::*;

fn policy(mode: &str, regex: &str, limits: [&str; 2], requests: [&str; 2]) -> ResourcesPolicy {
    let section = |[cpu, memory]: [&str; 2]| json!({"cpu": cpu, "memory": memory});
    serde_json::from_value(json!({
        "targetContainersMode": mode, "targetContainersNameRegex": regex,
        "resourcesExpr": {"limits": section(limits), "requests": section(requests)},
    }))
    .unwrap()
}

/// A container with its limits and its requests, CPU and memory each; an empty text is none.
fn container(name: &str, limits: [&str; 2], requests: [&str; 2]) -> Value {
    let section = |amounts: [&str; 2]| {
        let amounts = ["cpu", "memory"]
            .into_iter()
            .zip(amounts)
            .filter(|(_, amount)| !amount.is_empty());
        amounts
            .map(|(name, amount)| (name.to_owned(), json!(amount)))
            .collect::<Map<_, _>>()
    };
    json!({"name": name, "resources": {"limits": section(limits), "requests": section(requests)}})
}

#[test]
fn resources_come_from_those_of_the_containers() {
    let main = container("main", ["200m", "200Mi"], ["50m", "100Mi"]);
    let helper = container("helper", ["400m", "400Mi"], ["100m", "200Mi"]);
    let free = container("free", ["", "1Gi"], ["", "1Gi"]);
    let limited = container("limited", ["1", "512Mi"], ["", ""]);
    let half = |mode, regex| {
        policy(
            mode,
            regex,
            ["cpu*50%", "memory*50%"],
            ["cpu*50%", "memory/2"],
        )
    };
    let constants = policy("sum", "", ["1", "200Mi"], ["max(cpu*50%, 50m)", "100Mi"]);
    let table = [
        (
            half("sum", ".*"),
            vec![&main, &helper],
            json!({"limits": {"cpu": "300m", "memory": "300Mi"}, "requests": {"cpu": "75m", "memory": "150Mi"}}),
        ),
        (
            half("max", ".*"),
            vec![&main, &helper],
            json!({"limits": {"cpu": "200m", "memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
        ),
        (
            half("sum", "^main$"),
            vec![&main, &helper],
            json!({"limits": {"cpu": "100m", "memory": "100Mi"}, "requests": {"cpu": "25m", "memory": "50Mi"}}),
        ),
        (
            half("sum", ""),
            vec![&main, &free],
            json!({"limits": {"memory": "612Mi"}, "requests": {"cpu": "25m", "memory": "562Mi"}}),
        ),
        (
            half("max", ""),
            vec![&main, &free],
            json!({"limits": {"memory": "512Mi"}, "requests": {"cpu": "25m", "memory": "512Mi"}}),
        ),
        // If a container has no limit, a constant limit does not count, either.
        (
            constants.clone(),
            vec![&free],
            json!({"limits": {"memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
        ),
        (
            constants,
            vec![&main],
            json!({"limits": {"cpu": "1", "memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
        ),
        // A request is never above its limit.
        (
            policy("sum", "", ["cpu*10%", ""], ["1", "1Gi"]),
            vec![&main],
            json!({"limits": {"cpu": "20m"}, "requests": {"cpu": "20m", "memory": "1Gi"}}),
        ),
        (
            policy("sum", "", ["", "memory*33.3%"], ["", ""]),
            vec![&main],
            json!({"limits": {"memory": "69835161"}}),
        ),
        (
            policy("sum", "", ["", ""], ["cpu", "memory"]),
            vec![&free],
            json!({"requests": {"cpu": "0", "memory": "1Gi"}}),
        ),
        // The apiserver gives a container with a limit alone a request of the same amount.
        (
            policy("sum", "", ["", ""], ["cpu*50%", "memory"]),
            vec![&main, &limited, &free],
            json!({"requests": {"cpu": "525m", "memory": "1636Mi"}}),
        ),
        (
            policy("sum", "", ["", ""], ["", ""]),
            vec![&free],
            json!({}),
        ),
    ];
    for (policy, targets, expected) in table {
        assert_eq!(
            resources(&policy, &targets).map(Value::Object),
            Ok(expected),
            "{policy:?}"
        );
    }
}

#[test]
fn policy_without_result_names_the_reason() {
    let main = container("main", ["200m", "200Mi"], ["50m", "100Mi"]);
    let odd = container("odd", ["much", ""], ["", ""]);
    let table = [
        (
            policy("sum", "^other$", ["cpu", ""], ["", ""]),
            &main,
            "no container of the pod's own has a name with \"^other$\"",
        ),
        (
            policy("sum", "(", ["cpu", ""], ["", ""]),
            &main,
            "targetContainersNameRegex: \"(\" is no regular expression",
        ),
        (
            policy("sum", "", ["cpu - 1", ""], ["", ""]),
            &main,
            "resourcesExpr.limits.cpu, with cpu = 200m: the result is below zero",
        ),
        (
            policy("sum", "", ["", ""], ["", "memory*memory"]),
            &main,
            "resourcesExpr.requests.memory: \"memory*memory\": two amounts",
        ),
        (
            policy("sum", "", ["cpu", ""], ["", ""]),
            &odd,
            "container \"odd\": resources.limits.cpu: \"much\" is no quantity",
        ),
    ];
    for (policy, target, expected) in table {
        let error = resources(&policy, &[target]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert!(resources(&policy("sum", "", ["cpu", ""], ["", ""]), &[]).is_err());
}

#[test]
fn invalid_policy_names_its_field() {
    let fields = |policy: &ResourcesPolicy| {
        problems(policy)
            .into_iter()
            .map(|(field, _)| field)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        fields(&policy("sum", ".*", ["cpu", "memory*50%"], ["", ""])),
        [""; 0]
    );
    assert_eq!(
        fields(&policy("sum", "(", ["cpu*cpu", "cpu"], ["", "memory+"])),
        [
            "targetContainersNameRegex",
            "resourcesExpr.limits.cpu",
            "resourcesExpr.limits.memory",
            "resourcesExpr.requests.memory"
        ]
    );
    assert_eq!(fields(&ResourcesPolicy::default()), ["resourcesExpr"]);
}
