//! Several processes on one registry, and readers that leave early.

use std::process::{Child, Stdio};

use crate::support::{Home, Run, flow};

#[test]
fn processes_that_publish_at_once_get_one_version_after_the_other() {
    let home = Home::new();
    let publishers: Vec<Child> = (0..8)
        .map(|n| {
            let file = home.write(&format!("{n}.md"), &flow("acme", "x", &format!("note {n}")));
            let mut command = home.nexus();
            command.arg("publish").arg(file).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut lines: Vec<String> = publishers
        .into_iter()
        .map(|child| Run::from(child.wait_with_output().unwrap()).done())
        .collect();
    lines.sort();
    let expected: Vec<String> =
        (1..=8).map(|n| format!("published acme/x version {n}\n")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_reader_that_leaves_early_ends_the_program_quietly() {
    let home = Home::new();
    let note = "long ".repeat(100_000);
    home.write("a.md", &flow("acme", "a", &note));
    home.run(["publish", "a.md"]).done();
    let mut command = home.nexus();
    command.args(["flows", "show", "--tenant", "acme", "--flow", "a"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
        (Some(0), "")
    );
}
