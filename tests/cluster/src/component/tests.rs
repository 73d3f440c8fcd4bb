use super::*;

#[test]
fn a_component_is_read_as_it_is_written() {
    for component in Component::all(3) {
        assert_eq!(
            Component::parse(&component.to_string(), &Component::all(3)).unwrap(),
            component
        );
    }
    assert_eq!(
        Component::parse("kubelet", &Component::all(1)).unwrap(),
        Component::Kubelet(1)
    );
}

#[test]
fn a_component_that_is_not_there_is_refused_with_those_that_are() {
    let refusal = |text, nodes| {
        Component::parse(text, &Component::all(nodes))
            .unwrap_err()
            .to_string()
    };
    assert!(refusal("kubelet", 3).contains("kubelet@node-1"));
    assert!(refusal("kubelet@node-4", 3).contains("kubelet@node-3"));
    assert!(refusal("kubelet", 0).contains("apiserver"));
    assert!(refusal("", 3).contains("etcd"));
}

#[test]
fn a_place_is_read_as_it_is_written() {
    for place in [Place::ControlPlane, Place::Node(1), Place::Node(100)] {
        assert_eq!(place.to_string().parse::<Place>().unwrap(), place);
    }
    for text in ["", "node", "node-", "node-0", "node-x", "host"] {
        assert!(text.parse::<Place>().is_err(), "{text}");
    }
}

#[test]
fn the_audit_log_is_written_on_request_only() {
    for audit in [false, true] {
        let versions = Versions::default();
        let setting = Setting {
            directory: Path::new("/d"),
            versions,
            audit,
            bridged_packets_filtered: true,
        };
        let (_, arguments) = command_line(Component::Apiserver, &setting);
        assert_eq!(
            arguments.contains(&"--audit-log-path=/d/audit.log".to_owned()),
            audit
        );
    }
}
