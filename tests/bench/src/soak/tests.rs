use super::*;

#[test]
fn growth_is_found() {
    let hours = |grows: u64| -> Vec<_> {
        let hour = |hour: usize| Hour {
            hour,
            seconds: 1.0,
            resident: 20_000 + grows * hour as u64,
            counts: Counts::default(),
        };
        (0..24).map(hour).collect()
    };
    assert!(judge(&hours(0)).is_ok() && judge(&hours(20)).is_ok());
    assert!(judge(&hours(400)).is_err());
    assert!(judge(&hours(400)[..3]).is_ok(), "too few to say");
}
