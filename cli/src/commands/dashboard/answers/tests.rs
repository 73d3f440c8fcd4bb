use super::*;

#[test]
fn data_has_no_characters_that_hide_text() {
    let data = json!({"a\u{202e}": ["x\u{1b}[2J", {"b": "two\nlines"}, 1, null]});
    let expected = json!({"a\\u{202e}": ["x\\u{1b}[2J", {"b": "two\nlines"}, 1, null]});
    assert_eq!(cleaned(data), expected);
}

#[test]
fn refusal_keeps_the_status_of_the_apiserver() {
    let api = |code: u16| -> anyhow::Error {
        let status = json!({"code": code, "message": "no", "reason": "R", "status": "Failure"});
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())).into()
    };
    let usage = || WrongUsage("write TYPE/NAME".to_owned()).into();
    // 401 would say that the token of the page is wrong.
    let cases = [
        (api(403), 403),
        (api(404), 404),
        (api(409), 409),
        (api(401), 502),
        (usage(), 400),
    ];
    for (error, expected) in cases {
        assert_eq!(Refused::from(error).status.as_u16(), expected);
    }
    assert_eq!(
        Refused::from(anyhow::anyhow!("no answer")).status.as_u16(),
        502
    );
}
