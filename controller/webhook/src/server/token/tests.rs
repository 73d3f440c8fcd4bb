use super::*;

#[test]
fn refused_tokens_warn_once_a_minute() {
    let (token, start) = (Token::default(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut seen = token.is_missing();
    token.shown(start);
    assert!(!seen.has_changed().unwrap());
    let warned: Vec<_> = [0, 1, 59, 60, 61, 120]
        .into_iter()
        .filter(|at| token.refused(after(*at)))
        .collect();
    assert_eq!(
        (warned, *seen.borrow_and_update()),
        (vec![0, 60, 120], true)
    );
}

#[test]
fn shown_token_ends_the_fault_after_a_minute() {
    let (token, start) = (Token::default(), Instant::now());
    token.refused(start);
    // Another apiserver may still lack the token.
    for (seconds, is_missing) in [(1, true), (59, true), (60, false)] {
        token.shown(start + Duration::from_secs(seconds));
        assert_eq!(*token.is_missing().borrow(), is_missing, "{seconds}");
    }
}
