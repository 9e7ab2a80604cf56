//! `nexus publish` and `nexus flows`.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Home, flow};

#[test]
fn publishing_counts_versions_up_and_the_same_source_is_unchanged() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "forward-order", "first"));
    let publish = || home.run(["publish", "a.md"]).done();
    assert_eq!(publish(), "published acme/forward-order version 1\n");
    assert_eq!(publish(), "unchanged acme/forward-order version 1\n");
    home.write("a.md", &flow("acme", "forward-order", "second"));
    assert_eq!(publish(), "published acme/forward-order version 2\n");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.registry()), 0o600);
    assert_eq!(mode(home.path().join(".nexus")), 0o700);
}

#[test]
fn one_faulty_file_publishes_nothing_and_makes_no_registry() {
    let home = Home::new();
    home.write("good.md", &flow("acme", "good", ""));
    home.write("bad.md", "no front matter\n");
    for bad in ["bad.md", "missing.md"] {
        let run = home.run(["publish", "good.md", bad]);
        assert_eq!((run.status, run.out.as_str()), (1, ""), "{}", run.err);
        assert!(run.err.contains(bad), "{}", run.err);
        assert!(!home.registry().exists());
    }
}

#[test]
fn two_files_of_one_flow_are_refused_together() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "x", "one"));
    home.write("b.md", &flow("acme", "x", "two"));
    let err = home.run(["publish", "a.md", "b.md"]).failed();
    assert!(err.contains("a.md and b.md are both the flow acme/x"), "{err}");
    assert!(!home.registry().exists());
}

#[test]
fn flows_are_listed_by_name_and_shown_with_their_source() {
    let home = Home::new();
    let first = flow("acme", "b", "first");
    home.write("b.md", &first);
    home.write("a.md", &flow("acme", "a", ""));
    home.run(["publish", "b.md", "a.md"]).done();
    home.write("b.md", &flow("acme", "b", "second"));
    home.run(["publish", "b.md"]).done();

    let list = home.run(["flows", "list"]).done();
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("FLOW    VERSION  PUBLISHED"), "{list}");
    assert!(lines[1].starts_with("acme/a        1  20"), "{list}");
    assert!(lines[2].starts_with("acme/b        2  20"), "{list}");

    let list = home.run(["flows", "list", "--json"]).done();
    let rows: Vec<serde_json::Value> =
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[1]["flow"], &rows[1]["version"]), (&"b".into(), &2.into()));

    let show = ["flows", "show", "--tenant", "acme", "--flow", "b", "--version", "1"];
    let shown = home.run(show).done();
    let (header, source) = shown.split_once('\n').unwrap();
    assert!(header.starts_with("acme/b version 1, published 20"), "{header}");
    assert_eq!(source, first);

    let err = home.run(["flows", "show", "--tenant", "acme", "--flow", "none"]).failed();
    assert!(err.contains("cannot show acme/none") && err.contains("no such flow"), "{err}");
}

#[test]
fn db_can_be_named_by_flag_or_environment_and_its_directory_is_made() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "a", ""));
    home.run(["publish", "--db", "state/r.db", "a.md"]).done();
    let list = home.nexus().args(["flows", "list"]).env("NEXUS_DB", "state/r.db").output();
    assert!(String::from_utf8(list.unwrap().stdout).unwrap().contains("acme/a"));
    assert!(!home.registry().exists());
}
