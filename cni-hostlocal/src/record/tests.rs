use super::*;
use proptest::prelude::*;

#[test]
fn a_reservation_without_an_owner_is_none() {
    let of = |more: &str| Reservation::parse(&format!("pod=ns/web-0 addresses=10.0.0.2 {more}"));
    assert_eq!(
        of("container=one interface=eth0 before=").map(|found| found.before),
        Some(None)
    );
    for more in [
        "container=one",
        "container=one interface=",
        "container=%20 interface=eth0",
        "interface=eth0",
    ] {
        assert_eq!(of(more), None, "{more}");
    }
}

proptest! {
    #[test]
    fn a_line_is_read_as_it_was_written(
        namespace in "[a-z0-9-]{1,63}", name in "[a-z0-9.-]{1,80}", container in "[a-zA-Z0-9_.-]{1,64}",
        interface in "[^\\s/:]{1,15}", before in proptest::option::of("[a-z0-9]{1,64}"), netns in "\\PC{0,40}",
        minutes: u32, released: Option<u64>, addresses: Vec<IpAddr>,
    ) {
        let pod = Pod { namespace, name };
        let owner = Owner { container, interface };
        let reservation = Reservation { pod: pod.clone(), addresses: addresses.clone(), owner, before, netns: netns.clone(), minutes, released };
        prop_assert_eq!(Reservation::parse(&reservation.line()), Some(reservation));
        let attachment = Attachment { addresses, netns, pod: Some(pod), minutes };
        prop_assert_eq!(Attachment::parse(&attachment.line()), attachment);
    }

    #[test]
    fn parsing_any_line_never_panics(line in "\\PC{0,80}") {
        Attachment::parse(&line);
        Reservation::parse(&line);
        Owner::parse(line.as_bytes());
    }
}
