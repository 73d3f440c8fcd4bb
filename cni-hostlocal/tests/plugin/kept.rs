//! Addresses that stay with a pod.

use std::{fs, os::unix::fs::symlink, path::PathBuf, thread::sleep, time::Duration};

use serde_json::{Value, json};

use crate::tool::{Ended, Namespace, OURS, REFERENCE, Site, names, operator};

fn annotated(minutes: &str) -> Value {
    json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"io.kubernetes.cri/reserved-ip-duration": minutes}}})
}

fn args(pod: &str) -> String {
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME={pod};K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID=y"
    )
}

pub(crate) fn kept(site: &Site, command: &str, container: &str, pod: &str) -> Ended {
    site.call(OURS, command, container, &args(pod), &annotated("10"))
}

fn dual() -> Site {
    Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/28"}], [{"subnet": "2001:db8::/64"}]]}))
}

#[test]
fn recreated_pod_gets_both_kept_addresses_back() {
    let site = dual();
    let first = kept(&site, "ADD", "one", "web-0").given();
    for round in 0..3 {
        let (old, new) = (
            format!("one{}", "x".repeat(round)),
            format!("one{}", "x".repeat(round + 1)),
        );
        assert!(kept(&site, "DEL", &old, "web-0").worked);
        for number in 0..11 {
            assert!(
                !site
                    .ours("ADD", &format!("r{round}-{number}"))
                    .given()
                    .contains(&first[0])
            );
        }
        for number in 0..11 {
            assert!(site.ours("DEL", &format!("r{round}-{number}")).worked);
        }
        assert_eq!(kept(&site, "ADD", &new, "web-0").given(), first);
        // The runtime repeats the DEL of the old sandbox, and collects it too.
        assert!(kept(&site, "DEL", &old, "web-0").worked);
        assert!(kept(&site, "CHECK", &new, "web-0").worked);
        assert_eq!(site.lease("10.1.2.2"), format!("{new}\r\neth0"));
    }
    assert!(kept(&site, "ADD", "other", "web-1").given() != first);
}

#[test]
fn new_sandbox_takes_addresses_of_dead_one_only() {
    let mut site = dual();
    site.version = "1.1.0";
    let namespace = Namespace::new();
    site.netns = namespace.path();
    let call = |command: &str, container: &str| kept(&site, command, container, "web-0");
    let old = call("ADD", "old").given();
    // The old sandbox was never ended, and lives: the new one gets other addresses.
    let new = call("ADD", "new").given();
    assert_ne!(old, new);
    // A late DEL of the old sandbox frees only the old addresses.
    assert!(call("DEL", "old").worked);
    assert_eq!(site.held(), ["10.1.2.3", "2001:db8::3"]);
    drop(namespace);
    // Its namespace has gone without a DEL: the next sandbox takes over at once.
    assert_eq!(kept(&site, "ADD", "newest", "web-0").given(), new);
    // GC of all but the newest leaves its addresses alone; GC of the newest keeps them.
    let valid = |ids: Value| json!({"cni.dev/valid-attachments": ids});
    let newest = json!([{"containerID": "newest", "ifname": "eth0"}]);
    assert!(site.call(OURS, "GC", "", "", &valid(newest)).worked);
    assert_eq!(site.lease("10.1.2.3"), "newest\r\neth0");
    assert!(site.call(OURS, "GC", "", "", &valid(json!([]))).worked);
    // The second of the clock may have changed since.
    let list = operator(&site, &["list"]).0;
    assert!(
        list.contains("kept 60") || list.contains("kept 59"),
        "{list}"
    );
    assert_eq!(kept(&site, "ADD", "last", "web-0").given(), new);
}

#[test]
fn annotation_overrides_namespace_configuration() {
    let keep = json!({"minutes": 5, "namespaces": ["ns"]});
    let site = Site::new(json!({"subnet": "10.1.2.0/28", "reservedIPs": keep}));
    let cycle = |args: &str, more: &Value| {
        let first = site.call(OURS, "ADD", "a", args, more).given();
        site.call(OURS, "DEL", "a", args, more);
        let again = site.call(OURS, "ADD", "b", args, more).given();
        site.call(OURS, "DEL", "b", args, more);
        first == again
    };
    assert!(cycle(&args("web-0"), &json!({})));
    assert!(!cycle(&args("web-1"), &annotated("0")));
    assert!(!cycle(
        &args("web-2").replace("=ns;", "=other;"),
        &json!({})
    ));
    assert!(!cycle("", &json!({})));
    // DEL without the pod's name: the record of ADD has it.
    let first = site
        .call(OURS, "ADD", "c", &args("web-3"), &json!({}))
        .given();
    site.call(OURS, "DEL", "c", "", &json!({}));
    assert_eq!(
        site.call(OURS, "ADD", "d", &args("web-3"), &json!({}))
            .given(),
        first
    );
}

#[test]
fn an_annotation_where_it_is_not_allowed_keeps_nothing() {
    for (namespaces, container) in [(json!([]), "a"), (json!(["other", "ns2"]), "b")] {
        let site = Site::new(
            json!({"subnet": "10.1.2.0/28", "reservedIPs": {"annotationNamespaces": namespaces}}),
        );
        kept(&site, "ADD", container, "web-0").given();
        assert!(kept(&site, "DEL", container, "web-0").worked);
        assert_eq!(site.held(), [""; 0]);
        assert_eq!(
            names(&site.directory.path().join(".host-local/net/pods")),
            [""; 0]
        );
    }
}

#[test]
fn exhausted_range_takes_oldest_reservation_if_set() {
    for (when, gives) in [("takeOldest", true), ("fail", false)] {
        let site =
            Site::new(json!({"subnet": "10.1.2.0/29", "reservedIPs": {"whenExhausted": when}}));
        let mut addresses = Vec::new();
        for (number, pod) in ["web-0", "web-1"].iter().enumerate() {
            addresses.push(kept(&site, "ADD", &format!("s{number}"), pod).given());
        }
        kept(&site, "DEL", "s1", "web-1");
        sleep(Duration::from_millis(1100));
        kept(&site, "DEL", "s0", "web-0");
        for number in 0..3 {
            assert!(site.ours("ADD", &format!("n{number}")).worked);
        }
        let more = site.ours("ADD", "more");
        assert_eq!(more.worked, gives, "{}", more.answer);
        if gives {
            assert_eq!(more.given(), addresses[1]);
        }
        assert_eq!(kept(&site, "ADD", "again", "web-0").given(), addresses[0]);
    }
}

fn reservation_path(site: &Site, pod: &str) -> PathBuf {
    site.directory
        .path()
        .join(format!(".host-local/net/pods/ns@{pod}@eth0"))
}

/// The line of a pod's reservation.
fn reservation(site: &Site, pod: &str) -> String {
    fs::read_link(reservation_path(site, pod))
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn namespace_with_most_reservations_loses_one_first() {
    let mut site = Site::new(json!({"subnet": "10.1.2.0/28"}));
    site.ipam["reservedIPs"]["annotationNamespaces"] = json!(["*"]);
    let call = |command: &str, namespace: &str, pod: &str| {
        let args = args(pod).replace("=ns;", &format!("={namespace};"));
        site.call(
            OURS,
            command,
            &format!("{namespace}-{pod}"),
            &args,
            &annotated("4294967295"),
        )
    };
    // The victim's is the oldest of all.
    let victims = call("ADD", "victim", "db-0").given();
    assert!(call("DEL", "victim", "db-0").worked);
    age_in(&site, "victim", "db-0", 3600);
    // The tenant's pods start and end: each keeps one address, of twelve free ones, and then they
    // push out each other's.
    for number in 0..30 {
        let pod = format!("k{number}");
        assert_ne!(call("ADD", "tenant", &pod).given(), victims, "pod {number}");
        assert!(call("DEL", "tenant", &pod).worked);
    }
    // Pods that keep nothing get all addresses of the tenant but one: then both namespaces keep
    // one, and the oldest ends.
    for number in 0..11 {
        assert_ne!(
            site.ours("ADD", &format!("n{number}")).given(),
            victims,
            "container {number}"
        );
    }
    assert_eq!(call("ADD", "victim", "db-0").given(), victims);
    assert!(call("DEL", "victim", "db-0").worked);
    age_in(&site, "victim", "db-0", 3600);
    assert_eq!(site.ours("ADD", "last-but-one").given(), victims);
}

/// Sets back the moment of a reservation's release, as if time had passed.
fn age(site: &Site, pod: &str, seconds: u64) {
    age_in(site, "ns", pod, seconds);
}

fn age_in(site: &Site, namespace: &str, pod: &str, seconds: u64) {
    let state = site.directory.path().join(".host-local/net");
    let path = state.join(format!("pods/{namespace}@{pod}@eth0"));
    let line = fs::read_link(&path).unwrap().to_str().unwrap().to_owned();
    let (rest, released) = line.rsplit_once("released=").unwrap();
    let released: u64 = released.parse().unwrap();
    fs::remove_file(&path).unwrap();
    symlink(format!("{rest}released={}", released - seconds), &path).unwrap();
    for bucket in names(&state.join("released")) {
        let time: u64 = bucket.parse().unwrap();
        fs::rename(
            state.join("released").join(&bucket),
            state.join(format!("released/{:012}", time - seconds)),
        )
        .unwrap();
    }
    fs::remove_file(state.join("due")).unwrap();
    symlink("1", state.join("due")).unwrap();
}

#[test]
fn when_its_time_is_over_an_address_is_free() {
    let site = dual();
    kept(&site, "ADD", "one", "web-0");
    kept(&site, "DEL", "one", "web-0");
    age(&site, "web-0", 570);
    assert!(site.ours("DEL", "unknown").worked);
    assert_eq!(site.held().len(), 2);
    age(&site, "web-0", 44);
    assert!(site.ours("DEL", "unknown").worked);
    assert!(site.held().is_empty());
    assert!(names(&site.directory.path().join(".host-local/net/released")).is_empty());
    assert_eq!(
        operator(&site, &["doctor"]),
        ("nothing is wrong\n".into(), true)
    );
}

#[test]
fn a_release_before_the_clock_was_set_counts_from_when_it_is() {
    let site = dual();
    kept(&site, "ADD", "one", "web-0");
    kept(&site, "DEL", "one", "web-0");
    // Twenty seconds after a boot that began at 1970, now that the time server answers.
    let released: u64 = reservation(&site, "web-0")
        .rsplit_once("released=")
        .unwrap()
        .1
        .parse()
        .unwrap();
    age(&site, "web-0", released - 20);
    assert!(site.ours("DEL", "unknown").worked);
    assert_eq!(site.held().len(), 2);
    assert_eq!(notes(&site), ["ns@web-0@eth0"]);
    // Ten minutes later the reservation is over.
    age(&site, "web-0", 611);
    assert!(site.ours("DEL", "unknown").worked);
    assert!(site.held().is_empty());
    assert_eq!(notes(&site), [""; 0]);
}

#[test]
fn reboot_ends_leases_and_keeps_reservations() {
    let site = dual();
    site.ours("ADD", "plain");
    let given = kept(&site, "ADD", "one", "web-0").given();
    fs::write(site.leases().join("10.1.2.4"), "").unwrap();
    let boot = site.directory.path().join(".host-local/net/boot");
    fs::remove_file(&boot).unwrap();
    symlink("an-earlier-boot", &boot).unwrap();
    assert!(site.ours("DEL", "unknown").worked);
    assert_eq!(
        site.held(),
        ["10.1.2.3", "10.1.2.4", "2001:db8::3"],
        "what is empty may be somebody's, to keep an address free"
    );
    assert_eq!(kept(&site, "ADD", "two", "web-0").given(), given);
}

#[test]
fn reservations_of_the_known_patch_are_taken_over() {
    let site = Site::new(json!({"subnet": "10.1.2.0/28"}));
    // The state that the patch leaves: the lease stays, and beside the network is a file.
    site.reference("ADD", "old");
    site.reference("ADD", "live");
    let reserved = site.directory.path().join("reserved/ns");
    fs::create_dir_all(&reserved).unwrap();
    let file = |container: &str, address: &str, released: &str| {
        format!(
            r#"{{"containerId":"{container}","ifName":"eth0","IPConf":{{"address":"{address}/28","gateway":"10.1.2.1"}},"duration":10{released}}}"#
        )
    };
    fs::write(
        reserved.join("web-0"),
        file(
            "old",
            "10.1.2.2",
            r#","releaseTime":"2026-01-01T00:00:00Z""#,
        ),
    )
    .unwrap();
    fs::write(reserved.join("web-1"), file("live", "10.1.2.3", "")).unwrap();
    fs::write(reserved.join("web-2"), file("gone", "10.1.2.9", "")).unwrap();
    assert_eq!(kept(&site, "ADD", "new", "web-0").given(), ["10.1.2.2/28"]);
    assert_eq!(
        names(&reserved),
        ["web-2"],
        "a lease that is not there is not taken over"
    );
    assert!(kept(&site, "DEL", "live", "web-1").worked);
    assert_eq!(kept(&site, "ADD", "next", "web-1").given(), ["10.1.2.3/28"]);
    // Back to the reference: it sees leases, and releases them.
    for container in ["new", "next"] {
        assert!(
            site.call(REFERENCE, "DEL", container, "", &json!({}))
                .worked
        );
    }
    assert!(site.held().is_empty());
}

/// The names of everything below `released`, by its directories of times.
fn notes(site: &Site) -> Vec<String> {
    let released = site.directory.path().join(".host-local/net/released");
    let of = |time: String| {
        let notes = names(&released.join(&time));
        if notes.is_empty() { vec![time] } else { notes }
    };
    names(&released).into_iter().flat_map(of).collect()
}

#[test]
fn a_reservation_that_ended_or_is_taken_up_leaves_no_files() {
    let site = Site::new(json!({"subnet": "10.1.2.0/29"}));
    for round in 0..3 {
        kept(&site, "ADD", &format!("s{round}"), "web-0").given();
        assert_eq!(notes(&site), [""; 0], "taken up in round {round}");
        assert!(kept(&site, "DEL", &format!("s{round}"), "web-0").worked);
        assert_eq!(notes(&site), ["ns@web-0@eth0"]);
    }
    // Others take every address, and the reservation ends for them.
    for number in 0..5 {
        assert!(site.ours("ADD", &format!("n{number}")).worked);
    }
    assert_eq!(notes(&site), [""; 0]);
    for number in 0..5 {
        assert!(site.ours("DEL", &format!("n{number}")).worked);
    }
    kept(&site, "ADD", "s", "web-1").given();
    assert!(kept(&site, "DEL", "s", "web-1").worked);
    assert!(operator(&site, &["release", "--pod", "ns/web-1"]).1);
    assert_eq!(notes(&site), [""; 0]);
}

#[test]
fn reservations_of_an_earlier_maximum_end_at_the_new_one() {
    let mut site = Site::new(json!({"subnet": "10.1.2.0/28"}));
    site.ipam["reservedIPs"]["maxMinutes"] = json!(4_000_000_000_u32);
    let far = annotated("4000000000");
    for (container, pod) in [("a", "web-0"), ("b", "web-1"), ("c", "web-2")] {
        site.call(OURS, "ADD", container, &args(pod), &far).given();
    }
    for (container, pod) in [("a", "web-0"), ("b", "web-1")] {
        assert!(site.call(OURS, "DEL", container, &args(pod), &far).worked);
    }
    // The state that an earlier version leaves: no maximum, and a note of a reservation that ended
    // early.
    age(&site, "web-0", 11 * 60);
    let state = site.directory.path().join(".host-local/net");
    fs::remove_file(state.join("max-minutes")).unwrap();
    fs::create_dir_all(state.join("released/253402300800")).unwrap();
    symlink("-", state.join("released/253402300800/ns@gone@eth0")).unwrap();
    site.ipam["reservedIPs"]["maxMinutes"] = json!(10);
    assert!(site.ours("DEL", "unknown").worked);
    assert_eq!(
        site.held(),
        ["10.1.2.3", "10.1.2.4"],
        "web-0's time is over"
    );
    assert_eq!(notes(&site), ["ns@web-1@eth0"]);
    assert!(
        reservation(&site, "web-1").contains(" minutes=10 released="),
        "{}",
        reservation(&site, "web-1")
    );
    // The reservation in use: its sandbox ends later, when its pod's annotation is not known any
    // more.
    assert!(site.ours("DEL", "c").worked);
    assert!(
        reservation(&site, "web-2").contains(" minutes=10 released="),
        "{}",
        reservation(&site, "web-2")
    );
}

#[test]
fn doctor_shortens_reservations_to_max_minutes() {
    let site = dual();
    kept(&site, "ADD", "one", "web-0");
    kept(&site, "DEL", "one", "web-0");
    // The file that an earlier version writes in between.
    let path = reservation_path(&site, "web-0");
    let line = reservation(&site, "web-0").replace("minutes=10", "minutes=99999");
    fs::remove_file(&path).unwrap();
    symlink(line, &path).unwrap();
    let (told, well) = operator(&site, &["doctor"]);
    let words = "too long: the reservation of ns/web-0 is for 99999 minutes, and reservedIPs.maxMinutes is 1440";
    assert!(!well && told.contains(words), "{told}");
    assert!(operator(&site, &["doctor", "--fix"]).1);
    assert_eq!(
        operator(&site, &["doctor"]),
        ("nothing is wrong\n".into(), true)
    );
    assert!(
        reservation(&site, "web-0").contains(" minutes=1440 released="),
        "{}",
        reservation(&site, "web-0")
    );
}
