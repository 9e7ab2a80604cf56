//! What the scanner accepts and refuses, alone and against `serde_json`.

use super::*;
use proptest::prelude::*;

fn fault(text: &str) -> String {
    let error = validate(text.as_bytes()).unwrap_err();
    assert_eq!(parse(text.as_bytes()).unwrap_err(), error, "check and reader agree");
    error.to_string()
}

#[test]
fn errors_have_line_column_and_what_was_expected() {
    assert_eq!(fault(""), "line 1, column 1: the text is empty, and expected was a JSON document");
    assert_eq!(
        fault(" \n "),
        "line 2, column 2: the text is empty, and expected was a JSON document"
    );
    assert_eq!(fault("{\"a\":}"), "line 1, column 6: expected a value");
    assert_eq!(fault("{\"a\" 1}"), "line 1, column 6: expected ':'");
    assert_eq!(fault("{\n  \"é\": 1,\n}"), "line 3, column 1: expected a key in double quotes");
    assert_eq!(fault("{a:1}"), "line 1, column 2: expected a key in double quotes, or '}'");
    assert_eq!(fault("[1 2]"), "line 1, column 4: expected ',' or ']'");
    assert_eq!(fault("[\"é\" 2]"), "line 1, column 6: expected ',' or ']'");
    assert_eq!(fault("{\"a\":1"), "line 1, column 7: the text ends, and expected was ',' or '}'");
    assert_eq!(
        fault("{\"a\":1}{\"b\":2}"),
        "line 1, column 8: expected the end, after one document"
    );
    assert_eq!(fault("NaN"), "line 1, column 1: expected a value");
    assert_eq!(fault("01"), "line 1, column 2: expected the end, after one document");
    assert_eq!(fault("1."), "line 1, column 3: the text ends, and expected was a digit");
    assert_eq!(fault("-a"), "line 1, column 2: expected a digit");
    assert_eq!(fault("\"a\tb\""), "line 1, column 3: expected no control character in a string");
    assert_eq!(
        fault("\"a"),
        "line 1, column 3: the text ends, and expected was the end of a string, '\"'"
    );
    assert!(fault("\"\\x\"").contains("expected an escape"));
    assert!(fault("\"\\u12g4\"").contains("four hexadecimal digits"));
    assert!(fault("\u{FEFF}{}").contains("byte order mark"));
}

#[test]
fn a_key_that_comes_twice_is_refused_however_it_is_written() {
    assert_eq!(
        fault("{\"total\":1,\"total\":-1}"),
        "line 1, column 12: expected a new key, and this one is in the object already"
    );
    assert!(fault("{\"total\":1,\"tot\\u0061l\":-1}").starts_with("line 1, column 12:"));
    assert!(validate(b"{\"a\":{\"a\":1,\"b\":{\"a\":2}},\"b\":[{\"a\":1},{\"a\":2}]}").is_ok());
    let many: Vec<String> = (0..1000).map(|n| format!("\"k{n}\":{n}")).collect();
    assert!(validate(format!("{{{}}}", many.join(",")).as_bytes()).is_ok());
    assert!(fault(&format!("{{{},\"k7\":0}}", many.join(","))).contains("in the object already"));
}

#[test]
fn lone_surrogates_are_refused_and_pairs_are_read() {
    for bad in
        ["{\"s\":\"\\ud800\"}", "{\"s\":\"\\udc00x\"}", "{\"\\ud800\":1}", "\"\\ud800\\u0061\""]
    {
        assert!(fault(bad).contains("surrogate"), "{bad}");
    }
    assert!(validate(b"\"\xED\xA0\x80\"").unwrap_err().to_string().contains("UTF-8"));
    assert_eq!(parse(b"\"\\ud83d\\ude00\\u00e9\"").unwrap(), Value::String("😀é".into()));
}

#[test]
fn nesting_is_bounded_at_the_edge() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(validate(lists(127).as_bytes()).is_ok());
    assert!(validate(lists(128).as_bytes()).is_ok());
    assert_eq!(fault(&lists(129)), "line 1, column 129: expected at most 128 levels of nesting");
    assert!(validate("[".repeat(100_000).as_bytes()).is_err());
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(validate(objects(128).as_bytes()).is_ok());
    assert!(validate(objects(129).as_bytes()).is_err());
}

#[test]
fn numbers_keys_and_texts_come_out_as_they_went_in() {
    let text = "{\"a\":9007199254740993,\"b\":123456789012345678901234567890,\"c\":0.1000,\
                \"d\":1E400,\"e\":-0,\"f\":9007199254740991.0,\"g\":1.10,\"z\":[],\"y\":{},\
                \"$serde_json::private::Number\":\"12\",\"m\":null,\"t\":true,\"u\":false}";
    assert_eq!(parse(text.as_bytes()).unwrap().to_json(), text);
    assert_eq!(
        parse(b"{\"$serde_json::private::Number\":\"12\"}").unwrap().kind(),
        "an object",
        "a key that serde_json uses inside means nothing here"
    );
}

#[test]
fn any_json_value_may_be_the_document() {
    for good in ["null", "3", "\"x\"", " [ ] ", "true", "{}", "-0.0e-0", "\"\u{7f}\\u0000\""] {
        assert!(validate(good.as_bytes()).is_ok(), "{good}");
    }
    for bad in ["nul", "truex", "[1,]", "{\"a\":1,}", "'x'", "+1", ".5", "1e", "[}", "{]", "\0"] {
        fault(bad);
    }
}

/// Any JSON value that `serde_json` can hold.
fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..20)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_json_writes_is_read_the_same(value in json_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(validate(text.as_bytes()), Ok(()));
            prop_assert_eq!(parse(text.as_bytes()).unwrap().to_json(), value.to_string());
        }
    }

    #[test]
    fn what_is_accepted_serde_json_accepts_too(
        text in "[\\[\\]{}\",:0-9eE.+\\-\\\\u tfnrulase\n]{0,24}",
    ) {
        let ours = validate(text.as_bytes());
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        if ours.is_ok() {
            prop_assert!(theirs.is_ok(), "{}", text);
        } else if theirs.is_ok() {
            let stricter = matches!(
                ours.as_ref().unwrap_err().fault,
                JsonFault::DuplicateKey | JsonFault::LoneSurrogate
            );
            prop_assert!(stricter, "{} {:?}", text, ours);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = validate(&bytes);
        let _ = parse(&bytes);
    }

    #[test]
    fn a_changed_byte_is_read_or_refused(value in json_value(), at: prop::sample::Index, byte: u8) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = parse(&bytes) {
            prop_assert_eq!(parse(read.to_json().as_bytes()).unwrap(), read);
        }
    }
}
