use super::*;

#[test]
fn ended_pods_stay_twice_as_long_up_to_15_minutes() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let mut ended = Ended::again(None, 1, at(0));
    let mut waits = Vec::new();
    for second in 1..40 {
        waits.push(ended.stays().as_secs());
        ended = Ended::again(Some(ended), 1, at(second));
    }
    assert_eq!(waits[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]);
    assert!(waits[11..].iter().all(|wait| *wait == 900));
    assert_eq!(
        Ended::again(Some(ended), 2, at(40)).times,
        1,
        "another template"
    );
    assert_eq!(
        Ended::again(Some(ended), 1, at(40 + 1800)).times,
        1,
        "half an hour later"
    );
}
