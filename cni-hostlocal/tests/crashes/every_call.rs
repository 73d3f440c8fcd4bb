//! The program killed before and after every single system call that it makes.
//!
//! It needs no hook for that: it waits for its input first, and meanwhile a tracer attaches to it.

use std::{fs, io::Write as _, path::Path, process::Command};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::plugin::{Asked, Namespace, Plugin, asked};

/// Runs a call and kills it at its `stop`th stop at a system call. `false`: it had ended before.
fn run_until(plugin: &Plugin, asked: &Asked, stop: usize) -> bool {
    let (mut child, input) = plugin.start(asked);
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    // It waits for its input, so it has written nothing yet.
    ptrace::seize(
        pid,
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL,
    )
    .unwrap();
    ptrace::interrupt(pid).unwrap();
    waitpid(pid, None).unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let mut stops = 0;
    loop {
        ptrace::syscall(pid, None::<Signal>).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => stops += 1,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return false,
            _ => {}
        }
        if stops == stop {
            child.kill().unwrap();
            while !matches!(
                waitpid(pid, None),
                Ok(WaitStatus::Signaled(..) | WaitStatus::Exited(..)) | Err(_)
            ) {}
            return true;
        }
    }
}

fn copy(from: &Path, to: &Path) {
    _ = fs::remove_dir_all(to);
    let copied = Command::new("cp")
        .arg("--archive")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(copied.success());
}

/// A call to try, and the state that must follow.
struct Scenario {
    name: &'static str,
    /// The calls before the tested one.
    before: Vec<Asked>,
    /// The call that is killed.
    call: Asked,
    /// The addresses that the pod's next sandbox must get, if they are kept for it.
    kept: Option<&'static str>,
    /// Seconds by which reservations are made older first.
    age: u64,
    /// The boot's id to record before: another one, or none at all.
    boot: Option<&'static str>,
    /// Whether all leases are deleted before.
    lost: bool,
}

fn scenarios() -> Vec<Scenario> {
    let web = Some("web-0");
    let calls = |calls: &[(&'static str, &str, Option<&str>)]| -> Vec<Asked> {
        calls
            .iter()
            .map(|(command, container, pod)| asked(command, container, *pod))
            .collect()
    };
    let scenario = |name, before: Vec<Asked>, call| Scenario {
        name,
        before,
        call,
        kept: None,
        age: 0,
        boot: None,
        lost: false,
    };
    let released = [("ADD", "s1", web), ("DEL", "s1", web)];
    let mut full = calls(&released);
    full.extend((0..11).map(|number| asked("ADD", &format!("full{number}"), None)));
    let gc = |valid: &[&str]| Asked {
        valid: valid.iter().map(ToString::to_string).collect(),
        ..asked("GC", "", None)
    };
    vec![
        scenario("ADD", vec![], asked("ADD", "new", None)),
        scenario(
            "DEL",
            calls(&[("ADD", "old", None)]),
            asked("DEL", "old", None),
        ),
        scenario(
            "the first ADD of a kept pod",
            vec![],
            asked("ADD", "new", web),
        ),
        Scenario {
            kept: Some("10.1.2.3"),
            ..scenario(
                "DEL of a kept pod",
                calls(&released[..1]),
                asked("DEL", "s1", web),
            )
        },
        Scenario {
            kept: Some("10.1.2.3"),
            ..scenario(
                "ADD of a pod that comes back",
                calls(&released),
                asked("ADD", "s2", web),
            )
        },
        Scenario {
            age: 700,
            ..scenario(
                "ADD when a reservation is over",
                calls(&released),
                asked("ADD", "new", None),
            )
        },
        scenario(
            "ADD when the oldest gives way",
            full,
            asked("ADD", "new", None),
        ),
        Scenario {
            boot: Some(""),
            ..scenario("the first call", vec![], asked("ADD", "new", None))
        },
        Scenario {
            boot: Some("earlier"),
            kept: Some("10.1.2.3"),
            ..scenario(
                "the first call of a boot",
                calls(&released[..1]),
                asked("ADD", "s2", web),
            )
        },
        Scenario {
            lost: true,
            ..scenario(
                "ADD when leases are lost",
                calls(&released[..1]),
                asked("ADD", "new", None),
            )
        },
        Scenario {
            kept: Some("10.1.2.4"),
            ..scenario(
                "GC",
                calls(&[("ADD", "gone", None), ("ADD", "s1", web)]),
                gc(&["neighbour"]),
            )
        },
    ]
}

/// Makes reservations older, or records another boot's id.
fn set_scene(plugin: &Plugin, scenario: &Scenario) {
    let state = plugin.data_dir.join(".host-local/net");
    let replace = |path: &Path, target: &str| {
        _ = fs::remove_file(path);
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    if let Some(boot) = scenario.boot {
        if boot.is_empty() {
            fs::remove_dir_all(&state).unwrap();
        } else {
            replace(&state.join("boot"), boot);
        }
    }
    if scenario.lost {
        fs::remove_dir_all(plugin.leases()).unwrap();
    }
    if scenario.age > 0 {
        let path = state.join("pods/ns@web-0@eth0");
        let line = fs::read_link(&path)
            .unwrap()
            .into_os_string()
            .into_string()
            .unwrap();
        let (rest, released) = line.rsplit_once("released=").unwrap();
        replace(
            &path,
            &format!(
                "{rest}released={}",
                released.parse::<u64>().unwrap() - scenario.age
            ),
        );
        let bucket = crate::plugin::names(&state.join("released")).remove(0);
        let older = format!("{:012}", bucket.parse::<u64>().unwrap() - scenario.age);
        fs::rename(
            state.join("released").join(bucket),
            state.join("released").join(&older),
        )
        .unwrap();
        replace(&state.join("due"), older.trim_start_matches('0'));
    }
}

#[test]
fn a_call_killed_anywhere_leaves_the_old_or_the_new() {
    let root = tempfile::tempdir().unwrap();
    let namespace = Namespace::new();
    let mut trials = 0;
    for scenario in scenarios() {
        let template = Plugin::new(&root.path().join("template"), &namespace.path());
        _ = fs::remove_dir_all(&template.data_dir);
        template.call(&asked("ADD", "neighbour", None)).unwrap();
        for before in &scenario.before {
            template.call(before).unwrap();
        }
        set_scene(&template, &scenario);
        let plugin = Plugin {
            data_dir: root.path().join("trial"),
            ..template.clone()
        };
        let mut stop = 0;
        loop {
            stop += 1;
            copy(&template.data_dir, &plugin.data_dir);
            let killed = run_until(&plugin, &scenario.call, stop);
            judge(&plugin, &scenario, stop);
            trials += 1;
            if !killed {
                break;
            }
        }
        println!("{}: killed at {} system calls", scenario.name, stop / 2);
        assert!(stop > 40, "{}: it was never traced", scenario.name);
    }
    println!("{trials} trials");
}

fn judge(plugin: &Plugin, scenario: &Scenario, stop: usize) {
    let at = format!("{}, stop {stop}", scenario.name);
    assert_eq!(plugin.malformed(), Vec::<String>::new(), "{at}");
    let holders = plugin.holders();
    // Another boot has no neighbours left, and lost leases are back when a call has ended.
    if scenario.boot != Some("earlier") && !scenario.lost {
        assert_eq!(
            holders.get("10.1.2.2").map(String::as_str),
            Some("neighbour"),
            "{at}"
        );
    }
    // The runtime deletes the attachments whose call failed, and repeats a call that it got no
    // answer to.
    let again = match scenario.call.command {
        "ADD" => asked(
            "DEL",
            &scenario.call.container,
            scenario.call.pod.as_deref(),
        ),
        _ => scenario.call.clone(),
    };
    plugin
        .call(&again)
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    if scenario.lost {
        let expected = ["10.1.2.2", "10.1.2.3"]
            .map(|address| plugin.holders().get(address).cloned().unwrap_or_default());
        assert_eq!(expected, ["neighbour", "s1"], "{at}");
    }
    let mut known: Vec<String> = plugin
        .holders()
        .into_values()
        .filter(|id| id.starts_with("full"))
        .collect();
    known.extend(
        ["neighbour".into(), "s1".into()]
            .into_iter()
            .take(1 + usize::from(scenario.lost)),
    );
    let kept = plugin.kept();
    for (address, container) in plugin.holders() {
        assert!(
            known.contains(&container) || kept.contains(&address),
            "{at}: {address} is leaked by {container}"
        );
    }
    // The next container gets a free address, and a pod that comes back gets its own again.
    let next = plugin.call(&asked("ADD", "next", None));
    if let Some(address) = scenario.kept {
        let back = plugin
            .call(&asked("ADD", "back", Some("web-0")))
            .unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(
            back.contains(&address.to_owned()),
            "{at}: {back:?} instead of {address}"
        );
        assert!(
            next.is_ok_and(|next| !next.contains(&address.to_owned())),
            "{at}"
        );
        known.push("back".into());
    }
    known.push("next".into());
    plugin.repair(&known.iter().collect::<Vec<_>>());
    let (told, well) = plugin.doctor(&[]);
    assert!(well, "{at}: {told}");
}
