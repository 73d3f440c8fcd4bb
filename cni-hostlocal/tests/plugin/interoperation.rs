//! One directory, used by the reference plugin and by Berth's.

use std::{collections::HashMap, fs, process::Command};

use serde_json::json;

use crate::tool::{OURS, REFERENCE, Site, operator};

/// Calls of both in any order: each sees the writes of the other, no address is given twice and
/// none is lost.
#[test]
fn both_work_on_what_the_other_wrote() {
    let site =
        Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/27"}], [{"subnet": "2001:db8::/64"}]]}));
    let mut random = fastrand::Rng::with_seed(7);
    let mut held: HashMap<String, Vec<String>> = HashMap::new();
    for round in 0..400 {
        let program = if random.bool() { OURS } else { REFERENCE };
        let container = format!("c{}", random.u8(0..20));
        match random.u8(0..5) {
            0..=1 => {
                let ended = site.call(program, "ADD", &container, "", &json!({}));
                assert_eq!(
                    ended.worked,
                    !held.contains_key(&container),
                    "round {round}: {}",
                    ended.answer
                );
                if ended.worked {
                    held.insert(
                        container,
                        ended
                            .given()
                            .iter()
                            .map(|cidr| cidr.split('/').next().unwrap().into())
                            .collect(),
                    );
                }
            }
            2..=3 => {
                assert!(site.call(program, "DEL", &container, "", &json!({})).worked);
                held.remove(&container);
            }
            _ => {
                let ended = site.call(program, "CHECK", &container, "", &json!({}));
                assert_eq!(
                    ended.worked,
                    held.contains_key(&container),
                    "round {round}: {}",
                    ended.answer
                );
            }
        }
        let mut addresses: Vec<_> = held.values().flatten().cloned().collect();
        addresses.sort();
        assert_eq!(site.held(), addresses, "round {round}");
    }
}

#[test]
fn both_at_once_give_no_address_twice() {
    let site = Site::new(json!({"ranges": [[{"subnet": "10.1.0.0/20"}]]}));
    let mut given: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let site = &site;
                scope.spawn(move || {
                    let program = if caller % 2 == 0 { OURS } else { REFERENCE };
                    let add = |number| {
                        site.call(
                            program,
                            "ADD",
                            &format!("c{caller}-{number}"),
                            "",
                            &json!({}),
                        )
                        .given()
                        .remove(0)
                    };
                    (0..30).map(add).collect::<Vec<_>>()
                })
            })
            .collect();
        for caller in callers {
            given.extend(caller.join().unwrap());
        }
    });
    assert_eq!(given.len(), 240);
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 240, "an address was given twice");
    // And each releases the addresses that the other gave.
    for caller in 0..8 {
        for number in 0..30 {
            let program = if caller % 2 == 1 { OURS } else { REFERENCE };
            assert!(
                site.call(
                    program,
                    "DEL",
                    &format!("c{caller}-{number}"),
                    "",
                    &json!({})
                )
                .worked
            );
        }
    }
    assert!(site.held().is_empty());
    assert_eq!(
        operator(&site, &["doctor"]),
        ("nothing is wrong\n".into(), true)
    );
}

/// As long as no other program writes there, a call reads no lease but its own, for any number of
/// leases.
#[test]
fn other_leases_are_not_read() {
    let site = Site::new(json!({"ranges": [[{"subnet": "10.1.0.0/16"}]]}));
    fs::create_dir_all(site.leases()).unwrap();
    for number in 2..300 {
        fs::write(
            site.leases()
                .join(format!("10.1.{}.{}", number / 250, number % 250)),
            format!("x{number}\r\neth0"),
        )
        .unwrap();
    }
    site.ours("ADD", "first");
    for (command, container) in [
        ("ADD", "a"),
        ("CHECK", "a"),
        ("DEL", "a"),
        ("DEL", "a"),
        ("DEL", "unknown"),
    ] {
        let trace = site.directory.path().join("trace");
        let script = format!(
            "exec strace -f -o {} -e trace=file,getdents64 {OURS}",
            trace.display()
        );
        let mut child = Command::new("sh");
        child
            .args(["-c", &script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs([
                ("CNI_COMMAND", command),
                ("CNI_CONTAINERID", container),
                ("CNI_IFNAME", "eth0"),
                ("CNI_NETNS", "/some/where"),
                ("CNI_PATH", "/x"),
            ]);
        let mut child = child
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(
            &mut child.stdin.take().unwrap(),
            site.config().to_string().as_bytes(),
        )
        .unwrap();
        let ended = child.wait().unwrap();
        let Ok(trace) = fs::read_to_string(&trace) else {
            return println!("there is no strace here");
        };
        assert!(ended.success(), "{command} {container}");
        assert!(
            !trace.contains("getdents"),
            "{command} {container}: {trace}"
        );
        let others = trace
            .lines()
            .filter(|line| line.contains("/net/10.1.") && line.contains("openat"))
            .count();
        assert!(others <= 1, "{command} {container}: {trace}");
    }
}
