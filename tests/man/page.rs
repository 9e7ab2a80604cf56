//! Makes the pages of section 1: options from clap by `clap_mangen`, prose from `prose`.
//!
//! One page for each command; a command's own commands are sections of its page.

use clap::Command;
use clap_mangen::Man;

use crate::prose;

/// The pages' date; raised by hand when what they say changes.
const DATE: &str = "2026-12-01";

/// Every page of section 1 as its file name and its text.
pub fn section_1() -> Vec<(String, String)> {
    let mut root = nexus::cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = vec![("nexus.1".to_owned(), root_page(&root))];
    for command in root.get_subcommands() {
        pages.push((format!("{}.1", page_name(command)), command_page(command)));
    }
    pages
}

fn root_page(root: &Command) -> String {
    let mut page = head("nexus", root);
    page.push_str(".SH SYNOPSIS\n.B nexus\n.I command\n.RI [ options ]\n");
    page.push_str(&format!(".SH DESCRIPTION\n{}", prose::NEXUS));
    page.push_str(".SH COMMANDS\n");
    for command in root.get_subcommands() {
        let name = escape(&page_name(command));
        page.push_str(&format!(".TP\n.BR {name} (1)\n{}.\n", escape(&about(command))));
    }
    page.push_str(&options(root, ".SH OPTIONS\n"));
    page.push_str(&examples(root, ".SH EXAMPLES\n"));
    page.push_str(prose::EXIT_STATUS);
    page.push_str(prose::FILES);
    page.push_str(prose::SEE_ALSO);
    page
}

fn command_page(command: &Command) -> String {
    let name = page_name(command);
    let mut page = head(&name, command);
    page.push_str(".SH SYNOPSIS\n");
    let leaves: Vec<&Command> = command.get_subcommands().collect();
    match leaves.is_empty() {
        true => page.push_str(&usage(command)),
        false => {
            let usages: Vec<String> = leaves.iter().map(|leaf| usage(leaf)).collect();
            page.push_str(&usages.join(".br\n"));
        }
    }
    page.push_str(&format!(".SH DESCRIPTION\n{}", prose::of(&name)));
    for leaf in &leaves {
        let leaf_name = page_name(leaf);
        page.push_str(&format!(".SH {}\n", escape(&leaf_name.replace('-', " ").to_uppercase())));
        page.push_str(prose::of(&leaf_name));
        page.push_str(&options(leaf, ".PP\n"));
        page.push_str(&examples(leaf, ".PP\n"));
    }
    if leaves.is_empty() {
        page.push_str(&options(command, ".SH OPTIONS\n"));
        page.push_str(&examples(command, ".SH EXAMPLES\n"));
    }
    page.push_str(prose::EXIT_STATUS);
    page.push_str(prose::SEE_ALSO);
    page
}

/// The title line and the section NAME.
fn head(name: &str, command: &Command) -> String {
    let source = concat!("nexus ", env!("CARGO_PKG_VERSION"));
    format!(
        ".\\\" Made from the command line's definitions: UPDATE_MAN=1 cargo test \\-\\-test man\n\
         .TH {} 1 {DATE} \"{source}\" \"nexus manual\"\n.SH NAME\n{} \\- {}\n",
        escape(&name.to_uppercase()),
        escape(name),
        escape(&decapitalised(&about(command)))
    )
}

/// `nexus-dlq` for the command `nexus dlq`.
fn page_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn decapitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// The usage line as `--help` has it, the command's name in bold.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim().to_owned();
    let name = command.get_bin_name().unwrap_or_default();
    let rest = usage.strip_prefix(name).unwrap_or_default();
    let rest: Vec<&str> = rest.split_whitespace().collect();
    format!(".B {}\n{}\n", escape(name), escape(&rest.join(" ")))
}

/// The options of a command, under a heading, without the one for help.
fn options(command: &Command, heading: &str) -> String {
    let mut rendered = Vec::new();
    let command = command.clone().disable_help_flag(true).disable_version_flag(true);
    Man::new(command).render_options_section(&mut rendered).unwrap();
    // The string for an apostrophe is defined in a preamble that these pages do not have.
    let rendered = String::from_utf8(rendered).unwrap().replace("\\*(Aq", "\\(aq");
    let Some((_, options)) = rendered.split_once(".SH OPTIONS\n") else { return String::new() };
    let options: Vec<&str> = options
        .split_inclusive(".TP\n")
        .filter(|option| !option.contains("\\-\\-help") && !option.contains("\\-\\-version\\fR\n"))
        .collect();
    let options = options.concat();
    if options.trim() == ".TP" {
        return String::new();
    }
    let options = options.trim_end().trim_end_matches(".TP").trim_end();
    let lines: Vec<&str> = options.lines().map(str::trim_end).collect();
    // The heading of a command's own options needs no paragraph before the first.
    let heading = if heading.starts_with(".SH") { heading } else { "" };
    format!("{heading}{}\n", lines.join("\n"))
}

/// The examples that `--help` ends with, as they are typed.
fn examples(command: &Command, heading: &str) -> String {
    let Some(help) = command.get_after_help().map(ToString::to_string) else {
        return String::new();
    };
    let lines: Vec<&str> =
        help.lines().filter(|line| line.starts_with("  ")).map(|line| &line[2..]).collect();
    format!("{heading}.EX\n{}\n.EE\n", escape(&lines.join("\n")))
}

/// Text as roff that shows it as it is.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = escaped.split('\n').map(|line| match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}
