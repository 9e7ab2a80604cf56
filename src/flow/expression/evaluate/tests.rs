//! What expressions give.

use super::*;
use crate::document::json;
use proptest::prelude::*;

struct Fixed {
    document: Value,
    context: Value,
}

impl Surroundings for Fixed {
    fn root(&self, root: &Root) -> Result<Option<&Value>, Reason> {
        Ok(match root {
            Root::Document | Root::Input => Some(&self.document),
            Root::Context => Some(&self.context),
            Root::Step(name) => (name == "first").then_some(&self.document),
        })
    }
    fn secret(&self, name: &str) -> Option<String> {
        (name == "KEY").then(|| "s3cret".to_owned())
    }
    fn uuid(&self) -> String {
        "a-uuid".to_owned()
    }
    fn now(&self) -> String {
        "2026-08-09T14:02:11.250Z".to_owned()
    }
}

const DOCUMENT: &str = r#"{"total":42,"price":1.10,"id":"A-1","list":[1,2,3],"no":null,
    "yes":true,"big":12345678901234567890,"huge":1e400,"o":{"a":1},"xml":"007","empty":""}"#;

fn value(source: &str) -> Result<String, String> {
    let fixed = Fixed {
        document: json::parse(DOCUMENT.as_bytes()).unwrap(),
        context: json::parse(br#"{"tenant":"acme","attempt":null}"#).unwrap(),
    };
    let expression = Expression::parse(source).map_err(|error| format!("parse: {error}"))?;
    let scope = Scope::new(&fixed);
    expression.evaluate(&scope).map(|value| value.to_json()).map_err(|reason| reason.0)
}

#[track_caller]
fn gives(source: &str, json: &str) {
    assert_eq!(value(source).as_deref(), Ok(json), "{source}");
}

#[track_caller]
fn fails(source: &str, reason: &str) {
    assert_eq!(value(source), Err(reason.to_owned()), "{source}");
}

#[test]
fn precedence_and_association() {
    gives("1 + 2 * 3", "7");
    gives("(1 + 2) * 3", "9");
    gives("10 - 3 - 2", "5");
    gives("100 / 10 / 2", "5");
    gives("7 % 4 + 1", "4");
    gives("-2 * -3", "6");
    gives("-$.total + 2", "-40");
    gives("2 - -1", "3");
    gives("true || false && false", "true");
    gives("(true || false) && false", "false");
    gives("!true || true", "true");
    gives("!(true || true)", "false");
    gives("1 + 1 == 2 && 3 > 2", "true");
}

#[test]
fn numbers_keep_their_digits_and_are_exact() {
    gives("$.price", "1.10");
    gives("$.big", "12345678901234567890");
    gives("$.huge", "1e400");
    gives("0.1 + 0.2 == 0.3", "true");
    gives("$.price * 3", "3.3");
    gives("$.big + 1", "12345678901234567891");
    gives("round(10 / 3, 2)", "3.33");
    gives("round(2 * 10 / 3, 2)", "6.67");
    gives("round(2.345, 2)", "2.35");
    gives("$.price == 1.1", "true");
    fails("$.huge > 1", "a number with more than 28 digits cannot be compared or computed with");
    fails("10 / 3", "the quotient needs more than 28 digits; round(a / b, n) divides to n places");
    fails("1 / 0", "division by zero");
    fails("1 + $.id", "+ needs a number, and there is a text");
}

#[test]
fn a_path_that_leads_nowhere_is_null_only_where_that_is_asked_for() {
    gives("$.missing == null", "true");
    gives("$.missing != 1", "true");
    gives("$.no == null", "true");
    gives("exists($.missing)", "false");
    gives("exists($.no)", "true");
    gives("default($.missing, 5)", "5");
    gives("default($.no, 5)", "5");
    gives("default($.total, 5)", "42");
    gives("$.missing in [null]", "true");
    gives("steps.second.a == null", "true");
    gives("ctx.attempt", "null");
    fails("$.missing", "nothing is at $.missing");
    fails("$.o[\"b c\"] + 1", "nothing is at $.o[\"b c\"]");
    fails("steps.second.a", "nothing is at steps.second.a");
    fails("!$.missing", "nothing is at $.missing");
    fails("$.missing < 1", "null and a number have no order");
    fails("length($.missing)", "nothing is at $.missing");
}

#[test]
fn values_of_two_kinds_are_not_equal_and_have_no_order() {
    gives("1 == \"1\"", "false");
    gives("$.o == $.o", "true");
    gives("$.list == [1.0, 2, 3]", "true");
    gives("$.list == [1, 2]", "false");
    gives("\"a\" < \"b\"", "true");
    gives("2 in $.list", "true");
    gives("\"2\" in $.list", "false");
    fails("1 < \"2\"", "a number and a text have no order");
    fails("true < false", "a boolean and a boolean have no order");
    fails("1 in $.o", "in needs a list on its right, and there is an object");
    fails("1 && true", "&& needs true or false, and there is a number");
}

#[test]
fn functions() {
    gives("length(\"äö\")", "2");
    gives("length($.list) + length($.o)", "4");
    gives("lower(\"ÄB\") == \"äb\" && upper('a') == 'A'", "true");
    gives("trim('  a ')", "\"a\"");
    gives("contains($.id, '-') && starts_with($.id, 'A') && ends_with($.id, '1')", "true");
    gives("matches($.id, '^[A-Z]-[0-9]+$')", "true");
    gives("matches($.id, '^[0-9]')", "false");
    gives("string($.price)", "\"1.10\"");
    gives("string($.o)", "\"{\\\"a\\\":1}\"");
    gives("number($.xml) + 1", "8");
    gives("join($.list, ', ')", "\"1, 2, 3\"");
    gives("join([], ',')", "\"\"");
    gives("json($.list)", "\"[1,2,3]\"");
    gives("uuid()", "\"a-uuid\"");
    gives("now()", "\"2026-08-09T14:02:11.250Z\"");
    gives("secret.KEY", "\"s3cret\"");
    gives("steps.first.id", "\"A-1\"");
    gives("input.id", "\"A-1\"");
    gives("ctx.tenant", "\"acme\"");
    fails("lower($.total)", "lower needs a text, and there is a number");
    fails("number($.id)", "number needs a text that is a number");
    fails("join($.id, ',')", "join needs a list, and there is a text");
    fails("join([[1]], ',')", "join needs a list of texts and numbers, and there is a list");
    fails("secret.NO", "the server has no secret NO (NEXUS_FLOW_SECRET_NO is not set)");
}

#[test]
fn a_term_that_does_not_matter_is_not_evaluated() {
    gives("exists($.missing) && $.missing > 1", "false");
    gives("true || $.missing", "true");
}

#[test]
fn what_an_evaluation_builds_is_bounded() {
    let fixed = Fixed { document: Value::String("x".repeat(1 << 20)), context: Value::Null };
    let many = vec!["$"; 100].join(", ");
    let expression = Expression::parse(&format!("length([{many}])")).unwrap();
    let scope = Scope::new(&fixed);
    assert!(expression.evaluate(&scope).unwrap_err().0.contains("would build more than"));
}

proptest! {
    #[test]
    fn no_expression_makes_it_panic(
        source in "(\\$|\\$\\.total|\\$\\.id|\\$\\.list|ctx\\.tenant|round\\(|length\\(|string\\(\
         |in|[\\[\\](),!<>+*/%'-]|==|&&|\\|\\||1|0\\.5| ){0,16}",
    ) {
        let _ = value(&source);
    }
}
