//! The man pages: section 1 is made from the command line's own definitions and checked in.
//!
//! `UPDATE_MAN=1 cargo test --test man` writes the pages anew; without it a test fails when a page
//! is stale. The pages of sections 5 and 7 are written by hand; here their examples are checked,
//! and that no page names one that is not there.

mod examples;
mod formats;
mod page;
mod prose;

use std::fs;
use std::path::{Path, PathBuf};

/// Where the pages are.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("man")
}

/// Every page as its file name and its text.
fn all_pages() -> Vec<(String, String)> {
    let mut pages: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn the_pages_of_section_1_are_those_of_the_command_line() {
    let update = std::env::var_os("UPDATE_MAN").is_some();
    let mut stale = Vec::new();
    for (name, text) in page::section_1() {
        let path = directory().join(&name);
        if update {
            fs::write(&path, &text).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "stale: {stale:?}; write them with UPDATE_MAN=1 cargo test --test man"
    );
}

#[test]
fn every_page_that_is_referred_to_is_there() {
    let pages = all_pages();
    let mut referred = 0;
    for (name, text) in &pages {
        for line in text.lines().filter(|line| line.starts_with(".BR ")) {
            let mut words = line[4..].split_whitespace();
            let (Some(page), Some(rest)) = (words.next(), words.next()) else { continue };
            let Some(section) = rest.strip_prefix('(').and_then(|rest| rest.get(..1)) else {
                continue;
            };
            let page = format!("{}.{section}", page.replace("\\-", "-"));
            let ours = page.starts_with("nexus") || page.starts_with("flowmarkdown");
            assert!(!ours || pages.iter().any(|(there, _)| *there == page), "{name} names {page}");
            referred += usize::from(ours);
        }
    }
    assert!(referred > 10, "the references were not found");
}

/// `.ci/run` installs mandoc and runs this.
#[test]
#[ignore = "needs mandoc"]
fn every_page_passes_the_lint_of_mandoc() {
    for (name, _) in all_pages() {
        let mut mandoc = std::process::Command::new("mandoc");
        let output = mandoc.args(["-Tlint", "-W", "warning"]).arg(directory().join(&name)).output();
        let output = output.expect("mandoc is installed");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.is_empty(), "{name}:\n{said}");
    }
}
