//! The examples in the pages: commands that the command line takes, flows that compile.
//!
//! An example stands between `.EX` and `.EE`. A block that begins with `---` is a flow; in any
//! other block each line that begins with `nexus` or `$ nexus` is a command.

use nexus::flow::{self, Severity};

use crate::all_pages;

/// The blocks of examples of a page, as a reader sees them.
fn examples(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n.EX\n") {
        let (block, after) = after.split_once("\n.EE").expect("every .EX has its .EE");
        let shown = block.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "");
        blocks.push(shown.replace("\\(ga", "`").replace("\\(ti", "~").replace("\\e", "\\"));
        rest = after;
    }
    blocks
}

#[test]
fn every_command_in_the_pages_is_one_that_the_command_line_takes() {
    let mut checked = 0;
    for (name, page) in all_pages() {
        for line in examples(&page).iter().flat_map(|block| block.lines()) {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            if !line.starts_with("nexus ") {
                continue;
            }
            let words = line.split([' ']).take_while(|word| !matches!(*word, "|" | "<" | ">"));
            let parsed = nexus::cli::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
            checked += 1;
        }
    }
    assert!(checked > 10, "the examples were not found");
}

#[test]
fn every_flow_in_the_pages_compiles_without_a_problem() {
    let mut checked = 0;
    for (name, page) in all_pages() {
        for block in examples(&page).iter().filter(|block| block.starts_with("---\n")) {
            let compilation = flow::compile(&format!("{block}\n"));
            let errors: Vec<_> = compilation
                .problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error)
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:?} in\n{block}");
            assert!(compilation.flow.is_some(), "{name}: {block}");
            checked += 1;
        }
    }
    assert!(checked >= 2, "the flows were not found");
}
