//! From a body to the JSON that is stored.
//!
//! XML (`application/xml`, `text/xml`, `*/*+xml`) is flattened to JSON; every other type is taken
//! as JSON, so that a bare `curl -d` works, and kept byte for byte. A charset other than UTF-8, or
//! a content coding, is 415.

use crate::base::limits::MAX_MESSAGE_BYTES;
use crate::document::flatten::flatten;
use crate::document::json;
use crate::http::error::HttpError;
use crate::http::head::{Field, Head};

/// What a body is, by what its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Xml,
}

impl Format {
    /// The format of the body behind this head.
    ///
    /// # Errors
    /// 415 for a type or coding that is not read here.
    pub(super) fn of(head: &Head<'_>) -> Result<Format, HttpError> {
        check_coding(head.content_encoding)?;
        format_of(head.content_type)
    }

    /// The JSON of a body.
    ///
    /// # Errors
    /// 400 for a body that is not the document it should be.
    pub(super) fn to_json(self, body: Vec<u8>) -> Result<Vec<u8>, HttpError> {
        match self {
            Format::Json => {
                validate_json(&body)?;
                Ok(body)
            }
            Format::Xml => flatten_xml(&body),
        }
    }
}

/// Checks that a body is one JSON document.
///
/// # Errors
/// 400 with line and column and what was expected.
pub(super) fn validate_json(body: &[u8]) -> Result<(), HttpError> {
    json::validate(body).map_err(|error| {
        let hint = match body.trim_ascii_start().first() {
            Some(b'<') => "; XML is taken with Content-Type: application/xml",
            _ => "",
        };
        HttpError::Malformed(format!("the body is not JSON: {error}{hint}"))
    })
}

/// XML as the JSON that is stored. Escapes can make it longer than it came; no message is longer
/// than a frame holds.
fn flatten_xml(body: &[u8]) -> Result<Vec<u8>, HttpError> {
    let document = flatten(body)
        .map_err(|error| HttpError::Malformed(format!("the body is not XML: {error}")))?;
    let json = document.to_json().into_bytes();
    if json.len() as u64 > MAX_MESSAGE_BYTES {
        return Err(HttpError::BodyTooLong(MAX_MESSAGE_BYTES));
    }
    Ok(json)
}

fn check_coding(content_encoding: Field<'_>) -> Result<(), HttpError> {
    match content_encoding {
        Field::Absent => Ok(()),
        Field::Value(coding) if coding.eq_ignore_ascii_case(b"identity") => Ok(()),
        _ => Err(HttpError::UnsupportedMedia(
            "a Content-Encoding is not read here: send the body as it is",
        )),
    }
}

fn format_of(content_type: Field<'_>) -> Result<Format, HttpError> {
    let value = match content_type.single("Content-Type")? {
        None | Some(b"application/json") => return Ok(Format::Json),
        Some(value) => value,
    };
    let mut pieces = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let media_type = pieces.next().unwrap_or_default();
    if !pieces.all(is_utf8_or_other_parameter) {
        return Err(HttpError::UnsupportedMedia("the only charset that is read here is UTF-8"));
    }
    Ok(if is_xml(media_type) { Format::Xml } else { Format::Json })
}

/// Whether a parameter of a content type is anything but a charset that is not UTF-8.
fn is_utf8_or_other_parameter(parameter: &[u8]) -> bool {
    let Some(equals) = parameter.iter().position(|byte| *byte == b'=') else { return true };
    if !parameter[..equals].trim_ascii().eq_ignore_ascii_case(b"charset") {
        return true;
    }
    let charset = parameter[equals + 1..].trim_ascii();
    let charset = charset.strip_prefix(b"\"").unwrap_or(charset);
    let charset = charset.strip_suffix(b"\"").unwrap_or(charset);
    charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"utf8")
}

fn is_xml(media_type: &[u8]) -> bool {
    let ends_with = |suffix: &[u8]| {
        media_type.len() > suffix.len()
            && media_type[media_type.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
    };
    media_type.eq_ignore_ascii_case(b"application/xml")
        || media_type.eq_ignore_ascii_case(b"text/xml")
        || ends_with(b"+xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(content_type: &str) -> Result<Format, u16> {
        format_of(Field::Value(content_type.as_bytes())).map_err(|error| error.status())
    }

    #[test]
    fn everything_but_xml_is_json() {
        assert_eq!(format_of(Field::Absent), Ok(Format::Json));
        for json in [
            "application/json",
            "application/json; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
            "application/x-www-form-urlencoded",
            "application/vnd.x+json",
            "text/plain; boundary=x",
            "",
        ] {
            assert_eq!(format(json), Ok(Format::Json), "{json}");
        }
        for xml in ["application/xml", "Text/XML; charset=utf-8", "application/soap+xml"] {
            assert_eq!(format(xml), Ok(Format::Xml), "{xml}");
        }
    }

    #[test]
    fn other_charsets_and_codings_are_refused() {
        for bad in [
            "application/json; charset=utf-16",
            "application/json;charset=latin1",
            "application/json; a=b; CHARSET = \"iso-8859-1\"",
        ] {
            assert_eq!(format(bad), Err(415), "{bad}");
        }
        assert!(check_coding(Field::Value(b"identity")).is_ok());
        for bad in [Field::Value(b"gzip"), Field::Value(b""), Field::Differing] {
            assert_eq!(check_coding(bad).map_err(|error| error.status()), Err(415));
        }
    }

    #[test]
    fn malformed_json_is_refused_with_line_and_column() {
        for bad in [
            &b""[..],
            b" ",
            b"\xef\xbb\xbf1",
            b"{\"a\":1,\"a\":2}",
            b"\"\\ud800\"",
            b"{",
            b"{}{}",
            b"{\"a\":1,}",
            b"NaN",
            b"\xff",
            b"\"\xff\"",
        ] {
            let Err(HttpError::Malformed(text)) = validate_json(bad) else {
                panic!("accepted {bad:?}")
            };
            assert!(text.contains("line") && text.contains("column"), "{text}");
        }
        assert_eq!(validate_json(br#"{"a":[1,null,"x"]}"#), Ok(()));
    }
}
