//! Leases that are lost while their sandboxes live, and leases that outlive their sandboxes.

use std::{fs, os::unix::fs::symlink, process::Command};

use cni_hostlocal::admin::reclaim;
use serde_json::json;

use crate::{
    kept::kept,
    tool::{Namespace, Site, operator},
};

/// A site with the living containers `a` and `b`, the latter of a pod whose addresses are kept, and
/// the dead one `c`.
fn inhabited(namespace: &Namespace) -> Site {
    let mut site =
        Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/28"}], [{"subnet": "2001:db8::/64"}]]}));
    site.netns = namespace.path();
    assert_eq!(
        site.ours("ADD", "a").given(),
        ["10.1.2.2/28", "2001:db8::2/64"]
    );
    assert_eq!(
        kept(&site, "ADD", "b", "web-0").given(),
        ["10.1.2.3/28", "2001:db8::3/64"]
    );
    site.netns = "/some/where".into();
    assert_eq!(
        site.ours("ADD", "c").given(),
        ["10.1.2.4/28", "2001:db8::4/64"]
    );
    site.netns = namespace.path();
    site
}

const LIVING: [(&str, &str); 4] = [
    ("10.1.2.2", "a"),
    ("10.1.2.3", "b"),
    ("2001:db8::2", "a"),
    ("2001:db8::3", "b"),
];

/// A call of CNI or an operator's command, and how many leases there are afterwards.
type Call = (fn(&Site) -> bool, usize);

#[test]
fn lost_leases_of_living_sandboxes_come_back_first() {
    let namespace = Namespace::new();
    let lose: [fn(&Site); 4] = [
        |site| fs::remove_dir_all(site.leases()).unwrap(),
        |site| {
            site.held()
                .iter()
                .for_each(|name| fs::remove_file(site.leases().join(name)).unwrap())
        },
        |site| {
            site.held()
                .iter()
                .for_each(|name| fs::write(site.leases().join(name), "").unwrap())
        },
        // The pod's reservation is the only record of b.
        |site| {
            fs::remove_dir_all(site.leases()).unwrap();
            fs::remove_file(
                site.directory
                    .path()
                    .join(".host-local/net/attachments/b@eth0"),
            )
            .unwrap();
        },
    ];
    let calls: [Call; 4] = [
        (
            |site| site.ours("ADD", "new").given()[0] != "10.1.2.2/28",
            6,
        ),
        (|site| site.ours("DEL", "a").worked, 2),
        (|site| site.ours("CHECK", "b").worked, 4),
        (|site| operator(site, &["doctor", "--fix"]).1, 4),
    ];
    for (way, lose) in lose.iter().enumerate() {
        for (which, (call, left)) in calls.iter().enumerate() {
            let site = inhabited(&namespace);
            lose(&site);
            if way == 2 {
                // The directory's time does not show a change of a file's content, and an address
                // with a file is not given.
                fs::write(site.leases().join("touched"), "").unwrap();
                fs::remove_file(site.leases().join("touched")).unwrap();
            }
            let (told, well) = operator(&site, &["doctor"]);
            let list = operator(&site, &["list"]).0;
            assert!(!well, "{told}");
            for (address, container) in LIVING {
                let words = format!(
                    "lost: no lease keeps {address}, which {container} has, whose namespace {}",
                    site.netns
                );
                assert!(told.contains(&words), "{way}: {words:?} is not in\n{told}");
                let line = list
                    .lines()
                    .find(|line| line.contains(&format!(" {address} ")))
                    .unwrap();
                assert!(
                    line.contains(" lost ") && line.ends_with(&format!(" {container}")),
                    "{line}"
                );
            }
            assert!(call(&site), "{way}, {which}");
            let restored = LIVING.iter().filter(|(address, container)| {
                site.lease(address) == format!("{container}\r\neth0")
            });
            assert_eq!(
                restored.count(),
                if which == 1 { 2 } else { 4 },
                "{way}, {which}"
            );
            let corrupt = if way == 2 && which < 3 { 2 } else { 0 };
            assert_eq!(
                site.held().len(),
                left + corrupt,
                "{way}, {which}: {:?}",
                site.held()
            );
            assert!(
                !operator(&site, &["doctor"]).0.contains("lost:"),
                "{way}, {which}"
            );
        }
    }
}

#[test]
fn doctor_restores_a_lease_that_lost_its_content() {
    let namespace = Namespace::new();
    let site = inhabited(&namespace);
    // The directory's time does not show this change, so no call reads the lease.
    fs::write(site.leases().join("10.1.2.3"), "").unwrap();
    let (told, _) = operator(&site, &["doctor", "--fix"]);
    assert!(
        told.contains("lost: no lease keeps 10.1.2.3") && told.contains("lives - repaired"),
        "{told}"
    );
    assert_eq!(site.lease("10.1.2.3"), "b\r\neth0");
    assert_eq!(
        operator(&site, &["doctor"]),
        ("nothing is wrong\n".into(), true)
    );
    assert!(kept(&site, "DEL", "b", "web-0").worked);
    assert_eq!(kept(&site, "ADD", "d", "web-0").given()[0], "10.1.2.3/28");
}

#[test]
fn lost_lease_behind_a_directory_stays_known() {
    let namespace = Namespace::new();
    let site = inhabited(&namespace);
    fs::remove_file(site.leases().join("10.1.2.2")).unwrap();
    fs::create_dir_all(site.leases().join("10.1.2.2/full")).unwrap();
    for container in ["d", "e"] {
        assert!(site.ours("ADD", container).worked);
    }
    let (told, well) = operator(&site, &["doctor", "--fix"]);
    assert!(
        !well && told.contains("lost: no lease keeps 10.1.2.2, which a has"),
        "{told}"
    );
    fs::remove_dir(site.leases().join("10.1.2.2/full")).unwrap();
    assert!(operator(&site, &["doctor", "--fix"]).1);
    assert_eq!(site.lease("10.1.2.2"), "a\r\neth0");
}

#[test]
fn released_addresses_of_living_sandboxes_stay_free() {
    let namespace = Namespace::new();
    for arguments in [
        ["--ip", "10.1.2.2"],
        ["--ip", "10.1.2.3"],
        ["--container", "a"],
        ["--container", "b"],
    ] {
        let site = inhabited(&namespace);
        let (told, well) = operator(&site, &[&["release"], &arguments[..]].concat());
        assert!(well, "{told}");
        let left = site.held();
        assert!(left.len() < 6, "{left:?}");
        // The index is not exact, so the next call reads all leases.
        fs::remove_file(site.leases().join("last_reserved_ip.0")).unwrap();
        assert!(site.ours("DEL", "unknown").worked);
        assert_eq!(site.held(), left, "{arguments:?}");
    }
}

#[test]
fn leases_of_another_boot_are_not_made_again() {
    let namespace = Namespace::new();
    let site = inhabited(&namespace);
    fs::remove_dir_all(site.leases()).unwrap();
    let boot = site.directory.path().join(".host-local/net/boot");
    fs::remove_file(&boot).unwrap();
    symlink("an-earlier-boot", &boot).unwrap();
    assert_eq!(
        site.ours("ADD", "d").given(),
        ["10.1.2.2/28", "2001:db8::2/64"]
    );
}

/// The daemon sees the node's namespaces under other paths than the plugin.
#[test]
fn reclaim_judges_namespaces_by_the_callers_view() {
    let namespace = Namespace::new();
    let site = inhabited(&namespace);
    fs::remove_dir_all(site.leases()).unwrap();
    let sandboxes = ["a", "b", "c"].map(String::from);
    let reclaimed = reclaim(site.directory.path(), &sandboxes, 0, |netns| {
        netns == "/some/where"
    })
    .unwrap();
    assert_eq!(reclaimed, [] as [std::net::IpAddr; 0]);
    assert_eq!(site.held(), ["10.1.2.4", "2001:db8::4"]);
}

#[test]
fn list_and_doctor_agree_on_what_is_leaked() {
    let namespace = Namespace::new();
    let site = inhabited(&namespace);
    assert!(kept(&site, "DEL", "b", "web-0").worked);
    // A call that was killed before it dropped the attachment leaves this. The lease is kept, and
    // no leak.
    let attachment = site
        .directory
        .path()
        .join(".host-local/net/attachments/b@eth0");
    symlink(
        "addresses=10.1.2.3,2001:db8::3 netns=/some/where",
        attachment,
    )
    .unwrap();
    let runtime = site.directory.path().join("sandboxes");
    fs::write(&runtime, "c\n").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(site.leases().join("10.1.2.2"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let sandboxes = ["--sandboxes", runtime.to_str().unwrap()];
    let own = [
        ("10.1.2.2", "in use"),
        ("10.1.2.3", "kept"),
        ("10.1.2.4", "leaked"),
    ];
    let by_runtime = [
        ("10.1.2.2", "leaked"),
        ("10.1.2.3", "kept"),
        ("10.1.2.4", "leaked"),
    ];
    for (more, states) in [(&[][..], own), (&sandboxes[..], by_runtime)] {
        let list = operator(&site, &[&["list"], more].concat()).0;
        let told = operator(&site, &[&["doctor"], more].concat()).0;
        for (address, state) in states {
            let line = list
                .lines()
                .find(|line| line.contains(&format!(" {address} ")))
                .unwrap();
            assert!(line.contains(&format!(" {state} ")), "{line}");
            assert_eq!(
                told.contains(&format!("leaked: {address} ")),
                state == "leaked",
                "{told}"
            );
        }
    }
}

#[test]
fn full_range_says_how_many_leases_doctor_frees() {
    let namespace = Namespace::new();
    // Addresses that are kept for pods are freed for others, or not.
    for (when, freed) in [("takeOldest", 3), ("fail", 2)] {
        let mut site =
            Site::new(json!({"subnet": "10.1.2.0/29", "reservedIPs": {"whenExhausted": when}}));
        for (container, netns) in [
            ("a", &*namespace.path()),
            ("b", "/gone/1"),
            ("c", "/gone/2"),
        ] {
            site.netns = netns.into();
            assert!(site.ours("ADD", container).worked);
        }
        assert!(kept(&site, "ADD", "d", "web-0").worked);
        site.netns = namespace.path();
        assert!(site.ours("ADD", "e").worked);
        site.version = "1.1.0";
        for command in ["ADD", "STATUS"] {
            let ended = site.ours(command, "f");
            assert!(
                ended
                    .failed()
                    .1
                    .ends_with("no IP addresses available in range set: 10.1.2.1-10.1.2.6")
            );
            let details = ended.answer["details"].as_str().unwrap();
            assert!(
                details.starts_with(&format!("leaked leases in this range set: {freed}, ")),
                "{details}"
            );
            let (_, remedy) = details.split_once("run on this node: ").unwrap();
            if command == "STATUS" {
                for _ in 0..2 {
                    assert!(
                        Command::new("sh")
                            .args(["-c", remedy])
                            .status()
                            .unwrap()
                            .success(),
                        "{remedy}"
                    );
                }
            }
        }
        for number in 0..freed {
            assert!(
                site.ours("ADD", &format!("new{number}")).worked,
                "{when}, {number}"
            );
        }
        assert_eq!(
            site.ours("ADD", "f").answer["details"],
            json!(null),
            "no lease is leaked"
        );
    }
}
