//! What is read as an expression, and how what is none is refused.

use super::*;
use proptest::prelude::*;

fn error(text: &str) -> ExpressionError {
    Expression::parse(text).unwrap_err()
}

#[test]
fn faults_have_a_place_and_often_a_help() {
    let cases = [
        ("$.total = 1", 8, "equality is =="),
        ("$.a & $.b", 4, "and is &&"),
        ("$.a < 1 < 2", 8, "join comparisons with &&: a < b && b < c"),
        ("lenght($.a)", 0, "did you mean `length`?"),
        ("ctx.corelation_id", 0, "did you mean `correlation_id`?"),
    ];
    for (text, at, help) in cases {
        let error = error(text);
        assert_eq!((error.at, error.help.as_deref()), (at, Some(help)), "{text}: {error}");
    }
    assert_eq!(
        error("").text,
        "expected a value, a path such as $.total, or a function, and the text ends"
    );
    assert_eq!(error("round(1)").text, "round takes 2 arguments, and has 1");
    assert!(error("matches($.a, '(')").text.contains("is not a regular expression"));
    assert!(error("matches($.a, $.b)").text.contains("in quotes"));
    assert!(error("exists(1)").text.contains("is a path"));
    assert!(error("$.order-id").help.unwrap().contains("key with a dash"));
    assert!(error("total > 0").help.unwrap().contains("begins with $"));
}

#[test]
fn what_is_no_expression_is_refused() {
    for bad in [
        "1 +",
        "(1",
        "[1",
        "[1,]",
        "1 2",
        "'a",
        "$.a.",
        "!",
        "1a",
        "0x3",
        "01",
        "a == 1",
        "$ $",
        "steps",
        "steps.",
        "secret",
        "ctx",
        "ctx.x",
        "ctx.error.x",
        "uuid",
        "uuid(1)",
        "1 in",
        "@",
        "é",
    ] {
        error(bad);
    }
}

#[test]
fn nesting_is_bounded_at_the_edge() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(MAX_EXPRESSION_DEPTH - 1)).is_ok());
    assert!(error(&nested(MAX_EXPRESSION_DEPTH)).text.contains("64 deep"));
    for deep in ["(", "[", "!", "-", "length(", "1+(", "!(", "-[(", "1-"] {
        let _ = Expression::parse(&deep.repeat(100_000));
    }
    assert!(Expression::parse(&vec!["1"; 50_000].join(" + ")).is_ok(), "a chain is no nesting");
    assert!(Expression::parse(&vec!["true"; 50_000].join(" && ")).is_ok());
}

#[test]
fn what_is_referred_to_is_listed() {
    let expression =
        Expression::parse("steps.build-task.a == ctx.error.step && now() > secret.K").unwrap();
    let targets: Vec<_> = expression.references().iter().map(|r| r.target.clone()).collect();
    assert_eq!(
        targets,
        [
            Target::Step("build-task".into()),
            Target::Error,
            Target::Changing("now()"),
            Target::Secret("K".into())
        ]
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = Expression::parse(&text);
    }

    #[test]
    fn no_text_of_its_own_signs_makes_it_panic(
        text in "(\\$|\\.a|\\[0\\]|ctx|steps|secret|input|in|uuid|round|matches|[\\[\\](),!<>=\
         |&+*/%'\" -]|1|é){0,24}",
    ) {
        let _ = Expression::parse(&text);
    }
}
