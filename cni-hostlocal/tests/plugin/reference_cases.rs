//! The cases of the reference plugin's own tests, each compared with the same call of the
//! reference.
//!
//! The intended differences: an error of the configuration has the specification's codes (7, 11, 5)
//! and not 999 for all; errors name the version; DEL needs no valid ranges; GC, STATUS and 1.1.0
//! are supported (Debian's 1.1.1 has none of them).

use serde_json::{Value, json};

use crate::tool::{OURS, REFERENCE, Site, ended, run};

const VERSIONS: [&str; 7] = [
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
];

fn of_version(version: &'static str, ipam: Value) -> Site {
    Site {
        version,
        ..Site::new(ipam)
    }
}

#[test]
fn each_range_set_allocates_and_releases_addresses() {
    for version in VERSIONS {
        let site = of_version(
            version,
            json!({
                "ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "10.2.2.0/24"}], [{"subnet": "2001:db8:1::0/64"}]],
                "routes": [
                    {"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "192.168.0.0/16", "gw": "1.1.1.1"},
                    {"dst": "2001:db8:2::0/64", "gw": "2001:db8:3::1"},
                ],
            }),
        );
        let resolv = site.directory.path().join("resolv.conf");
        std::fs::write(&resolv, "nameserver 192.0.2.3\nsearch a b\n# no\noptions x").unwrap();
        let mut site = site;
        site.ipam["resolvConf"] = json!(resolv);
        let added = site.ours("ADD", "dummy");
        assert_eq!(
            added.given(),
            ["10.1.2.2/24", "2001:db8:1::2/64"],
            "{version}"
        );
        assert_eq!(added.answer["cniVersion"], version);
        assert_eq!(
            added.answer["dns"],
            json!({"nameservers": ["192.0.2.3"], "search": ["a", "b"], "options": ["x"]})
        );
        if version < "0.3.0" {
            assert_eq!(
                added.answer["ip6"]["routes"][1],
                json!({"dst": "2001:db8:2::/64", "gw": "2001:db8:3::1"})
            );
        } else {
            assert_eq!(
                added.answer["routes"][2],
                json!({"dst": "192.168.0.0/16", "gw": "1.1.1.1"})
            );
            assert_eq!(added.answer["ips"][0]["version"].is_string(), version < "1");
        }
        assert_eq!(site.lease("10.1.2.2"), "dummy\r\neth0");
        assert_eq!(site.lease("2001:db8:1::2"), "dummy\r\neth0");
        assert_eq!(site.lease("last_reserved_ip.0"), "10.1.2.2");
        assert_eq!(site.lease("last_reserved_ip.1"), "2001:db8:1::2");
        // Debian's reference returns the next address, and prints all else in the same words.
        if version != "1.1.0" {
            let mut theirs = site.reference("ADD", "theirs").answer;
            let text = theirs
                .to_string()
                .replace("10.1.2.3/", "10.1.2.2/")
                .replace("1::3/", "1::2/");
            theirs = serde_json::from_str(&text).unwrap();
            assert_eq!(theirs, added.answer, "{version}");
            assert!(site.reference("DEL", "theirs").worked);
        }
        assert!(site.ours("DEL", "dummy").worked);
        assert!(site.held().is_empty(), "{:?}", site.held());
    }
}

#[test]
fn an_attachment_is_added_once() {
    let site = Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/24"}]]}));
    assert_eq!(site.ours("ADD", "dummy").given(), ["10.1.2.2/24"]);
    let why = "failed to allocate for range 0: 10.1.2.2 has been allocated to dummy, duplicate allocation is not allowed";
    assert_eq!(site.ours("ADD", "dummy").failed(), (999, why));
    assert_eq!(site.reference("ADD", "dummy").failed(), (999, why));
    assert_eq!(site.ours("ADD", "dummy1").given(), ["10.1.2.3/24"]);
    assert!(!site.ours("ADD", "dummy").worked);
    for container in ["dummy", "dummy", "dummy1", "unknown"] {
        assert!(site.ours("DEL", container).worked);
    }
    assert!(site.held().is_empty());
}

#[test]
fn a_lease_of_a_very_old_plugin_is_taken_back() {
    let site = Site::new(json!({"subnet": "10.1.2.0/24"}));
    site.ours("ADD", "dummy");
    std::fs::write(site.leases().join("10.1.2.2"), "dummy").unwrap();
    std::fs::write(site.leases().join("10.1.2.9"), " old\n").unwrap();
    assert!(site.ours("CHECK", "old").worked);
    for container in ["dummy", "old"] {
        assert!(site.ours("DEL", container).worked);
    }
    assert!(site.held().is_empty());
}

#[test]
fn requested_addresses_are_assigned_or_refused() {
    let two = json!({"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.3.0/24"}]]});
    let families = json!({"ranges": [[{"subnet": "172.16.1.0/24"}, {"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8:1::/48"}]]});
    let args = |ips: Value| json!({"args": {"cni": {"ips": ips}}});
    let one = || Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/24"}]]}));
    for (site, env, more, wanted) in [
        (
            one(),
            "",
            args(json!(["10.1.2.88"])),
            Ok(vec!["10.1.2.88/24"]),
        ),
        (one(), "IP=10.1.2.77", json!({}), Ok(vec!["10.1.2.77/24"])),
        (
            one(),
            "IP=10.1.2.77/24",
            json!({}),
            Ok(vec!["10.1.2.77/24"]),
        ),
        (
            one(),
            "",
            json!({"runtimeConfig": {"ips": ["10.1.2.66/24"]}}),
            Ok(vec!["10.1.2.66/24"]),
        ),
        (
            one(),
            "FOO=1;IgnoreUnknown=true",
            json!({}),
            Ok(vec!["10.1.2.2/24"]),
        ),
        (
            one(),
            "",
            json!({"runtimeConfig": {"ipRanges": [[{"subnet": "10.9.0.0/24"}]]}}),
            Ok(vec!["10.9.0.2/24", "10.1.2.2/24"]),
        ),
        (
            Site::new(two.clone()),
            "",
            args(json!(["10.1.2.88", "10.1.3.77"])),
            Ok(vec!["10.1.2.88/24", "10.1.3.77/24"]),
        ),
        (
            Site::new(families),
            "",
            args(json!(["10.1.2.88", "2001:db8:1::999"])),
            Ok(vec!["10.1.2.88/24", "2001:db8:1::999/48"]),
        ),
        (
            of_version("0.2.0", two.clone()),
            "",
            args(json!(["10.1.2.88", "10.1.3.77"])),
            Err((
                7,
                "CNI version 0.2.0 does not support more than 1 address per family",
            )),
        ),
        (
            Site::new(two),
            "",
            args(json!(["10.1.2.88", "10.1.2.77"])),
            Err((999, "failed to allocate all requested IPs: 10.1.2.88")),
        ),
        (
            one(),
            "IP=10.1.2.1",
            json!({}),
            Err((
                999,
                "failed to allocate for range 0: requested ip 10.1.2.1 is subnet's gateway",
            )),
        ),
        (
            one(),
            "FOO=1",
            json!({}),
            Err((999, "ARGS: unknown args [\"FOO=1\"]")),
        ),
        (
            one(),
            "FOO",
            json!({}),
            Err((999, "ARGS: invalid pair \"FOO\"")),
        ),
        (
            one(),
            "IP=x",
            json!({}),
            Err((
                999,
                "ARGS: error parsing value of pair \"IP=x\": invalid IP address x",
            )),
        ),
    ] {
        let ours = site.call(OURS, "ADD", "dummy", env, &more);
        match wanted {
            Ok(wanted) => {
                assert_eq!(ours.given(), wanted);
                let again = site.call(OURS, "ADD", "another", env, &more);
                assert_eq!(
                    again.worked,
                    !more.to_string().contains("ips\"") && !env.contains("IP="),
                    "{}",
                    again.answer
                );
            }
            Err(wanted) => {
                assert_eq!(ours.failed(), wanted);
                assert!(site.held().is_empty(), "{:?}", site.held());
                let theirs = site.call(REFERENCE, "ADD", "dummy", env, &more);
                if !wanted.1.contains("all requested") && !wanted.1.contains("error parsing") {
                    assert_eq!(theirs.failed().1, wanted.1);
                }
            }
        }
    }
}

#[test]
fn refusals_have_the_codes_of_the_specification() {
    let call = |environment: &[(&str, &str)], input: &str| ended(&run(OURS, environment, input));
    let add = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "a"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_NETNS", "/x"),
        ("CNI_PATH", "/x"),
    ];
    let with = |name: &'static str, value: &'static str| {
        add.map(|(key, old)| (key, if key == name { value } else { old }))
    };
    let good = r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {"subnet": "10.1.2.0/24", "dataDir": "/nowhere"}}"#;
    let missing = call(&add[..1], good);
    assert_eq!(
        missing.failed(),
        (
            4,
            "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"
        )
    );
    assert_eq!(
        call(&[("CNI_COMMAND", "FOO")], "").failed(),
        (4, "unknown CNI_COMMAND: FOO")
    );
    assert_eq!(
        call(&with("CNI_CONTAINERID", "a/b"), good).failed(),
        (4, "invalid characters in containerID")
    );
    assert_eq!(
        call(&with("CNI_IFNAME", "a/b"), good).failed(),
        (4, "interface name contains / or : or whitespace characters")
    );
    assert_eq!(
        call(&with("CNI_IFNAME", "0123456789abcdef"), good).failed(),
        (4, "interface name is too long")
    );
    assert_eq!(
        call(&with("CNI_NETNS", "/proc/self/ns/net"), good)
            .failed()
            .0,
        8
    );
    assert_eq!(
        call(&with("CNI_COMMAND", "GC"), good).failed(),
        (1, "config version does not allow GC")
    );
    assert_eq!(
        call(&with("CNI_COMMAND", "STATUS"), good).failed(),
        (1, "config version does not allow STATUS")
    );
    for (config, code, message) in [
        (
            "{",
            6,
            "error unmarshall network config: EOF while parsing an object at line 1 column 1",
        ),
        (r#"{"cniVersion": "1.0.0"}"#, 7, "missing network name"),
        (
            r#"{"cniVersion": "1.0.0", "name": "a/b"}"#,
            7,
            "invalid characters found in network name",
        ),
        (
            r#"{"cniVersion": "9.9.9", "name": "n", "ipam": {}}"#,
            1,
            "incompatible CNI versions",
        ),
        (
            r#"{"cniVersion": "1.0.0", "name": "n"}"#,
            7,
            "IPAM config missing 'ipam' key",
        ),
        (
            r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {}}"#,
            7,
            "no IP ranges specified",
        ),
        (
            r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {"subnet": "10.1.2.0/33"}}"#,
            7,
            "invalid CIDR address: 10.1.2.0/33",
        ),
        (
            r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {"ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "10.1.2.0/24"}]]}}"#,
            7,
            "range set 0 overlaps with 1",
        ),
        (
            r#"{"cniVersion": "1.0.0", "name": "n", "ipam": {"ranges": [[]]}}"#,
            7,
            "invalid range set 0: empty range set",
        ),
        (
            r#"{"cniVersion": "0.1.0", "name": "n", "ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "10.1.2.0/24"}]]}}"#,
            7,
            "CNI version 0.1.0 does not support more than 1 address per family",
        ),
    ] {
        assert_eq!(call(&add, config).failed(), (code, message), "{config}");
    }
    let unwritable = good.replace("/nowhere", "/proc/nowhere");
    assert_eq!(call(&add, &unwritable).failed().0, 5);
    let versions = call(&[("CNI_COMMAND", "VERSION")], r#"{"cniVersion": "0.4.0"}"#).answer;
    assert_eq!(
        versions,
        json!({"cniVersion": "0.4.0", "supportedVersions": VERSIONS})
    );
}

#[test]
fn exhausted_range_fails_and_check_finds_lost_lease() {
    let mut site = of_version("1.1.0", json!({"subnet": "10.1.2.0/29"}));
    for container in ["a", "b", "c", "d", "e"] {
        assert!(site.ours("STATUS", "").worked);
        assert!(site.ours("ADD", container).worked);
    }
    let why =
        "failed to allocate for range 0: no IP addresses available in range set: 10.1.2.1-10.1.2.6";
    assert_eq!(site.ours("ADD", "f").failed(), (11, why));
    assert_eq!(site.ours("STATUS", "").failed().0, 50);
    let previous = |address: &str| json!({"prevResult": {"cniVersion": "1.1.0", "ips": [{"address": address}]}});
    assert!(
        site.call(OURS, "CHECK", "c", "", &previous("10.1.2.4/29"))
            .worked
    );
    assert!(
        !site
            .call(OURS, "CHECK", "c", "", &previous("10.1.2.5/29"))
            .worked
    );
    assert!(
        site.call(OURS, "CHECK", "c", "", &previous("192.0.2.1/24"))
            .worked,
        "an address of another plugin"
    );
    std::fs::remove_file(site.leases().join("10.1.2.4")).unwrap();
    assert_eq!(
        site.ours("CHECK", "c").failed(),
        (
            999,
            "host-local: Failed to find address added by container c"
        )
    );
    let valid = json!({"cni.dev/valid-attachments": [{"containerID": "b", "ifname": "eth0"}, {"containerID": "d", "ifname": "eth1"}]});
    assert!(site.call(OURS, "GC", "", "", &valid).worked);
    assert_eq!(site.held(), ["10.1.2.3"]);
    site.version = "0.3.1";
    assert_eq!(
        site.ours("CHECK", "b").failed(),
        (1, "config version does not allow CHECK")
    );
}
