//! `nexus validate`.

use std::io::Write;
use std::process::Stdio;

use crate::support::{Home, flow};

#[test]
fn a_sound_flow_is_ok_and_nothing_is_made() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "a", ""));
    let before = home.everything();
    assert_eq!(home.run(["validate", "a.md"]).done(), "a.md: ok\n");
    assert_eq!(home.run(["validate", "--json", "a.md"]).done(), "[]\n");
    assert_eq!(home.everything(), before);
}

#[test]
fn an_error_has_its_place_and_the_other_files_are_checked_too() {
    let home = Home::new();
    home.write("bad.md", "no front matter\n");
    home.write("good.md", &flow("acme", "a", ""));
    let run = home.run(["validate", "bad.md", "missing.md", "good.md"]);
    assert_eq!(run.status, 1);
    assert!(run.out.starts_with("bad.md:1:1: error: "), "{}", run.out);
    assert!(run.out.ends_with("good.md: ok\n") && !run.out.contains("bad.md: ok"), "{}", run.out);
    assert!(run.err.starts_with("nexus: cannot read missing.md: "), "{}", run.err);
}

#[test]
fn a_warning_leaves_the_exit_status_at_0() {
    let home = Home::new();
    let unused = flow("acme", "a", "").replace("flow: a\n", "flow: a\neffects: [http_egress]\n");
    home.write("a.md", &unused);
    let out = home.run(["validate", "a.md"]).done();
    assert!(out.contains(": warning: ") && out.ends_with("a.md: ok\n"), "{out}");
}

#[test]
fn problems_as_json_are_one_array() {
    let home = Home::new();
    home.write("bad.md", "no front matter\n");
    let run = home.run(["validate", "--json", "bad.md", "missing.md"]);
    assert_eq!((run.status, run.err.as_str()), (1, ""));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&run.out).unwrap();
    assert_eq!(rows[0]["file"], "bad.md");
    assert_eq!(rows[0]["severity"], "error");
    assert!(rows[0]["line"].is_u64() && rows[0]["column"].is_u64(), "{}", run.out);
    assert_eq!(rows.last().unwrap()["line"], serde_json::Value::Null);
}

#[test]
fn a_dash_is_standard_input() {
    let home = Home::new();
    let mut command = home.nexus();
    command.args(["validate", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(flow("acme", "a", "").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "-: ok\n");
}
