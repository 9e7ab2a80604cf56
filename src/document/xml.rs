//! Reads XML safely, as a stream of [`XmlPart`]s.
//!
//! Promises: a DOCTYPE (or any other declaration) is refused before the parser sees it, so there
//! are no entities but the five predefined ones and character references, and nothing outside is
//! ever read. Depth, attributes, namespace declarations and the lengths of names are checked while
//! streaming, so time stays linear. The text is UTF-8, or UTF-16 with a byte order mark, and a
//! declaration that says otherwise is refused: never mojibake. Not here: what the parts become
//! (`flatten`).

use std::fmt;

use xml_rs::ParserConfig;
use xml_rs::common::Position;
use xml_rs::reader::XmlEvent;

use crate::base::limits::{
    MAX_DOCUMENT_DEPTH, MAX_XML_ATTRIBUTES, MAX_XML_NAME_LEN, MAX_XML_NAMESPACES,
};

/// Why a text is not accepted as XML, and where. It never repeats the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlError {
    /// Line from 1, or 0 when the fault has no place.
    pub line: usize,
    /// Column from 1, or 0 when the fault has no place.
    pub column: usize,
    /// What was expected, or which rule is broken.
    pub text: String,
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str(&self.text);
        }
        write!(f, "line {}, column {}: {}", self.line, self.column, self.text)
    }
}

impl std::error::Error for XmlError {}

/// A part of an XML document. Names are local names: prefixes are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XmlPart {
    /// An element begins.
    Start {
        /// Its name.
        name: String,
        /// Its attributes in order, without those that declare namespaces.
        attributes: Vec<(String, String)>,
    },
    /// The innermost element ends.
    End,
    /// Text, with its references resolved.
    Text(String),
    /// Text that was written as CDATA.
    Verbatim(String),
}

/// Reads the document and hands each part to `sink`.
///
/// # Errors
/// The first fault; `sink` may have seen what came before it. A fault that `sink` finds ends the
/// reading too.
pub fn read(
    bytes: &[u8],
    mut sink: impl FnMut(XmlPart) -> Result<(), String>,
) -> Result<(), XmlError> {
    let text = decode(bytes)?;
    refuse_declarations(&text)?;
    let mut reader = ParserConfig::new()
        .whitespace_to_characters(true)
        .cdata_to_characters(false)
        .ignore_comments(true)
        .coalesce_characters(false)
        .allow_multiple_root_elements(false)
        .max_attributes(MAX_XML_ATTRIBUTES)
        .max_name_length(MAX_XML_NAME_LEN)
        .create_reader(text.as_bytes());
    let mut depth = 0;
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(error) => return Err(parser_error(&error)),
        };
        let place = reader.position();
        let fault = |text| at(place.row as usize + 1, place.column as usize + 1, text);
        let part = match event {
            XmlEvent::StartElement { name, attributes, namespace } => {
                depth += 1;
                check_element(depth, namespace.0.len()).map_err(fault)?;
                let attributes = attributes.into_iter().map(|a| (a.name.local_name, a.value));
                XmlPart::Start { name: name.local_name, attributes: attributes.collect() }
            }
            XmlEvent::EndElement { .. } => {
                depth -= 1;
                XmlPart::End
            }
            XmlEvent::CData(text) => XmlPart::Verbatim(text),
            XmlEvent::Characters(text) | XmlEvent::Whitespace(text) => XmlPart::Text(text),
            XmlEvent::EndDocument => return Ok(()),
            XmlEvent::Doctype { .. } => return Err(fault(NO_DOCTYPE.to_owned())),
            XmlEvent::StartDocument { .. }
            | XmlEvent::ProcessingInstruction { .. }
            | XmlEvent::Comment(_) => continue,
        };
        if depth > 0 || part == XmlPart::End {
            sink(part).map_err(fault)?;
        }
    }
}

const NO_DOCTYPE: &str = "a DOCTYPE is not accepted";

/// Prefixes that are always declared: `xml`, `xmlns` and the empty one.
const BUILT_IN_NAMESPACES: usize = 3;

fn check_element(depth: usize, namespaces: usize) -> Result<(), String> {
    if depth > MAX_DOCUMENT_DEPTH {
        return Err(format!("expected at most {MAX_DOCUMENT_DEPTH} levels of elements"));
    }
    if namespaces > MAX_XML_NAMESPACES + BUILT_IN_NAMESPACES {
        return Err(format!("expected at most {MAX_XML_NAMESPACES} declared namespaces"));
    }
    Ok(())
}

/// The parser's own words for a fault of syntax can repeat names of the document, so they are
/// sorted into a few.
fn parser_error(error: &xml_rs::reader::Error) -> XmlError {
    let place = error.position();
    let text = error.to_string();
    let said = |words: &str| text.contains(words);
    let what = if said("prefix is unbound") {
        "expected a declared namespace prefix"
    } else if said("Unexpected closing tag") {
        "expected the closing tag of the innermost open element"
    } else if said("is redefined") {
        "expected an attribute only once in an element"
    } else if said("Undefined entity") || said("Unexpected entity") {
        "expected one of the entities &lt; &gt; &amp; &quot; &apos; or a character reference"
    } else if said("larger/more complex") {
        "a name is too long, or an element has too many attributes"
    } else if said("Unexpected end of stream") || said("end of stream") {
        "the text ends, and expected was the rest of the XML document"
    } else if said("no root element") {
        "expected an element"
    } else {
        "expected well-formed XML"
    };
    at(place.row as usize + 1, place.column as usize + 1, what.to_owned())
}

fn at(line: usize, column: usize, text: String) -> XmlError {
    XmlError { line, column, text }
}

fn nowhere<T>(text: impl Into<String>) -> Result<T, XmlError> {
    Err(at(0, 0, text.into()))
}

/// The text of the document, checked against the encoding that it declares and without that
/// declaration.
fn decode(bytes: &[u8]) -> Result<String, XmlError> {
    let (text, utf16) = match bytes {
        [0xFE, 0xFF, rest @ ..] => (utf16(rest, u16::from_be_bytes)?, true),
        [0xFF, 0xFE, rest @ ..] => (utf16(rest, u16::from_le_bytes)?, true),
        _ => {
            let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            let text = std::str::from_utf8(bytes)
                .map_err(|_| at(0, 0, "expected UTF-8, and this is none".to_owned()))?;
            (text.to_owned(), false)
        }
    };
    if text.trim().is_empty() {
        return nowhere("the text is empty, and expected was an XML document");
    }
    blank_encoding(text, utf16)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, XmlError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> =
        char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(text),
        _ => nowhere("expected UTF-16 after its byte order mark, and this is none"),
    }
}

/// Checks `encoding="…"` of the XML declaration and overwrites it with spaces, so that the parser,
/// which is given UTF-8, keeps to UTF-8 and counts the same columns.
fn blank_encoding(mut text: String, utf16: bool) -> Result<String, XmlError> {
    if !text.starts_with("<?xml") {
        return Ok(text);
    }
    let Some(end) = text.find("?>") else { return Ok(text) };
    let Some((start, name, after)) = declared_encoding(&text[..end]) else { return Ok(text) };
    let name = name.to_ascii_lowercase();
    let right = match name.as_str() {
        "utf-8" | "utf8" => !utf16,
        "utf-16" | "utf16" | "utf-16le" | "utf-16be" => utf16,
        _ => false,
    };
    if !right {
        return nowhere(
            "the declared encoding must be UTF-8, or UTF-16 with a byte order mark, and be that \
             of the bytes",
        );
    }
    text.replace_range(start..after, &" ".repeat(after - start));
    Ok(text)
}

/// Finds ` encoding = "NAME"` in an XML declaration: where it starts, the name, and where it ends.
fn declared_encoding(declaration: &str) -> Option<(usize, &str, usize)> {
    let start = declaration.find("encoding")?;
    let after_word = &declaration[start + "encoding".len()..];
    let after_equals = after_word.trim_start().strip_prefix('=')?.trim_start();
    let quote = after_equals.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let value = &after_equals[1..];
    let len = value.find(quote)?;
    let end = declaration.len() - value.len() + len + 1;
    Some((start, &value[..len], end))
}

/// Goes over the text before the parser does. Outside of comments and CDATA, `<!` begins nothing
/// but a declaration.
fn refuse_declarations(text: &str) -> Result<(), XmlError> {
    let mut from = 0;
    while let Some(found) = text[from..].find('<') {
        let start = from + found;
        let rest = &text[start..];
        let whole = |open: &str, close: &str| {
            let len = rest.strip_prefix(open)?.find(close)?;
            Some(open.len() + len + close.len())
        };
        let end = if rest.starts_with("<!--") {
            whole("<!--", "-->")
        } else if rest.starts_with("<![CDATA[") {
            whole("<![CDATA[", "]]>")
        } else if rest.starts_with("<?") {
            whole("<?", "?>")
        } else if rest.starts_with("<!") {
            let before = &text[..start];
            let line = 1 + before.matches('\n').count();
            let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
            return Err(at(line, column, NO_DOCTYPE.to_owned()));
        } else {
            Some(1)
        };
        match end {
            Some(len) => from = start + len,
            // Something without an end: the parser says so.
            None => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        read(text.as_bytes(), |_| Ok(())).unwrap_err().to_string()
    }

    fn text_of(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        read(bytes, |part| {
            if let XmlPart::Text(piece) | XmlPart::Verbatim(piece) = part {
                text.push_str(&piece);
            }
            Ok(())
        })
        .map(|()| text)
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_doctype_is_refused_before_the_parser_sees_it() {
        let bombs = [
            "<!DOCTYPE a [<!ENTITY l \"lol\"><!ENTITY m \"&l;&l;\">]><a>&m;</a>".to_owned(),
            "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/hostname\">]><a>&x;</a>".to_owned(),
            format!("<!DOCTYPE{}", "<".repeat(500)),
            "<!doctype a><a/>".to_owned(),
            "<a><!ELEMENT b EMPTY></a>".to_owned(),
        ];
        for bomb in bombs {
            assert!(error(&bomb).ends_with("a DOCTYPE is not accepted"), "{bomb}");
        }
        assert_eq!(
            error("<?xml version=\"1.0\"?>\n<!DOCTYPE a>"),
            "line 2, column 1: a DOCTYPE is not accepted"
        );
        assert!(text_of(b"<a><!-- <!DOCTYPE --><![CDATA[<!DOCTYPE]]></a>").is_ok());
    }

    #[test]
    fn the_predefined_entities_and_character_references_work_and_no_others() {
        assert_eq!(text_of(b"<a>&lt;&gt;&amp;&quot;&apos;&#233;&#xe9;</a>").unwrap(), "<>&\"'éé");
        assert!(error("<a>&nbsp;</a>").contains("expected one of the entities"));
    }

    #[test]
    fn the_encoding_is_utf8_or_utf16_with_a_mark_and_never_guessed() {
        assert_eq!(
            text_of("<?xml version='1.0' encoding='UTF-8'?><a>é</a>".as_bytes()).unwrap(),
            "é"
        );
        assert_eq!(text_of("\u{FEFF}<a>é</a>".as_bytes()).unwrap(), "é");
        let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{FEFF}".encode_utf16().chain(text.encode_utf16()).flat_map(unit).collect()
        };
        let declared = "<?xml version=\"1.0\" encoding=\"utf-16\"?><a>é😀</a>";
        assert_eq!(text_of(&utf16(declared, u16::to_be_bytes)).unwrap(), "é😀");
        assert_eq!(text_of(&utf16(declared, u16::to_le_bytes)).unwrap(), "é😀");
        assert_eq!(text_of(&utf16("<a>é</a>", u16::to_le_bytes)).unwrap(), "é");
        for bad in [
            "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>é</a>".as_bytes(),
            b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xE9</a>",
            b"<a>\xE9</a>",
            declared.as_bytes(),
            b"\xFF\xFE<\0a",
            b"<\0a\0/\0>\0",
            b"",
            b"  \n",
        ] {
            assert!(text_of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn depth_names_attributes_and_namespaces_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(text_of(nested(128).as_bytes()).is_ok());
        assert!(error(&nested(129)).contains("at most 128 levels"));
        assert!(error(&"<a>".repeat(100_000)).contains("at most 128 levels"));
        let name = |len: usize| format!("<{}/>", "n".repeat(len));
        assert!(text_of(name(MAX_XML_NAME_LEN).as_bytes()).is_ok());
        assert!(error(&name(MAX_XML_NAME_LEN + 2)).contains("too long"));
        let attributes = |count: usize| {
            let all: String = (0..count).map(|n| format!(" a{n}=''")).collect();
            format!("<a{all}/>")
        };
        assert!(text_of(attributes(MAX_XML_ATTRIBUTES).as_bytes()).is_ok());
        assert!(error(&attributes(MAX_XML_ATTRIBUTES + 1)).contains("too many attributes"));
        let namespaces = |count: usize| {
            let all: String = (0..count).map(|n| format!(" xmlns:p{n}='u'")).collect();
            format!("<a{all}/>")
        };
        assert!(text_of(namespaces(MAX_XML_NAMESPACES).as_bytes()).is_ok());
        assert!(error(&namespaces(MAX_XML_NAMESPACES + 1)).contains("declared namespaces"));
    }

    #[test]
    fn errors_name_the_place_and_never_repeat_the_document() {
        assert_eq!(
            error("<secret>\n<b></secret>"),
            "line 2, column 12: expected the closing tag of the innermost open element"
        );
        assert!(error("<x:secret/>").contains("expected a declared namespace prefix"));
        assert!(error("<secret a='1' a='2'/>").contains("only once"));
        for bad in [
            "<secret>",
            "secret",
            "<secret/><secret/>",
            "<secret a=1/>",
            "<a>&#0;</a>",
            "<a b='<'/>",
        ] {
            assert!(!error(bad).contains("secret"), "{bad}: {}", error(bad));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[<>/!?a-c='\"\\[\\]&;#x\\- :]{0,40}") {
            let _ = read(text.as_bytes(), |_| Ok(()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(&bytes, |_| Ok(()));
        }
    }
}
