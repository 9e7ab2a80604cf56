//! What the compiler accepts, refuses and warns about.

use super::*;
use crate::flow::problem::Severity;
use proptest::prelude::*;

/// All problems, one line each, with the help in brackets.
fn problems(source: &str) -> Vec<String> {
    let compilation = compile(source);
    let errors = compilation.problems.iter().any(|p| p.severity == Severity::Error);
    assert_eq!(compilation.flow.is_none(), errors, "a flow is there exactly without an error");
    let shown = compilation.problems.iter().map(|problem| match &problem.help {
        Some(help) => format!("{problem} ({help})"),
        None => problem.to_string(),
    });
    shown.collect()
}

/// A source with these effects declared and this body.
fn flow(effects: &str, body: &str) -> String {
    format!(
        "---\nflowmarkdown_version: \"0.1\"\ntenant: acme\nflow: x\neffects: \
         [{effects}]\n---\n{body}"
    )
}

#[track_caller]
fn one_problem(effects: &str, body: &str, expected: &str) {
    assert_eq!(problems(&flow(effects, body)), [expected], "{body}");
}

const EGRESS: &str = "effects: [http_egress]\nendpoint: http://127.0.0.1:1/\n";

#[test]
fn the_sample_flows_compile_without_a_problem() {
    let samples = [
        ("forward-order", include_str!("../../../tests/flows/forward-order.md")),
        ("always-down", include_str!("../../../tests/flows/always-down.md")),
        ("flaky", include_str!("../../../tests/flows/flaky.md")),
        ("accepted", include_str!("../../../tests/flows/accepted.md")),
        ("build-task", include_str!("../../../tests/flows/build-task.md")),
        ("order-fulfilment", include_str!("../../../tests/flows/order-fulfilment.md")),
        ("big-orders-only", include_str!("../../../tests/flows/big-orders-only.md")),
    ];
    for (name, source) in samples {
        assert_eq!(problems(source), [] as [String; 0], "{name}");
        let flow = compile(source).flow.unwrap();
        assert_eq!(flow.name().to_string(), format!("acme/{name}"));
        let again = Flow::from_artifact(&flow.to_artifact()).unwrap();
        assert_eq!(again.to_artifact(), flow.to_artifact());
        let crlf = source.replace('\n', "\r\n");
        assert_eq!(problems(&crlf), [] as [String; 0], "{name} with line ends of another system");
    }
}

#[test]
fn the_documents_own_example_compiles() {
    let source = "---\nflowmarkdown_version: \"0.1\"\nflow: forward-order\ntenant: acme\n\
                  effects: [http_egress]\nqueue_max_attempts: 5\nqueue_initial_delay_ms: 500\n\
                  queue_backoff_factor: 3.0\nqueue_max_delay_ms: 10000\n---\n\n## Step: forward\n\
                  effects: [http_egress]\nendpoint: https://orders.example.com/ingest\nmethod: \
                  POST\n\
                  headers: {\"Idempotency-Key\": \"{{ ctx.correlation_id }}\"}\n\n\
                  ## Step: accepted-means-accepted\n```validate\n\
                  $.status == \"ACCEPTED\" | \"backend did not accept the message\"\n```\n";
    assert_eq!(problems(source), [] as [String; 0]);
    assert_eq!(compile(source).flow.unwrap().policy().max_attempts, 5);
}

#[test]
fn every_problem_of_a_source_is_found_in_one_run() {
    let source = "---\nflowmarkdown_version: \"0.1\"\ntenant: acme\nflow: x\nqueue_max_attempt: 3\n\
                  queue_backoff_factor: 0.5\neffects: [http_egress]\n---\n\n## Step: a\n\
                  effects: [http_egress]\nendpoit: http://127.0.0.1/\n\n```validate\n$.total > | \
                  \"x\"\n\
                  $.total = 1 | \"y\"\n```\n\n## Step: a\n```ntd\n{ \"a\": $.x }\n```\n";
    assert_eq!(
        problems(source),
        [
            "5:1: error: unknown key `queue_max_attempt` (did you mean `queue_max_attempts`?)",
            "6:23: error: `queue_backoff_factor` must be a finite number of at least 1.0, and is \
             `0.5`",
            "11:11: error: a step with http_egress needs an `endpoint`",
            "12:1: error: unknown key `endpoit` (did you mean `endpoint`?)",
            "15:10: error: this rule: expected a value, a path such as $.total, or a function, \
             and the text ends",
            "16:9: error: this rule: expected an operator, or the end of the expression, and \
             found '=' (equality is ==)",
            "19:1: error: the name 'a' is taken by an earlier step",
            "21:8: error: this template: expected a JSON value or a placeholder",
        ]
    );
}

#[test]
fn names_effects_and_references_must_exist() {
    one_problem(
        "",
        "## Step: a\neffects: [http_egress]\nendpoint: http://x/\n",
        "8:11: error: the effect http_egress is not declared (add effects: [http_egress] to the \
         front matter)",
    );
    one_problem(
        "queue_publish",
        "## Step: a\neffects: [queue_publish]\n",
        "8:11: error: a step with queue_publish needs a `queue`",
    );
    one_problem(
        "queue_publish",
        "## Step: a\neffects: [queue_publish]\nqueue: ../x\n",
        "9:8: error: the queue \"../x\" is not a name that can become a path: it begins with '.'; \
         a name begins with a letter a-z or a digit",
    );
    one_problem(
        "http_egress",
        &format!("## Step: a\n{EGRESS}queue: x\n"),
        "10:1: error: `queue` belongs to the effect queue_publish, which this step does not use \
         (add effects: [queue_publish], or remove the key)",
    );
    one_problem(
        "",
        "## Step: first\n```ntd\n{}\n```\n## Step: b\n```condition\nsteps.frist.a == 1\n```\n",
        "13:1: error: no earlier step is named \"frist\" (did you mean `first`?)",
    );
    one_problem(
        "",
        "## Step: a\n```ntd\n{\"a\": \"{{ secret.K }}\"}\n```\n",
        "9:11: error: secret.K stands in a fence (a secret is allowed in `endpoint` and `headers` \
         only)",
    );
    one_problem(
        "",
        "## Step: a\n```ntd\n{{ ctx.error.message }}\n```\n",
        "9:4: error: ctx.error is there in fault sections only (a fault section begins with `## \
         Fault:`)",
    );
    one_problem(
        "",
        "## Step: A\n```ntd\n1\n```\n",
        "7:1: error: the name of the step \"A\" is not allowed: it begins with 'A'; a name begins \
         with a letter a-z or a digit",
    );
    one_problem(
        "",
        "Only prose.\n",
        "7:1: error: the flow has no step (a step begins with a heading `## Step: NAME`)",
    );
    one_problem(
        "",
        "## Fault:\n```validate\nfalse | \"x\"\n```\n## Step: late\n```ntd\n1\n```\n",
        "11:1: error: the step 'late' comes after a fault section (all `## Fault:` sections come \
         after the last `## Step:`)",
    );
}

#[test]
fn properties_are_checked() {
    let cases = [
        ("endpoint: ftp://x/", "`endpoint` must begin with http:// or https://"),
        ("endpoint: \"{{ $.a \"", "`endpoint`: expected an operator or the end of the placeholder"),
        ("method: post", "unknown method \"post\""),
        ("headers: [a]", "`headers` must be a mapping"),
        ("headers: {\"a b\": x}", "has a name that HTTP does not allow"),
        ("headers: {\"Host\": x}", "is set by the transport"),
        ("headers: {a: x, A: y}", "is set twice"),
        ("headers: {a: [x]}", "needs a text"),
        ("headers: {a: \"x\\r\\ny\"}", "has a line break"),
        ("timeout_ms: 0", "`timeout_ms` must be a whole number of milliseconds from 1 to 86400000"),
        ("timeout_ms: \"5\"", "leave the quotes out"),
        ("max_response_bytes: 1e9", "`max_response_bytes` must be a whole number of bytes"),
    ];
    for (line, expected) in cases {
        let endpoint = if line.starts_with("endpoint") { "" } else { "endpoint: http://x/\n" };
        let body = format!("## Step: a\neffects: [http_egress]\n{endpoint}{line}\n");
        let found = problems(&flow("http_egress", &body));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].contains(expected), "{line}: {found:?}");
    }
    let list = "## Step: a\neffects:\n- http_egress\nendpoint: http://x/\n";
    assert!(
        compile(&flow("http_egress", list)).flow.is_none(),
        "a block list is not silently prose"
    );
}

#[test]
fn fences_are_checked() {
    one_problem(
        "",
        "## Step: a\n```ntd\n1\n```\n```ntd\n2\n```\n",
        "11:1: error: a step has at most one ntd fence",
    );
    one_problem(
        "",
        "## Step: a\n```validate\n\n```\n",
        "8:1: error: this validate fence has no rule",
    );
    one_problem(
        "",
        "## Step: a\n```validate\n$.a == 1\n```\n",
        "9:1: error: this rule: a rule needs a message (write EXPR | \"message\", with a space on \
         either side of the |)",
    );
    one_problem(
        "",
        "## Step: a\n```condition\nmatches($.a, '[')\n```\n",
        "9:1: error: this condition: \"[\" is not a regular expression: unclosed character class",
    );
    one_problem(
        "",
        "## Step: a\n```ntd\n{\n  \"a\": 1,\n  \"a\": 2\n}\n```\n",
        "11:3: error: this template: expected a new key, and this one is in the object already",
    );
}

#[test]
fn warnings_name_what_was_probably_not_meant() {
    let warned = |effects: &str, body: &str| -> String {
        let compilation = compile(&flow(effects, body));
        assert!(compilation.flow.is_some(), "{:?}", compilation.problems);
        assert_eq!(compilation.problems.len(), 1, "{:?}", compilation.problems);
        compilation.problems[0].to_string()
    };
    let ntd = "## Step: a\n```ntd\n1\n```\n";
    assert_eq!(
        warned("queue_publish", ntd),
        "5:11: warning: the effect queue_publish is declared and no step uses it"
    );
    let keyed = |key: &str| {
        format!("## Step: a\n{EGRESS}headers: {{\"Idempotency-Key\": \"{{{{ {key} }}}}\"}}\n")
    };
    for key in ["uuid()", "now()", "ctx.attempt"] {
        assert!(warned("http_egress", &keyed(key)).contains(key), "{key}");
    }
    assert_eq!(problems(&flow("http_egress", &keyed("ctx.message_key"))), [] as [String; 0]);
    let two = format!("## Step: a\n{EGRESS}\n## Step: b\n{EGRESS}");
    assert!(warned("http_egress", &two).contains("a second call"));
    assert!(warned("", &format!("{ntd}## Fault:\n```ntd\n1\n```\n")).contains("cannot fail"));
    assert!(
        warned(
            "",
            &format!("{ntd}## Fault:\n```condition\ntrue\n```\n```validate\nfalse | \"x\"\n```\n")
        )
        .contains("drops the failed message")
    );
    assert!(warned("", &format!("{ntd}## Stpe: b\n")).contains("is prose"));
    assert!(
        warned("", &format!("{ntd}## Notes\n```validate\ntrue | \"x\"\n```\n"))
            .contains("stands in no step")
    );
    assert!(warned("", &format!("{ntd}\n```validat\ntrue | \"x\"\n```\n")).contains("is prose"));
    assert!(warned("", "## Step: a\n").contains("does nothing"));
}

#[test]
fn a_source_that_is_too_large_is_refused_unread() {
    let found = problems(&"x".repeat(MAX_FLOW_SOURCE_BYTES + 1));
    assert_eq!(found, [format!("1:1: error: a flow has at most {MAX_FLOW_SOURCE_BYTES} bytes")]);
}

proptest! {
    #[test]
    fn no_source_makes_it_panic(text in any::<String>()) {
        compile(&text);
    }

    #[test]
    fn no_body_makes_it_panic(
        body in "(## Step: a\n|## Fault:\n|effects: \\[http_egress\\]\n|endpoint: \
         |http://x/|\\{\\{ |\\}\\}|\\$\\.a|```ntd\n|```validate\n|```condition\n|```\n|\"x\"| \\| \
         |\\{|\\}|\n|1|queue: ){0,24}",
    ) {
        if let Some(flow) = compile(&flow("http_egress, queue_publish", &body)).flow {
            prop_assert!(Flow::from_artifact(&flow.to_artifact()).is_ok());
        }
    }
}

/// Small enough for the threads of a door, in a build that is not optimised.
const SMALL_STACK: usize = 512 << 10;

fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work).unwrap().join().unwrap()
}

#[test]
fn the_deepest_flow_is_loaded_and_run_on_a_small_stack() {
    let around = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let rules = [
        around("(", "true", ")", 63),
        around("trim(", "'a'", ")", 62) + " == 'a'",
        around("!", "true", "", 62),
        around("1 + 2 * -(", "1", ")", 15) + " != 0",
        around("true || (", "false", ")", 31),
        format!("{} == 1", around("length([", "1", "])", 31)),
    ];
    let rules = rules.map(|rule| format!("{rule} | \"broken\"\n")).concat();
    let template = around("[", "{{ $ }}", "]", 64);
    let source =
        flow("", &format!("## Step: a\n```validate\n{rules}```\n```ntd\n{template}\n```\n"));
    assert_eq!(problems(&source), [] as [String; 0]);
    let artifact = compile(&source).flow.unwrap().to_artifact();
    let message = around("[", "1", "]", 64);
    let ended = on_a_small_stack(move || {
        let flow = Flow::from_artifact(&artifact).unwrap();
        format!("{:?}", crate::flow::run::tests::run(&flow, &message)).len()
    });
    assert!(ended > 128);
}

#[test]
fn front_matter_that_nests_is_refused_before_it_takes_a_deep_stack() {
    for text in ["[", "{a: ", "- "] {
        let source = format!("---\na: {}\n---\n", text.repeat(100_000));
        let found = on_a_small_stack(move || problems(&source));
        assert!(found.iter().any(|problem| problem.contains("this is not YAML")), "{found:?}");
    }
}

#[test]
fn a_condition_behind_an_effect_is_warned_of_and_one_before_it_is_not() {
    let behind = "## Step: a\n\neffects: [http_egress]\nendpoint: http://127.0.0.1:1/\n\n\
                  ```condition\n$.a\n```\n";
    let found = problems(&flow("http_egress", behind));
    assert!(
        found[0].contains("warning: the effects of 'a' run before this condition"),
        "{found:?}"
    );
    let before = "## Step: filter\n\n```condition\n$.a\n```\n\n## Step: call\n\n\
                  effects: [http_egress]\nendpoint: http://127.0.0.1:1/\n";
    assert_eq!(problems(&flow("http_egress", before)), [] as [String; 0]);
}

#[test]
fn what_is_no_yaml_is_told_with_one_place_and_in_plain_words() {
    let source = "---\nflow: a\nflow: b\n---\n\n## Step: a\n";
    let problem = compile(source).problems.remove(0);
    assert_eq!((problem.line, problem.column), (3, 1));
    assert_eq!(problem.message, "this is not YAML: duplicate mapping key: flow");
    let source = "---\ndescription: Orders: the big ones\n---\n\n## Step: a\n";
    let problem = compile(source).problems.remove(0);
    assert!(!problem.message.contains("line"), "{}", problem.message);
    assert!(problem.help.unwrap().contains("in quotes"));
}

#[test]
fn a_run_keeps_the_documents_of_those_steps_alone_that_are_named_later() {
    let body = "## Step: a\n```ntd\n1\n```\n## Step: b\n```ntd\n2\n```\n## Step: c\n```ntd\n3\n```\n\
                ## Step: d\n```ntd\n{\"x\": {{ steps.a }}}\n```\n```validate\nsteps.b == 2 | \"x\"\n```\n";
    let flow = compile(&flow("", body)).flow.unwrap();
    let kept = |flow: &Flow| flow.kept.iter().cloned().collect::<Vec<_>>();
    assert_eq!(kept(&flow), ["a", "b"]);
    assert_eq!(kept(&Flow::from_artifact(&flow.to_artifact()).unwrap()), ["a", "b"]);
}
