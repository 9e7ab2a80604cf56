//! The structure of a flow's source: front matter, sections, their properties and fences.
//!
//! Headings are found by the Markdown parser, so a heading inside a fence is none. Every piece
//! keeps its place in the source, so that a problem in it can be shown there. Not here: what the
//! pieces mean (`front_matter`, `step`).

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

use crate::flow::problem::Problems;
use crate::flow::step::{FENCES, STEP_KEYS};
use crate::flow::suggest::{distance, nearest};

/// A piece of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Its text.
    pub text: String,
    /// (offset in `text`, offset in the source) of each run that is contiguous in both.
    runs: Vec<(usize, usize)>,
}

impl Excerpt {
    /// A piece that is contiguous in the source, from byte `at`.
    pub fn contiguous(text: &str, at: usize) -> Excerpt {
        Excerpt { text: text.to_owned(), runs: vec![(0, at)] }
    }

    fn push(&mut self, text: &str, at: usize) {
        self.runs.push((self.text.len(), at));
        self.text.push_str(text);
    }

    /// Where byte `at` of the text is in the source.
    pub fn place(&self, at: usize) -> usize {
        let run = self.runs.iter().rev().find(|(start, _)| *start <= at);
        run.map_or(0, |(start, source)| source + (at - start))
    }
}

/// A flow's source, taken apart.
#[derive(Debug, Default)]
pub struct Source {
    /// What stands between the `---` lines.
    pub front_matter: Option<Excerpt>,
    /// The steps and the fault handler's steps, in order.
    pub sections: Vec<Section>,
    /// Where the body begins.
    pub body_at: usize,
}

/// A section that is a step.
#[derive(Debug)]
pub struct Section {
    /// Whether it is a `## Fault:`.
    pub fault: bool,
    /// The name after the colon, which a fault may leave out.
    pub name: String,
    /// Where the heading is.
    pub at: usize,
    /// Its `key: value` paragraph.
    pub properties: Option<Excerpt>,
    /// Its fences, prose ones too.
    pub fences: Vec<Fence>,
}

/// A fenced block.
#[derive(Debug)]
pub struct Fence {
    /// The info string.
    pub info: String,
    /// Where the fence opens.
    pub at: usize,
    /// What is in it.
    pub content: Excerpt,
}

/// Takes a source apart and notes what is wrong with its structure.
pub(crate) fn read(source: &str, problems: &mut Problems<'_>) -> Source {
    let (front_matter, body_at) = front_matter(source, problems);
    let mut reader =
        Reader { body: &source[body_at..], body_at, sections: Vec::new(), prose: true };
    reader.read(problems);
    Source { front_matter, sections: reader.sections, body_at }
}

/// Finds the front matter. Gives it and where the body begins.
fn front_matter(source: &str, problems: &mut Problems<'_>) -> (Option<Excerpt>, usize) {
    let start = if source.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
    let mut lines = source[start..].split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        problems.error_with_help(
            start,
            "a flow begins with front matter",
            "begin the file with a line ---, then flowmarkdown_version, tenant and flow, then a \
             line ---",
        );
        return (None, start);
    }
    let content_at = start + first.len();
    let mut at = content_at;
    for line in lines {
        if line.trim_end() == "---" {
            let excerpt = Excerpt::contiguous(&source[content_at..at], content_at);
            return (Some(excerpt), at + line.len());
        }
        at += line.len();
    }
    problems.error_with_help(start, "the front matter has no end", "end it with a line ---");
    (None, source.len())
}

struct Reader<'s> {
    body: &'s str,
    body_at: usize,
    sections: Vec<Section>,
    /// Whether the section that is being read is prose.
    prose: bool,
}

impl<'s> Reader<'s> {
    fn read(&mut self, problems: &mut Problems<'_>) {
        let mut nesting = 0usize;
        let mut fence: Option<Fence> = None;
        for (event, range) in Parser::new_ext(self.body, Options::empty()).into_offset_iter() {
            let at = self.body_at + range.start;
            let raw = &self.body[range.clone()];
            match event {
                Event::Start(tag) => {
                    if nesting == 0 {
                        match tag {
                            Tag::Heading { level, .. } => self.heading(level, raw, at, problems),
                            Tag::Paragraph => self.paragraph(raw, at, problems),
                            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                                if !is_closed(raw) {
                                    problems.error_with_help(
                                        at,
                                        "this fence is never closed",
                                        "what follows it would be part of it",
                                    );
                                }
                                let info = info.trim().to_owned();
                                fence = Some(Fence { info, at, content: Excerpt::default() });
                            }
                            _ => {}
                        }
                    }
                    nesting += 1;
                }
                Event::End(_) => {
                    nesting = nesting.saturating_sub(1);
                    if nesting == 0
                        && let Some(fence) = fence.take()
                    {
                        self.fence(fence, problems);
                    }
                }
                Event::Text(text) => {
                    if let Some(fence) = &mut fence {
                        fence.content.push(&text, at);
                    }
                }
                _ => {}
            }
        }
    }

    fn heading(&mut self, level: HeadingLevel, raw: &str, at: usize, problems: &mut Problems<'_>) {
        let text = heading_text(raw);
        let section = section_name(&text);
        if level != HeadingLevel::H2 {
            if section.is_some() {
                problems.warning(
                    at,
                    format!("{text:?} is no step: it is not a level-2 heading"),
                    "a step begins with two signs: `## Step: NAME`",
                );
            }
            return;
        }
        self.prose = section.is_none();
        match section {
            Some((fault, name)) => self.sections.push(Section {
                fault,
                name: name.to_owned(),
                at,
                properties: None,
                fences: Vec::new(),
            }),
            None => {
                if let Some(meant) = nearly(&text) {
                    problems.warning(
                        at,
                        format!("{text:?} is prose, so what follows it is ignored"),
                        format!("if a step is meant, write `## {meant}: NAME`"),
                    );
                }
            }
        }
    }

    fn paragraph(&mut self, raw: &'s str, at: usize, problems: &mut Problems<'_>) {
        let Some(key) = property_key(raw) else { return };
        let known = STEP_KEYS.contains(&key.to_ascii_lowercase().as_str());
        let section = self.sections.last_mut().filter(|_| !self.prose);
        match section {
            Some(section) if section.properties.is_none() => {
                section.properties = Some(Excerpt::contiguous(raw, at));
            }
            Some(_) if known => problems.error_with_help(
                at,
                format!("`{key}` stands in a second paragraph of properties"),
                "the properties of a step are one paragraph, without blank lines",
            ),
            None if known => problems.warning(
                at,
                format!("`{key}` stands in no step and is ignored"),
                "a step begins with `## Step: NAME`",
            ),
            _ => {}
        }
    }

    fn fence(&mut self, fence: Fence, problems: &mut Problems<'_>) {
        match self.sections.last_mut().filter(|_| !self.prose) {
            Some(section) => section.fences.push(fence),
            None if FENCES.contains(&fence.info.as_str()) => {
                problems.warning(
                    fence.at,
                    format!("this {} fence stands in no step and is ignored", fence.info),
                    "a step begins with `## Step: NAME`",
                );
            }
            None => {}
        }
    }
}

/// The text of a heading, in either form that Markdown has.
fn heading_text(raw: &str) -> String {
    let raw = raw.trim();
    if let Some(rest) = raw.strip_prefix('#') {
        let text = rest.trim_start_matches('#').trim();
        let bare = text.trim_end_matches('#');
        // A closing run of signs counts only after a space.
        let closed = bare.is_empty() || bare.ends_with([' ', '\t']);
        return if closed { bare.trim().to_owned() } else { text.to_owned() };
    }
    let lines: Vec<&str> = raw.lines().collect();
    lines[..lines.len().saturating_sub(1)].join(" ").trim().to_owned()
}

/// Whether a heading is a step's, and its name.
fn section_name(heading: &str) -> Option<(bool, &str)> {
    if let Some(name) = heading.strip_prefix("Step:") {
        return Some((false, name.trim()));
    }
    heading.strip_prefix("Fault:").map(|name| (true, name.trim()))
}

/// What a heading that is no step's was probably meant to be.
fn nearly(heading: &str) -> Option<&'static str> {
    let (word, colon) = match heading.split_once(':') {
        Some((word, _)) => (word.trim(), true),
        None => (heading.split_whitespace().next().unwrap_or_default(), false),
    };
    let near = |meant: &str| match colon {
        true => distance(word, meant) <= 1,
        false => word.eq_ignore_ascii_case(meant),
    };
    ["Step", "Fault"].into_iter().find(|meant| near(meant))
}

/// The key of the first line, if a paragraph is one of properties: lower case, or nearly a key that
/// is known.
fn property_key(paragraph: &str) -> Option<&str> {
    let (key, rest) = paragraph.lines().next()?.split_once(':')?;
    let key = key.trim();
    let word = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let separate = rest.is_empty() || rest.starts_with([' ', '\t']);
    if key.is_empty() || !word || !separate {
        return None;
    }
    let lower = !key.contains(|c: char| c.is_ascii_uppercase());
    (lower || nearest(key, &STEP_KEYS).is_some()).then_some(key)
}

/// Whether a fenced block has its closing fence.
fn is_closed(raw: &str) -> bool {
    let mut lines = raw.trim_end().lines();
    let sign = lines.next().unwrap_or_default().trim_start().chars().next().unwrap_or('`');
    lines.next_back().is_some_and(|last| {
        let last = last.trim();
        last.len() >= 3 && last.chars().all(|c| c == sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take_apart(source: &str) -> (Source, Vec<String>) {
        let mut problems = Problems::new(source);
        let parts = read(source, &mut problems);
        (parts, problems.into_sorted().iter().map(|problem| problem.to_string()).collect())
    }

    #[test]
    fn sections_properties_and_fences_are_found_with_their_places() {
        let source = "---\nflow: x\n---\n\n# Title\n\nProse: about it.\n\n## Step: one ##\n\nSome \
         prose.\n\n\
                      effects: [a]\nheaders: {\"a\":\n  \"b\"}\n\n  ```ntd\n  {\"a\":\n   1}\n  \
                      ```\n\n\
                      ## Notes\n\n```json\n## Step: no\n```\n\n## Fault:\n\n~~~validate\ntrue | \
                      \"x\"\n~~~\n";
        let (parts, problems) = take_apart(source);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(parts.front_matter.unwrap().text, "flow: x\n");
        let names: Vec<_> = parts.sections.iter().map(|s| (s.fault, s.name.as_str())).collect();
        assert_eq!(names, [(false, "one"), (true, "")]);
        let one = &parts.sections[0];
        assert!(one.properties.as_ref().unwrap().text.starts_with("effects: [a]\nheaders:"));
        let fence = &one.fences[0].content;
        assert_eq!(fence.text, "{\"a\":\n 1}\n");
        let at = fence.place(fence.text.find('1').unwrap());
        assert_eq!(&source[at..at + 1], "1");
        assert_eq!(parts.sections[1].fences[0].info, "validate");
    }

    #[test]
    fn headings_that_are_nearly_steps_are_warned_about() {
        for heading in [
            "## step: x",
            "## Stpe: x",
            "## Step x",
            "## Steps: x",
            "## Fault",
            "## Fualt: x",
            "### Step: x",
            "# Fault: x",
            "## Step : x",
        ] {
            let (parts, problems) = take_apart(&format!("---\n---\n{heading}\n"));
            assert!(parts.sections.is_empty(), "{heading}");
            assert_eq!(problems.len(), 1, "{heading} {problems:?}");
            assert!(problems[0].contains("warning"), "{problems:?}");
        }
        for heading in ["## Steps", "## Notes: x", "## Why", "## Default: 3", "## Stepping stones"]
        {
            let (_, problems) = take_apart(&format!("---\n---\n{heading}\n"));
            assert!(problems.is_empty(), "{heading} {problems:?}");
        }
    }

    #[test]
    fn broken_structure_is_an_error_at_its_place() {
        let first = |source: &str| take_apart(source).1[0].clone();
        assert_eq!(first("# Hello"), "1:1: error: a flow begins with front matter");
        assert_eq!(first("---\nflow: x\n"), "1:1: error: the front matter has no end");
        assert_eq!(
            first("---\n---\n## Step: a\n```ntd\n{}\n"),
            "4:1: error: this fence is never closed"
        );
        assert_eq!(
            first("---\n---\n## Step: a\neffects: []\n\nqueue: x\n"),
            "6:1: error: `queue` stands in a second paragraph of properties"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            take_apart(&text);
        }

        #[test]
        fn no_markdown_makes_it_panic(
            text in "(---\n|## Step: |## |### |Fault:|```ntd|```|~~~|\n|  |> |- |a: \
             |\\[|\\{|\"|é|\r\n|\t){0,30}",
        ) {
            let (parts, _) = take_apart(&text);
            for fence in parts.sections.iter().flat_map(|section| &section.fences) {
                for at in 0..=fence.content.text.len() {
                    prop_assert!(fence.content.place(at) <= text.len());
                }
            }
        }
    }
}
