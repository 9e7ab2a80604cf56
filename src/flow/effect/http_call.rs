//! The effect `http_egress` as a step declares it: what is sent, and what the answer becomes.
//!
//! The current document is the body, byte for byte until a step replaces it. A 2xx answer becomes
//! the current document: JSON as it is, XML flattened as at the door, other text as a JSON string;
//! an empty body leaves the document as it was. Anything else fails the step. Source: the
//! document's sections "Delivery semantics" and "Listing", for the text of the failure.

use std::time::Duration;

use crate::base::CorrelationId;
use crate::document::{Value, flatten, json};
use crate::flow::current::Current;
use crate::flow::effect::http_egress::{Answer, EgressError, EgressRequest, HttpEgress, check_url};
use crate::flow::expression::{Reason, Scope};
use crate::flow::template::TextTemplate;

/// What a step sends and what it takes back.
#[derive(Debug, Clone)]
pub struct HttpCall {
    /// Where to; placeholders are percent-encoded unless the whole is one.
    pub endpoint: TextTemplate,
    /// How.
    pub method: Method,
    /// Names as they are written, and values. No name comes twice.
    pub headers: Vec<(String, TextTemplate)>,
    /// What the call may take, in milliseconds.
    pub timeout_ms: u64,
    /// Ceiling on the answer's body, in bytes.
    pub max_response_bytes: u64,
}

/// A method that a step can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// No body is sent.
    Get,
    /// No body is sent.
    Head,
    /// The default.
    Post,
    /// Sends the document.
    Put,
    /// Sends the document.
    Patch,
    /// No body is sent.
    Delete,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 6] =
        [Method::Get, Method::Head, Method::Post, Method::Put, Method::Patch, Method::Delete];

    /// The method of this name, in capital letters.
    pub fn parse(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    fn sends_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The downstream, or the way to it.
    Egress(EgressError),
    /// The call could not be put together, or its answer not be read.
    Content(String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Egress(error) => write!(f, "effect handler failed: {error}"),
            CallError::Content(text) => write!(f, "effect handler failed: {text}"),
        }
    }
}

impl HttpCall {
    /// Makes the call within `left`. Gives the new document, or `None` when the answer leaves it as
    /// it was.
    pub(crate) fn perform<'m>(
        &self,
        egress: &HttpEgress,
        document: &Current<'_>,
        scope: &Scope<'_>,
        correlation_id: &CorrelationId,
        left: Duration,
    ) -> Result<Option<Current<'m>>, CallError> {
        let url = self
            .endpoint
            .render_encoded(scope, encode_part)
            .map_err(|reason| CallError::Content(format!("the endpoint: {reason}")))?;
        check_url(&url).map_err(|reason| CallError::Content(format!("the endpoint {reason}")))?;
        let headers = self.rendered_headers(scope, correlation_id)?;
        let request = EgressRequest {
            method: self.method.as_str(),
            url: &url,
            headers: &headers,
            body: self.method.sends_body().then(|| document.text()),
            timeout: left.min(Duration::from_millis(self.timeout_ms)),
            max_response_bytes: self.max_response_bytes,
        };
        let answer = egress.send(&request).map_err(CallError::Egress)?;
        document_of(answer).map_err(CallError::Content)
    }

    fn rendered_headers(
        &self,
        scope: &Scope<'_>,
        correlation_id: &CorrelationId,
    ) -> Result<Vec<(String, String)>, CallError> {
        let mut headers = Vec::with_capacity(self.headers.len() + 2);
        for (name, template) in &self.headers {
            let value = template
                .render(scope)
                .map_err(|reason| CallError::Content(format!("the header '{name}': {reason}")))?;
            if value.contains(['\r', '\n']) {
                let text = format!("the header '{name}' would have a line break");
                return Err(CallError::Content(text));
            }
            headers.push((name.clone(), value));
        }
        let mut default = |name: &str, value: &str| {
            if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        };
        default("X-Correlation-ID", correlation_id.as_str());
        if self.method.sends_body() {
            default("Content-Type", "application/json");
        }
        Ok(headers)
    }
}

/// What an answer becomes; `None` when it leaves the document as it was.
fn document_of<'m>(answer: Answer) -> Result<Option<Current<'m>>, String> {
    if answer.body.is_empty() {
        return Ok(None);
    }
    if let Some(encoding) = &answer.content_encoding
        && !encoding.trim().eq_ignore_ascii_case("identity")
    {
        return Err("the answer is compressed, which was not asked for".to_owned());
    }
    let header = answer.content_type.unwrap_or_default().to_ascii_lowercase();
    let mut parts = header.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    if media_type == "application/xml" || media_type == "text/xml" || media_type.ends_with("+xml") {
        let value = flatten::flatten(&answer.body)
            .map_err(|error| format!("the answer is not XML that can be read: {error}"))?;
        return Ok(Some(Current::from_value(value, true)));
    }
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    if !matches!(charset.map(|c| c.trim_matches('"')), None | Some("utf-8" | "utf8" | "us-ascii")) {
        return Err("the answer is not UTF-8".to_owned());
    }
    let says_json = media_type == "application/json" || media_type.ends_with("+json");
    match json::validate(&answer.body) {
        Ok(()) if says_json || media_type.is_empty() => {
            Ok(Some(Current::from_text(answer.body, false)))
        }
        Err(error) if says_json => {
            Err(format!("the answer says that it is JSON and is not: {error}"))
        }
        _ => match String::from_utf8(answer.body) {
            Ok(text) => Ok(Some(Current::from_value(Value::String(text), false))),
            Err(_) => Err("the answer is neither JSON, XML nor UTF-8 text".to_owned()),
        },
    }
}

/// A value for a part of a URL. One of dots alone would lead out of its place, encoded or not.
fn encode_part(value: String) -> Result<String, Reason> {
    if matches!(value.as_str(), "." | "..") {
        return Err(Reason("a value of dots alone cannot be part of a URL".to_owned()));
    }
    Ok(percent_encode(&value))
}

/// Encodes all but the unreserved characters of RFC 3986.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(byte as char);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Why a text cannot be an endpoint, as far as that is known before a message is there.
///
/// # Errors
/// A text that goes on after the name of the key.
pub fn check_endpoint(endpoint: &TextTemplate) -> Result<(), &'static str> {
    let source = endpoint.source();
    match endpoint.start() {
        (_, false) => check_url(source),
        ("", true) if endpoint.is_one_placeholder() => Ok(()),
        ("", true) => {
            Err("begins with a placeholder and goes on, so its value would be percent-encoded")
        }
        (start, true) if start.starts_with("http://") || start.starts_with("https://") => Ok(()),
        _ => Err("must begin with http:// or https://"),
    }
}

/// Headers that the transport sets itself, in lower case.
const TRANSPORT_HEADERS: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Why a text cannot be the name of a header that a step sets.
///
/// # Errors
/// A text that goes on after the name.
pub fn check_header_name(name: &str) -> Result<(), &'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err("has a name that HTTP does not allow");
    }
    if TRANSPORT_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err("is set by the transport and cannot be set by a step");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(content_type: Option<&str>, body: &[u8]) -> Result<Option<(String, bool)>, String> {
        let answer = Answer {
            content_type: content_type.map(str::to_owned),
            content_encoding: None,
            body: body.to_vec(),
        };
        let document = document_of(answer)?;
        Ok(document.map(|d| (String::from_utf8(d.text().to_vec()).unwrap(), d.is_xml())))
    }

    #[test]
    fn an_answer_becomes_a_document_by_its_type() {
        let json = Some("application/json; charset=UTF-8");
        let cases = [
            (json, "{ \"a\": 1E400 }", "{ \"a\": 1E400 }", false),
            (Some("application/problem+json"), "[]", "[]", false),
            (Some("text/xml"), "<o><a>1</a></o>", "{\"a\":\"1\"}", true),
            (Some("application/soap+xml"), "<o/>", "\"\"", true),
            (Some("text/plain"), "{\"a\":1}", "\"{\\\"a\\\":1}\"", false),
            (Some("text/html"), "<p>\n", "\"<p>\\n\"", false),
            (None, "{\"a\":1}", "{\"a\":1}", false),
            (None, "ok", "\"ok\"", false),
        ];
        for (content_type, body, text, xml) in cases {
            let expected = Ok(Some((text.to_owned(), xml)));
            assert_eq!(becomes(content_type, body.as_bytes()), expected, "{content_type:?}");
        }
        assert_eq!(becomes(json, b""), Ok(None));
        assert!(becomes(json, b"{\"a\":1,\"a\":2}").unwrap_err().contains("line 1, column 8"));
        assert!(becomes(Some("text/plain"), b"\xff").is_err());
        assert!(becomes(Some("text/plain; charset=latin1"), b"x").is_err());
        assert!(becomes(Some("application/xml"), b"<!DOCTYPE a><a/>").is_err());
    }

    #[test]
    fn endpoints_and_header_names_are_checked_before_a_message_is_there() {
        let check = |text: &str| check_endpoint(&TextTemplate::parse(text).unwrap());
        for good in [
            "http://127.0.0.1:9090/dev/echo",
            "https://orders.example.com/ingest",
            "https://x.example/{{ $.id }}?a={{ $.b }}",
            "https://{{ $.host }}/",
            "{{ secret.URL }}",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "x",
            "/ingest",
            "ftp://x/",
            "https://",
            "http:// x/",
            "{{ $.a }}/b",
            "http{{ $.s }}://x",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(check_header_name("Idempotency-Key"), Ok(()));
        for bad in ["", "a b", "a:b", "é", "Content-Length", "HOST", "transfer-encoding"] {
            assert!(check_header_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_in_an_endpoint_is_percent_encoded() {
        let encode = |text: &str| encode_part(text.to_owned());
        assert_eq!(encode("a/b?c=d&é ~").unwrap(), "a%2Fb%3Fc%3Dd%26%C3%A9%20~");
        assert_eq!(encode("1.5").unwrap(), "1.5");
        assert!(encode("..").is_err() && encode(".").is_err());
    }
}
