//! The operators' commands.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    process::Command,
};

use serde_json::json;

use crate::tool::{OURS, Site, names, operator};

#[test]
fn doctor_tells_and_repairs_and_list_and_release_show_and_free() {
    let site =
        Site::new(json!({"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8::/64"}]]}));
    assert_eq!(
        operator(&site, &["doctor"]),
        ("nothing is wrong\n".into(), true)
    );
    site.reference("ADD", "alive");
    site.ours("ADD", "gone");
    let leases = site.leases();
    for (name, content) in [
        ("10.1.2.50", ""),
        ("10.1.2.51", "\u{1}\u{2}"),
        ("2001:DB8::99", "x\r\neth0"),
        ("notes", "hello"),
        ("last_reserved_ip.7", ""),
    ] {
        fs::write(leases.join(name), content).unwrap();
    }
    let (told, well) = operator(&site, &["doctor"]);
    assert!(!well);
    for words in [
        "corrupt: the lease of 10.1.2.50 names no container",
        "corrupt: the lease of 10.1.2.51 names no container",
        "duplicate: \"2001:DB8::99\" is another name of 2001:db8::99",
        "/net/notes\" is no file of host-local (left alone)",
        "corrupt: last_reserved_ip.7 holds no address",
        "leaked: 10.1.2.3 is leased to gone, whose namespace /some/where has gone",
        "7 found, 6 to repair: /",
    ] {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
    let (repaired, well) = operator(&site, &["doctor", "--fix"]);
    assert!(well, "{repaired}");
    assert_eq!(
        names(&leases),
        [
            "10.1.2.2",
            "2001:db8::2",
            "last_reserved_ip.0",
            "last_reserved_ip.1",
            "lock",
            "notes"
        ]
    );
    let (told, well) = operator(&site, &["doctor"]);
    assert!(well && told.contains("nothing is left to repair"), "{told}");

    let list = operator(&site, &["list", "--json"]).0;
    let lines: Vec<serde_json::Value> = list
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({"network": "net", "address": "10.1.2.2", "state": "in use", "container": "alive", "interface": "eth0"})
    );
    assert_eq!(
        operator(&site, &["release", "--ip", "10.1.2.2"]),
        ("1 released\n".into(), true)
    );
    assert_eq!(
        operator(&site, &["release", "--container", "alive"]),
        ("1 released\n".into(), true)
    );
    assert_eq!(
        operator(&site, &["release", "--container", "alive"]),
        ("0 released\n".into(), false)
    );
    assert_eq!(site.held(), ["notes"]);
    assert!(site.ours("ADD", "alive").worked, "nothing of it is left");
}

#[test]
fn foreign_entries_block_only_their_own_address() {
    let mut site = Site::new(json!({"subnet": "10.1.2.0/28"}));
    site.version = "1.1.0";
    assert_eq!(site.ours("ADD", "a").given(), ["10.1.2.2/28"]);
    let path = |name: &str| site.leases().join(name);
    for directory in ["10.1.2.3", "10.1.2.4/full", "last_reserved_ip.7"] {
        fs::create_dir_all(path(directory)).unwrap();
    }
    fs::write(path("a-lease"), "a\r\neth0").unwrap();
    for (link, target) in [
        ("10.1.2.5", "/nowhere"),
        ("10.1.2.6", "10.1.2.6"),
        ("10.1.2.7", "a-lease"),
    ] {
        symlink(target, path(link)).unwrap();
    }
    for pipe in ["10.1.2.8", "last_reserved_ip.8"] {
        assert!(
            Command::new("mkfifo")
                .arg(path(pipe))
                .status()
                .unwrap()
                .success()
        );
    }
    let _socket = UnixListener::bind(path("10.1.2.9")).unwrap();

    let asked = site.call(OURS, "ADD", "b", "IP=10.1.2.4", &json!({}));
    assert!(
        asked.failed().1.contains("10.1.2.4 is not available"),
        "{}",
        asked.answer
    );
    assert_eq!(site.ours("ADD", "b").given(), ["10.1.2.10/28"]);
    for (command, container) in [("CHECK", "b"), ("DEL", "a"), ("STATUS", ""), ("GC", "")] {
        let ended = site.ours(command, container);
        assert!(ended.worked, "{command}: {}", ended.answer);
    }
    let taken = [
        "10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6", "10.1.2.7", "10.1.2.8", "10.1.2.9",
    ];
    let (list, (told, well)) = (operator(&site, &["list"]).0, operator(&site, &["doctor"]));
    assert!(!well, "{told}");
    for address in taken {
        let shown = list
            .lines()
            .find(|line| line.contains(&format!(" {address} ")))
            .unwrap();
        assert!(
            shown.contains(" foreign ") && shown.ends_with(&format!("{:?}", path(address))),
            "{shown}"
        );
        let kind = if address == "10.1.2.3" {
            "an empty directory"
        } else {
            "no file"
        };
        let words = format!(
            "foreign: {:?} is {kind}, so {address} is given to no pod",
            path(address)
        );
        assert!(told.contains(&words), "{told}");
        let (told, well) = operator(&site, &["release", "--ip", address]);
        assert!(!well && told.contains(&words), "{told}");
    }
    let (told, well) = operator(&site, &["doctor", "--fix"]);
    assert!(
        !well && told.contains("10 found, 6 left to repair by hand"),
        "{told}"
    );
    assert!(!path("10.1.2.3").exists() && path("10.1.2.4/full").exists());
    for _ in 0..2 {
        for command in told
            .lines()
            .filter_map(|line| Some(line.split_once("remove it: ")?.1))
        {
            assert!(
                Command::new("sh")
                    .args(["-c", command])
                    .status()
                    .unwrap()
                    .success(),
                "{command}"
            );
        }
    }
    let (told, well) = operator(&site, &["doctor"]);
    assert!(
        well && told.contains("3 found, nothing is left to repair"),
        "{told}"
    );
}

#[test]
fn io_errors_name_their_path() {
    for obstacle in [
        "net/lock",
        ".host-local",
        ".host-local/net",
        ".host-local/net/attachments",
        ".host-local/net/new",
    ] {
        let site = Site::new(json!({"subnet": "10.1.2.0/28"}));
        site.ours("ADD", "a").given();
        let path = site.directory.path().join(obstacle);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
            fs::write(&path, "").unwrap();
        } else {
            _ = fs::remove_file(&path);
            fs::create_dir(&path).unwrap();
        }
        let ended = site.ours("ADD", "b");
        assert!(
            ended.failed().1.contains(&path.display().to_string()),
            "{}",
            ended.answer
        );
    }
}

#[test]
fn doctor_believes_the_runtime() {
    let site = Site::new(json!({"subnet": "10.1.2.0/24"}));
    for container in ["a", "b", "young"] {
        site.reference("ADD", container);
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for address in ["10.1.2.2", "10.1.2.3"] {
        fs::File::open(site.leases().join(address))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    let sandboxes = site.directory.path().join("sandboxes");
    fs::write(&sandboxes, "a\n").unwrap();
    let sandboxes = sandboxes.to_str().unwrap();
    let (told, _) = operator(&site, &["doctor", "--fix", "--sandboxes", sandboxes]);
    assert!(
        told.contains("10.1.2.3 is leased to b, which the runtime does not know - repaired"),
        "{told}"
    );
    assert_eq!(site.held(), ["10.1.2.2", "10.1.2.4"]);
}

#[test]
fn the_program_is_static_and_lies_at_any_address() {
    let program = fs::read(OURS).unwrap();
    let number = |at: usize, length: usize| {
        program[at..at + length]
            .iter()
            .rev()
            .fold(0, |n, b| n << 8 | usize::from(*b))
    };
    // The ELF header's type: 2 is a program at a fixed address, 3 one at any address.
    assert_eq!(number(16, 2), 3);
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    // A program header of type 3 names a loader that must exist: images contain nothing but the
    // program.
    let types: Vec<usize> = (0..count)
        .map(|index| number(headers + index * size, 4))
        .collect();
    assert!(types.contains(&1) && !types.contains(&3), "{types:?}");
}

#[test]
fn what_is_not_understood_is_said() {
    let site = Site::new(json!({"subnet": "10.1.2.0/24"}));
    for (arguments, words) in [
        (vec!["lst"], "there is no command \"lst\""),
        (
            vec!["list", "--nework", "x"],
            "\"--nework\" is not understood",
        ),
        (vec!["release"], "name what to release"),
        (vec!["release", "--ip", "x"], "\"x\" is no address"),
        (vec!["release", "--pod", "x"], "\"x\" is not NAMESPACE/NAME"),
    ] {
        let (told, well) = operator(&site, &arguments);
        assert!(!well && told.contains(words), "{told}");
    }
    assert!(operator(&site, &["help"]).1);
}
