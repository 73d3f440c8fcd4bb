use super::*;

fn web() -> Key {
    Key {
        resource: CLONE_SETS,
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

#[test]
fn paths_have_their_meaning() {
    let all = || View::Workloads(Some(String::new()));
    let logs = Key {
        resource: SIDECAR_SETS,
        namespace: String::new(),
        name: "logs".to_owned(),
    };
    let cases = [
        ("GET", "/", "", Route::File(&INDEX)),
        ("GET", "/app.js", "", Route::File(&SCRIPT)),
        ("GET", "/style.css", "", Route::File(&STYLE)),
        (
            "GET",
            "/api/workloads",
            "",
            Route::Show(View::Workloads(None)),
        ),
        ("GET", "/api/workloads", "namespace=", Route::Show(all())),
        (
            "GET",
            "/api/workloads",
            "namespace=shop",
            Route::Show(View::Workloads(Some("shop".to_owned()))),
        ),
        (
            "GET",
            "/api/workloads/default/clonesets/web",
            "",
            Route::Show(View::Workload(web())),
        ),
        (
            "GET",
            "/api/workloads/-/sidecarsets/logs",
            "",
            Route::Show(View::Workload(logs)),
        ),
        ("GET", "/api/nodes", "", Route::Show(View::Nodes)),
        (
            "GET",
            "/api/nodes/node-1.example",
            "",
            Route::Show(View::Node("node-1.example".to_owned())),
        ),
        (
            "GET",
            "/api/watch",
            "view=workloads&namespace=",
            Route::Watch(all()),
        ),
        ("GET", "/api/watch", "view=nodes", Route::Watch(View::Nodes)),
        (
            "GET",
            "/api/watch",
            "view=workload&namespace=default&kind=clonesets&name=web",
            Route::Watch(View::Workload(web())),
        ),
        (
            "POST",
            "/api/workloads/default/clonesets/web/actions/undo",
            "",
            Route::Act(web(), Verb::Undo),
        ),
    ];
    for (method, path, query, expected) in cases {
        let method: Method = method.parse().unwrap();
        assert_eq!(
            route(&method, path, query),
            Ok(expected),
            "{method} {path}?{query}"
        );
    }
}

#[test]
fn other_requests_are_refused() {
    let cases = [
        ("GET", "/index.html", "", 404),
        ("GET", "/../etc/passwd", "", 404),
        ("GET", "/api", "", 404),
        ("GET", "/api/workloads/default/secrets/web", "", 404),
        ("GET", "/api/workloads/default/pods/web", "", 404),
        ("GET", "/api/workloads/default/clonesets/..", "", 400),
        ("GET", "/api/workloads/default/clonesets/a%2Fb", "", 400),
        ("GET", "/api/workloads/../clonesets/web", "", 400),
        ("GET", "/api/workloads/-/clonesets/web", "", 400),
        ("GET", "/api/workloads/default/sidecarsets/logs", "", 400),
        ("GET", "/api/workloads", "namespace=a%2Fb", 400),
        ("GET", "/api/nodes/A", "", 400),
        ("GET", "/api/watch", "", 400),
        ("GET", "/api/watch", "view=secrets", 400),
        ("POST", "/", "", 405),
        ("HEAD", "/api/nodes", "", 405),
        ("OPTIONS", "/api/nodes", "", 405),
        ("DELETE", "/api/workloads/default/clonesets/web", "", 405),
        (
            "GET",
            "/api/workloads/default/clonesets/web/actions/pause",
            "",
            405,
        ),
        (
            "POST",
            "/api/workloads/default/clonesets/web/actions/delete",
            "",
            404,
        ),
    ];
    for (method, path, query, expected) in cases {
        let method: Method = method.parse().unwrap();
        let refused = route(&method, path, query).unwrap_err();
        assert_eq!(refused.status.as_u16(), expected, "{method} {path}?{query}");
    }
}

#[test]
fn page_is_small_and_loads_nothing_else() {
    assert!(SCRIPT.text.len() < 40_000, "{}", SCRIPT.text.len());
    for file in [&INDEX, &SCRIPT, &STYLE] {
        let addresses = file.text.matches("://").count();
        // The namespace of SVG is a name, not an address that is loaded.
        let names = file.text.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(addresses, names, "{}", file.content);
        assert!(!file.text.contains("url(") && !file.text.contains("@import"));
    }
    // Each of these makes HTML or code of text.
    let unsafe_calls = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
    ];
    for call in unsafe_calls {
        assert!(!SCRIPT.text.contains(call), "{call}");
    }
    // The content policy refuses code and style in the page itself.
    assert!(!INDEX.text.contains("<style") && !INDEX.text.contains("onclick"));
    assert!(!INDEX.text.contains(" style="));
}
