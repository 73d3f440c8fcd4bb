use serde_json::json;

use super::*;

#[test]
fn known_words_take_no_memory_and_others_are_kept() {
    for known in KNOWN {
        let word: Word = serde_json::from_value(json!(known)).unwrap();
        assert!(matches!(word.0, Text::Known(_)), "{known}");
        assert_eq!(&*word, known);
    }
    assert_eq!(size_of::<Word>(), size_of::<Box<str>>());
    assert_eq!(&*Word::default(), "");
    let other: Word = serde_json::from_str("\"b\\u00e4r\"").unwrap();
    assert_eq!((&*other, json!(other)), ("bär", json!("bär")));
    assert!(
        other == Word::from("bär".to_owned())
            && other != Word::from("app")
            && Word::from("0") == Word::from("0")
    );
    assert!(serde_json::from_str::<Word>("1").is_err());
    assert!(Word::from("a") < Word::from("app") && Word::from("app") < Word::from("b"));
}
