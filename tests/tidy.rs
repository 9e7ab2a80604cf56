//! The rules of the house, as tests: headers, lengths, layers, homes of foreign crates, banned
//! calls, no async runtime, a complete lock file, a man page for every command.
//!
//! The rules are read from the text of the sources, not from the compiler: what they look for is
//! written in one way only (`crate::layer::…`), and a rule that misfires is sharpened here, not
//! evaded there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a file.
const MAX_LINES: usize = 500;

/// Columns of a line.
const MAX_COLUMNS: usize = 100;

/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// The layers, and what each may import from; `lib.rs` has the picture.
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("disk", &["base"]),
    ("store", &["disk", "base"]),
    ("document", &["base"]),
    ("queue", &["store", "disk", "base"]),
    ("flow", &["document", "base"]),
    ("registry", &["disk", "base"]),
    ("journal", &["queue", "flow", "registry", "disk", "base"]),
    ("worker", &["journal", "queue", "flow", "registry", "disk", "base"]),
    ("http", &["worker", "journal", "queue", "flow", "registry", "document", "disk", "base"]),
    (
        "server",
        &["http", "worker", "journal", "queue", "flow", "registry", "document", "disk", "base"],
    ),
    (
        "cli",
        &[
            "server", "http", "worker", "journal", "queue", "flow", "registry", "document", "disk",
            "base",
        ],
    ),
];

/// Where a foreign crate may be named: files, or folders with a slash at the end. An empty list
/// is everywhere. A dependency that has no line here fails the test.
const HOMES: &[(&str, &[&str])] = &[
    ("base64", &["queue/dump.rs"]),
    ("chrono", &["base/time.rs"]),
    ("clap", &["cli/args.rs", "cli/args/"]),
    ("crc32fast", &["store/"]),
    ("crossbeam_channel", &["worker/", "server/"]),
    ("env_logger", &["main.rs", "journal/log.rs"]),
    ("fs2", &["disk/real.rs"]),
    ("httparse", &["http/head.rs"]),
    ("log", &[]),
    ("pulldown_cmark", &["flow/source.rs"]),
    ("regex", &["flow/"]),
    ("rusqlite", &["registry/"]),
    ("rust_decimal", &["document/number.rs"]),
    ("rustix", &["disk/real.rs", "base/time.rs", "http/", "server/"]),
    ("serde", &[]),
    ("serde_json", &[]),
    ("serde_saphyr", &["flow/yaml.rs"]),
    ("sha2", &["base/digest.rs"]),
    ("signal_hook", &["server/"]),
    ("socket2", &["http/", "server/"]),
    ("thiserror", &[]),
    ("tiny_http", &["http/message.rs"]),
    ("ureq", &["flow/effect/http_egress.rs"]),
    ("uuid", &["base/random.rs"]),
    ("xml", &["document/xml.rs"]),
];

/// What is called nowhere but in tests, and the files that may all the same, each with the reason.
const BANNED: &[(&str, &[(&str, &str)])] = &[
    (".unwrap()", &[]),
    ("todo!(", &[]),
    ("unimplemented!(", &[]),
    ("dbg!(", &[]),
    ("print!(", &[]),
    ("println!(", &[]),
    (
        "thread::sleep",
        &[
            ("disk/real.rs", "a lock with a deadline has to be tried again"),
            ("cli/queue/show.rs", "a queue that is watched is looked at each second"),
        ],
    ),
];

/// Crates that are an async runtime, or the heart of one.
const RUNTIMES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "async-executor",
    "async-global-executor",
    "async-io",
    "futures-executor",
    "actix-rt",
    "glommio",
    "monoio",
    "embassy-executor",
];

/// One source file.
struct Source {
    /// Below `src` or `tests`, with slashes.
    name: String,
    text: String,
    /// Whether all of it is tests: it lies below `tests`.
    is_test: bool,
}

impl Source {
    /// Where the tests begin: at once in a file of tests, else at the test module, if there is one.
    fn tests_begin(&self) -> usize {
        let name = &self.name;
        let all_tests = self.is_test || name.contains("/tests/") || name.ends_with("/tests.rs");
        if all_tests { 0 } else { test_module_begins(&self.text) }
    }

    /// The lines of code that are no comments and no tests, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text[..self.tests_begin()]
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(at, line)| (at + 1, line.split(" // ").next().unwrap_or(line)))
    }
}

/// Where a text's test module begins: its end if it has none.
fn test_module_begins(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("\n#[cfg(test)]\n").map(|at| from + at) {
        let rest = &text[at + "\n#[cfg(test)]\n".len()..];
        let item = rest.lines().find(|line| !line.starts_with("#[")).unwrap_or("");
        if item.contains("mod ") && item.ends_with('{') {
            return at;
        }
        from = at + 1;
    }
    text.len()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the repository, named from there.
fn sources(folder: &str) -> Vec<Source> {
    let root = repository().join(folder);
    let mut open = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() && path.file_name().unwrap() != "target" {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { name, text, is_test: folder == "tests" });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} fault(s):\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_file_opens_with_a_header() {
    let mut faults = Vec::new();
    for source in sources("src").into_iter().chain(sources("tests")) {
        if !source.text.starts_with("//! ") {
            faults.push(source.name);
        }
    }
    none(faults);
}

#[test]
fn no_file_is_too_long_and_no_line_too_wide() {
    let mut faults = Vec::new();
    for source in sources("src").into_iter().chain(sources("tests")) {
        let lines = source.text.lines().count();
        let may_be_long = LONG_FILES.iter().any(|(name, _)| *name == source.name);
        if lines > MAX_LINES && !may_be_long {
            faults.push(format!("{}: {lines} lines", source.name));
        }
        let tests_begin = source.tests_begin();
        let mut offset = 0;
        for (at, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            // Neither a line of test data nor a row of a table in a header is broken.
            let is_data = offset >= tests_begin && line.contains('"');
            let is_row = line.starts_with("//! |");
            offset += line.len() + 1;
            if columns > MAX_COLUMNS && !is_data && !is_row {
                faults.push(format!("{}:{}: {columns} columns", source.name, at + 1));
            }
        }
    }
    none(faults);
}

/// The layers that a line of code names, in a file that is so many modules deep.
fn layers_named(line: &str, depth: usize) -> Vec<&str> {
    let mut named = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        named.push(&line[at + "crate::".len()..]);
    }
    let to_the_root = "super::".repeat(depth);
    for (at, _) in line.match_indices(&to_the_root) {
        if !line[..at].ends_with("super::") {
            named.push(&line[at + to_the_root.len()..]);
        }
    }
    let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    named.into_iter().map(|text| &text[..end(text).unwrap_or(text.len())]).collect()
}

#[test]
fn imports_go_downward_only() {
    let known = |layer: &str| LAYERS.iter().find(|(name, _)| *name == layer);
    let mut faults = Vec::new();
    for source in sources("src") {
        let Some((layer, _)) = source.name.split_once('/') else { continue };
        let Some((_, allowed)) = known(layer) else {
            faults.push(format!("{}: the layer {layer} is not in the table", source.name));
            continue;
        };
        let depth = source.name.trim_end_matches("/mod.rs").matches('/').count() + 1;
        for (at, line) in source.code() {
            for named in layers_named(line, depth) {
                let foreign = named.is_empty() || (known(named).is_some() && named != layer);
                if foreign && !allowed.contains(&named) {
                    faults.push(format!("{}:{at}: {layer} imports `{named}`", source.name));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn layers_are_found_however_they_are_named() {
    assert_eq!(layers_named("use crate::flow::{self, Flow};", 2), ["flow"]);
    assert_eq!(layers_named("let x = crate::queue::y(crate::base::z());", 2), ["queue", "base"]);
    assert_eq!(layers_named("use super::super::worker::Roster;", 2), ["worker"]);
    assert_eq!(layers_named("use super::schema::Registry;", 2), [] as [&str; 0]);
    assert_eq!(layers_named("use crate::{base, flow};", 2), [""], "such a list is not read");
}

/// The names of the dependencies, as code spells them.
fn dependencies() -> Vec<String> {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let line_names = section.lines().filter_map(|line| line.split_once(" = "));
    line_names
        .map(|(name, value)| match value.split_once("package = \"") {
            // A renamed crate is spelled by its new name; the table has the crate's own.
            Some((_, package)) => package.split('"').next().unwrap().to_owned(),
            None => name.replace('-', "_"),
        })
        .collect()
}

/// Whether a line of code names a crate: as the first part of a path.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '"'));
        let after = &line[at + name.len()..];
        let whole = after.starts_with("::")
            || (line.trim_start().starts_with("use ") && after.starts_with([';', ' ']));
        !inside && whole
    })
}

#[test]
fn each_foreign_crate_is_named_in_its_home_only() {
    let dependencies = dependencies();
    let mut faults = Vec::new();
    for name in &dependencies {
        if !HOMES.iter().any(|(home, _)| home == name) {
            faults.push(format!("the dependency {name} has no home in the table"));
        }
    }
    for source in sources("src") {
        for (name, homes) in HOMES.iter().filter(|(_, homes)| !homes.is_empty()) {
            let at_home = |home: &&str| match home.ends_with('/') {
                true => source.name.starts_with(*home),
                false => source.name == *home,
            };
            if homes.iter().any(at_home) {
                continue;
            }
            let spelled = if *name == "xml" { "xml_rs" } else { name };
            for (at, line) in source.code() {
                if names_crate(line, spelled) {
                    faults.push(format!("{}:{at}: `{spelled}` is not at home", source.name));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn a_crate_is_found_where_it_is_named_and_not_in_longer_names() {
    assert!(names_crate("use clap::Parser;", "clap"));
    assert!(names_crate("let x: clap::Error = y;", "clap"));
    assert!(!names_crate("let x = endclap::y();", "clap"));
    assert!(!names_crate("let x = crate::clap::y();", "clap"));
    assert!(!names_crate("let regex = 1;", "regex"));
}

#[test]
fn what_is_banned_is_called_in_tests_only() {
    let mut faults = Vec::new();
    for source in sources("src") {
        for (call, exceptions) in BANNED {
            if exceptions.iter().any(|(name, _)| *name == source.name) {
                continue;
            }
            for (at, line) in source.code() {
                let called = line.match_indices(call).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    call.starts_with('.')
                        || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                });
                if called {
                    faults.push(format!("{}:{at}: {call}", source.name));
                }
            }
        }
    }
    none(faults);
}

#[test]
fn there_is_no_async_runtime_and_the_lock_file_is_complete() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "-e", "normal", "--prefix", "none"])
        .current_dir(repository())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"crossbeam-channel"), "the tree was not read:\n{tree}");
    let runtimes: Vec<&&str> = crates.iter().filter(|name| RUNTIMES.contains(name)).collect();
    assert!(runtimes.is_empty(), "{runtimes:?}");
}

#[test]
fn every_command_has_a_man_page() {
    let mut pages = vec!["nexus.1".to_owned()];
    for command in nexus::cli::command().get_subcommands() {
        pages.push(format!("nexus-{}.1", command.get_name()));
    }
    pages.retain(|page| !repository().join("man").join(page).is_file());
    none(pages);
}

#[test]
fn the_repository_has_nothing_unexpected_at_its_top() {
    let output = Command::new("git").arg("ls-files").current_dir(repository()).output();
    // An unpacked archive has no list of its files.
    let Some(output) = output.ok().filter(|output| output.status.success()) else { return };
    let list = String::from_utf8(output.stdout).unwrap();
    let expected = ["Cargo.toml", "Cargo.lock", "src", "tests", "man", "README.md", "LICENSE"];
    let mut top: Vec<String> = list
        .lines()
        .map(|path| path.split('/').next().unwrap_or(path).to_owned())
        .filter(|name| !name.starts_with('.') && !expected.contains(&name.as_str()))
        .collect();
    top.dedup();
    none(top);
}
