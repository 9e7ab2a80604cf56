//! What is refused: names that are no path, ids that are no id, registries that are none. Each
//! refusal says what is wrong, and leaves nothing on the disk.

use std::fs;

use crate::support::{Home, flow};

const BAD_NAMES: [&str; 17] = [
    "..",
    "../x",
    "%2e%2e%2f",
    "a/b",
    "a%2fb",
    "a\\b",
    "",
    ".",
    "A",
    "é",
    "e\u{301}",
    "ſ",
    "a\u{ff0f}b",
    "segment.log",
    "a ",
    "-a",
    "--flow",
];

#[test]
fn a_name_that_is_no_path_is_refused_by_every_command_and_nothing_is_made() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "a", ""));
    home.run(["publish", "a.md"]).done();
    let before = home.everything();
    let long = "x".repeat(300);
    for bad in BAD_NAMES.into_iter().chain([long.as_str()]) {
        for (tenant, flow) in [(bad, "a"), ("acme", bad)] {
            let named = [
                home.run(["dlq", "list", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["dlq", "replay", "--tenant", tenant, "--flow", flow, "--id", "7"])
                    .failed(),
                home.run(["dlq", "discard", "--tenant", tenant, "--flow", flow, "--id", "7"])
                    .failed(),
                home.run(["flows", "show", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["queue", "show", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["queue", "verify", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["queue", "repair", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["queue", "pause", "--tenant", tenant, "--flow", flow]).failed(),
                home.run(["queue", "resume", "--tenant", tenant, "--flow", flow]).failed(),
            ];
            for err in named {
                assert!(err.contains("tenant \"") && err.contains("flow \""), "{err}");
            }
        }
        home.run(["dlq", "list", "--tenant", bad]).failed();
        home.run(["dlq", "list", "--flow", bad]).failed();
    }
    assert_eq!(home.everything(), before);
}

#[test]
fn the_refusal_names_the_pair_and_the_character_before_the_registry_is_looked_for() {
    let home = Home::new();
    let err = home.run(["dlq", "replay", "--tenant", "acme", "--flow", "../x", "--id", "7"]);
    assert_eq!(
        err.failed(),
        "nexus: tenant \"acme\", flow \"../x\": the flow is not a name that can become a path: \
         it begins with '.'; a name begins with a letter a-z or a digit\n"
    );
    assert!(home.everything().is_empty());
}

#[test]
fn an_id_that_is_none_is_a_wrong_usage() {
    let home = Home::new();
    for id in ["0", "-1", "18446744073709551616", "7abc", ""] {
        for verb in ["replay", "discard"] {
            let err =
                home.run(["dlq", verb, "--tenant", "acme", "--flow", "a", "--id", id]).refused();
            assert!(err.contains("an id is a whole number from 1"), "{err}");
        }
    }
    assert!(home.everything().is_empty());
}

#[test]
fn a_missing_registry_is_named_with_the_directory_read_and_not_made() {
    let home = Home::new();
    let entry = ["--tenant", "acme", "--flow", "a"];
    for db in ["other/registry.db", "other.db", "./x/y/z.db"] {
        let runs = [
            home.run(["dlq", "list", "--db", db]),
            home.run(["flows", "list", "--db", db]),
            home.run(["queue", "list", "--db", db]),
            home.run(["queue", "verify", "--db", db]),
            home.nexus().args(["queue", "show", "--db", db]).args(entry).output().unwrap().into(),
            home.nexus().args(["queue", "repair", "--db", db]).args(entry).output().unwrap().into(),
            home.nexus().args(["queue", "pause", "--db", db]).args(entry).output().unwrap().into(),
            home.nexus().args(["queue", "resume", "--db", db]).args(entry).output().unwrap().into(),
            home.nexus().args(["flows", "show", "--db", db]).args(entry).output().unwrap().into(),
            home.nexus()
                .args(["dlq", "replay", "--db", db, "--id", "7"])
                .args(entry)
                .output()
                .unwrap()
                .into(),
            home.nexus()
                .args(["dlq", "discard", "--db", db, "--id", "7"])
                .args(entry)
                .output()
                .unwrap()
                .into(),
        ];
        for run in runs {
            let err = run.failed();
            assert!(err.contains("there is no registry at /"), "{err}");
            assert!(err.contains("the directory read was /"), "{err}");
        }
    }
    let err = home.run(["dlq", "list"]).failed();
    assert!(err.contains(&home.registry().display().to_string()), "{err}");
    assert!(home.everything().is_empty());
}

#[test]
fn what_is_no_registry_is_refused_by_name() {
    let home = Home::new();
    fs::create_dir(home.path().join("directory.db")).unwrap();
    home.write("noise.db", &"no database ".repeat(1000));
    home.write("a.md", &flow("acme", "a", ""));
    for (db, what) in [("directory.db", "a directory"), ("noise.db", "no SQLite database")] {
        for err in [
            home.run(["flows", "list", "--db", db]).failed(),
            home.run(["publish", "--db", db, "a.md"]).failed(),
        ] {
            assert!(err.contains(db) && err.contains(what), "{err}");
        }
    }
    home.run(["dlq", "list", "--db", "directory.db"]).failed();
}

#[test]
fn replay_refuses_a_flow_that_is_not_in_the_registry() {
    let home = Home::new();
    home.write("a.md", &flow("acme", "a", ""));
    home.run(["publish", "a.md"]).done();
    let before = home.everything();
    let err = home.run(["dlq", "replay", "--tenant", "acme", "--flow", "gone", "--id", "7"]);
    let err = err.failed();
    assert!(
        err.starts_with(
            "nexus: cannot replay id=7 tenant=acme flow=gone: the flow is not in the registry /"
        ),
        "{err}"
    );
    assert_eq!(home.everything(), before);
}

#[test]
fn a_command_line_without_sense_is_a_wrong_usage_and_help_is_none() {
    let home = Home::new();
    home.run(["dlq", "replay", "--tenant", "acme"]).refused();
    home.run(["no-such-command"]).refused();
    home.run(["publish"]).refused();
    let run = home.run([]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(home.run(["--help"]).done().contains("Examples:"));
    assert_eq!(home.run(["--version"]).done(), format!("nexus {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_home_directory_the_registry_must_be_named() {
    let home = Home::new();
    let run = home.nexus().env_remove("HOME").args(["dlq", "list"]).output().unwrap();
    let err = crate::support::Run::from(run).failed();
    assert!(err.contains("--db PATH"), "{err}");
}
