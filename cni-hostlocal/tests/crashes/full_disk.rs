//! A disk with space for a number of files, one more each time.

use std::{collections::BTreeSet, fs, thread};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

use crate::plugin::{Namespace, Plugin, asked};

#[test]
fn a_full_disk_leaves_the_old_or_the_new() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("disk");
    fs::create_dir(&path).unwrap();
    // Mounts of one thread, which disappear with it.
    let tried = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let namespace = Namespace::new();
        let mut failed = 0;
        for files in 2..60 {
            let options = format!("nr_inodes={files},size=1m");
            mount(
                Some("tmpfs"),
                &path,
                Some("tmpfs"),
                MsFlags::empty(),
                Some(options.as_str()),
            )
            .unwrap();
            failed += fill(
                &Plugin::new(&path.join("networks"), &namespace.path()),
                files,
            );
            umount2(&path, MntFlags::MNT_DETACH).unwrap();
        }
        failed
    });
    let failed = tried.join().unwrap();
    assert!(failed > 100, "the disk was never full: {failed}");
}

/// Calls ADD and DEL until nothing works any more. Returns the number of failed calls.
fn fill(plugin: &Plugin, files: usize) -> usize {
    let mut failed = 0;
    let mut held: Vec<(String, Option<&str>, Vec<String>)> = Vec::new();
    for round in 0..6 {
        let pod = ["web-0", "web-1"].get(round % 3).copied();
        let container = format!("c{round}");
        match plugin.call(&asked("ADD", &container, pod)) {
            Ok(given) => held.push((container, pod, given)),
            Err(_) => {
                failed += 1;
                if plugin.leases().join("lock").exists() {
                    // DEL needs no space.
                    _ = plugin.call(&asked("DEL", &container, pod));
                }
            }
        }
        if round % 2 == 1 && !held.is_empty() {
            let (container, pod, _) = held.remove(0);
            plugin
                .call(&asked("DEL", &container, pod))
                .unwrap_or_else(|error| panic!("{files} files: {error}"));
        }
        assert_eq!(
            plugin.malformed(),
            Vec::<String>::new(),
            "{files} files, round {round}"
        );
        let holders = plugin.holders();
        let kept = plugin.kept();
        let mut all = BTreeSet::new();
        for (container, _, given) in &held {
            for address in given {
                assert_eq!(
                    holders.get(address),
                    Some(container),
                    "{files} files, round {round}"
                );
                assert!(
                    all.insert(address.clone()),
                    "{files} files: {address} twice"
                );
            }
        }
        for (address, container) in &holders {
            assert!(
                all.contains(address) || kept.contains(address),
                "{files} files, round {round}: {address} is leaked by {container}"
            );
        }
    }
    failed
}
