//! The byte tables of `nexus-files(5)`: each is the one in the header of the file that owns the
//! format, row by row.

use std::fs;
use std::path::Path;

/// The files that own a format.
const OWNERS: [&str; 9] = [
    "store/frame.rs",
    "queue/message.rs",
    "queue/dlq.rs",
    "queue/corrupt.rs",
    "queue/sequence.rs",
    "queue/checkpoint.rs",
    "queue/retry.rs",
    "queue/acked.rs",
    "queue/slots.rs",
];

/// The table in a header, as the page has it.
fn table(source: &str) -> String {
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
    let mut table = String::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [bytes, field, meaning] = cells[..] else { panic!("no three cells: {row}") };
        let meaning = meaning.replace('`', "").replace('-', "\\-");
        // A line that began with a dot would be a request.
        table.push_str(&format!("\\&{bytes}|{field}|T{{\n\\&{meaning}\nT}}\n"));
    }
    table
}

#[test]
fn the_byte_tables_are_those_of_the_files_that_own_the_formats() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("man/nexus-files.5")).unwrap();
    for owner in OWNERS {
        let source = fs::read_to_string(root.join("src").join(owner)).unwrap();
        let table = table(&source);
        assert!(table.lines().count() >= 9, "{owner}: the table was not found");
        assert!(page.contains(&table), "nexus-files(5) lacks the table of {owner}:\n{table}");
    }
}
