//! What templates give, and that no value changes their structure.

use super::*;
use crate::document::json;
use crate::flow::expression::{Root, Surroundings};
use proptest::prelude::*;

struct Document(Value);

impl Surroundings for Document {
    fn root(&self, _: &Root) -> Result<Option<&Value>, Reason> {
        Ok(Some(&self.0))
    }
    fn secret(&self, _: &str) -> Option<String> {
        None
    }
    fn uuid(&self) -> String {
        String::new()
    }
    fn now(&self) -> String {
        String::new()
    }
}

fn render(template: &str, document: &str) -> Result<String, String> {
    let document = Document(json::parse(document.as_bytes()).unwrap());
    let template = Template::parse(template).map_err(|error| error.text)?;
    let value = template.render(&Scope::new(&document)).map_err(|reason| reason.0)?;
    Ok(value.to_json())
}

#[test]
fn placeholders_insert_text_in_strings_and_values_elsewhere() {
    let document = r#"{"id":"A-1","total":1.10,"big":12345678901234567890,"o":{"a":[1]},"n":null}"#;
    let cases = [
        (r#"{"orderId": "{{ $.id }}"}"#, r#"{"orderId":"A-1"}"#),
        (r#"{"t": {{ $.total }}, "s": "{{ $.total }}"}"#, r#"{"t":1.10,"s":"1.10"}"#),
        (r#"{{ $.big }}"#, "12345678901234567890"),
        (
            r#"[{{ $.o }}, "{{ $.o }}", {{ $.n }}, "{{ $.n }}"]"#,
            r#"[{"a":[1]},"{\"a\":[1]}",null,"null"]"#,
        ),
        (r#""a {{ $.id }}b{{$.total}} c""#, r#""a A-1b1.10 c""#),
        (r#""{{ default($.x, \"none\") }} {{ default($.x, 'no') }}""#, r#""none no""#),
        (r#""\u007b{ '\u0041' }}""#, r#""A""#),
        (r#""{{ '{{ $.id }}' }}""#, r#""{{ $.id }}""#),
        (
            r#"{"a": {}, "b": [], "c": [true, false, null, -0.50]}"#,
            r#"{"a":{},"b":[],"c":[true,false,null,-0.50]}"#,
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(render(template, document).as_deref(), Ok(expected), "{template}");
    }
    assert_eq!(render(r#"{"a": "{{ $.x }}"}"#, document), Err("nothing is at $.x".into()));
}

#[test]
fn a_template_that_is_not_json_is_refused_at_its_place() {
    let at = |template: &str| Template::parse(template).unwrap_err().at;
    assert_eq!(at("{\n \"a\": $.x\n}"), 8);
    assert_eq!(at("{\"a\": {{ $.x }"), 13);
    assert_eq!(at("{\"a\": \"\\u0041 {{ $..x }}\"}"), 18);
    assert_eq!(at("[1] 2"), 4);
    assert_eq!(at("{\"a\":1,\"a\":2}"), 7);
    assert_eq!(at("{\"{{ $.k }}\":1}"), 1);
    for bad in
        ["", "{", "{{", "{{ }}", "{\"a\" 1}", "[1,]", "\"{{\"", "{a:1}", "{\"a\": {{ $.x }}}}"]
    {
        assert!(Template::parse(bad).is_err(), "{bad}");
    }
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Template::parse(&deep(MAX_EXPRESSION_DEPTH)).is_ok());
    assert!(Template::parse(&deep(MAX_EXPRESSION_DEPTH + 1)).is_err());
}

#[test]
fn what_a_template_builds_is_bounded_in_depth_and_size() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let template = format!("{}{{{{ $ }}}}{}", "[".repeat(40), "]".repeat(40));
    assert!(render(&template, &deep).unwrap_err().contains("128 deep"));
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let template = format!("[{}]", vec!["{{ $ }}"; 70].join(","));
    assert!(render(&template, &large).unwrap_err().contains("would build more than"));
}

#[test]
fn a_text_template_encodes_values_unless_it_is_one_placeholder() {
    let document = Document(json::parse(br#"{"id":"a/b"}"#).unwrap());
    let scope = Scope::new(&document);
    let encode = |text: String| Ok(text.replace('/', "%2F"));
    let render =
        |source: &str| TextTemplate::parse(source).unwrap().render_encoded(&scope, encode).unwrap();
    assert_eq!(render("https://x/{{ $.id }}"), "https://x/a%2Fb");
    assert_eq!(render("{{ $.id }}"), "a/b");
    assert_eq!(render("plain"), "plain");
    assert_eq!(TextTemplate::parse("https://{{ $.id }}").unwrap().start(), ("https://", true));
}

proptest! {
    #[test]
    fn a_value_never_changes_the_structure(text in any::<String>()) {
        let document = format!("{{\"v\":{}}}", Value::String(text.clone()).to_json());
        let json = render(r#"{"a":"<{{ $.v }}>","b":{{ $.v }},"c":[1]}"#, &document).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(
            read,
            serde_json::json!({"a": format!("<{text}>"), "b": text, "c": [1]})
        );
    }

    #[test]
    fn numbers_pass_through_with_their_digits(
        number in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
    ) {
        let document = format!("{{\"v\":{number}}}");
        let rendered = render("[{{ $.v }}, \"{{ $.v }}\"]", &document).unwrap();
        prop_assert_eq!(rendered, format!("[{number},\"{number}\"]"));
    }

    #[test]
    fn no_text_makes_it_panic(text in "(\\{\\{|\\}\\}|[{}\\[\\]:,\"\\\\u0 a$.é]|1){0,24}") {
        let _ = Template::parse(&text);
        let _ = TextTemplate::parse(&text);
    }
}
