use super::*;

#[test]
fn fields_are_read() {
    let status = "Name:\tx\nVmHWM:\t   12345 kB\nVmRSS:\t    9999 kB\n";
    assert_eq!(
        (field(status, "VmRSS:"), field(status, "VmHWM:")),
        (Some(9999), Some(12345))
    );
    assert_eq!(field(status, "VmSwap:"), None);
}
