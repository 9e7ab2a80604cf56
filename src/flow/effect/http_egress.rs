//! The HTTP client that all runs of a process share.
//!
//! One request, one answer: redirects are never followed, statuses are values and not errors,
//! nothing is tried twice. The deadline covers everything from the look-up of the name to the last
//! byte of the answer, which is read up to its ceiling only. A connection is kept for the next
//! call, but shorter than common servers keep theirs, and is looked at before it is used, so that
//! no attempt is wasted on one that was closed. Addresses that only a machine's own cloud answers
//! (link-local: 169.254.0.0/16, fe80::/10) are refused on the resolved address. Proxies of the
//! environment are not used, since that check would not hold behind one.
//!
//! Error texts name host and port, and never a path, a header or a body. Not here: what a step
//! sends and what an answer means (`http_call`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, AsSendBody, Body};

use crate::base::limits::{EGRESS_IDLE_AGE, MAX_IN_FLIGHT, MAX_RESPONSE_HEAD_BYTES};

/// The shared HTTP client. Cheap to share, costly to make: one for each process.
pub struct HttpEgress {
    agent: Agent,
}

/// A request, ready to be sent.
#[derive(Debug)]
pub struct EgressRequest<'r> {
    /// The method's name.
    pub method: &'r str,
    /// An absolute URL.
    pub url: &'r str,
    /// Names and values.
    pub headers: &'r [(String, String)],
    /// The body, for methods that have one.
    pub body: Option<&'r [u8]>,
    /// What the whole exchange may take.
    pub timeout: Duration,
    /// Ceiling on the answer's body, in bytes.
    pub max_response_bytes: u64,
}

/// A 2xx answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its `Content-Type`, if it is text.
    pub content_type: Option<String>,
    /// Its `Content-Encoding`, if it has one.
    pub content_encoding: Option<String>,
    /// Its body, whole.
    pub body: Vec<u8>,
}

/// Why there is no 2xx answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The downstream answered with another status.
    #[error("{text}")]
    Status {
        /// `HTTP 503 Service Unavailable`; for a redirect with the host that it names.
        text: String,
        /// The status.
        status: u16,
        /// Its `Retry-After`, as it was written.
        retry_after: Option<String>,
    },
    /// The deadline passed.
    #[error("{0}")]
    Timeout(String),
    /// Nothing was exchanged, or not to the end.
    #[error("{0}")]
    Transport(String),
}

impl Default for HttpEgress {
    fn default() -> HttpEgress {
        HttpEgress::new()
    }
}

impl HttpEgress {
    /// A client without connections.
    pub fn new() -> HttpEgress {
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("nexus/", env!("CARGO_PKG_VERSION")))
            .max_response_header_size(MAX_RESPONSE_HEAD_BYTES)
            .max_idle_age(EGRESS_IDLE_AGE)
            .max_idle_connections_per_host(MAX_IN_FLIGHT)
            .max_idle_connections(4 * MAX_IN_FLIGHT)
            .build();
        let resolver = GuardedResolver(DefaultResolver::default());
        HttpEgress { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) }
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// [`EgressError`] for everything but a whole 2xx answer.
    pub fn send(&self, request: &EgressRequest<'_>) -> Result<Answer, EgressError> {
        let uri: Uri = request
            .url
            .parse()
            .map_err(|_| EgressError::Transport("the endpoint is not a URL".to_owned()))?;
        let Some(target) = host_and_port(&uri) else {
            return Err(EgressError::Transport("the endpoint names no host".to_owned()));
        };
        let failed = |error: ureq::Error| transport_error(&error, &target, request);
        let mut response = match request.body {
            Some(body) => self.exchange(build(request, uri, body)?, request.timeout),
            None => self.exchange(build(request, uri, ())?, request.timeout),
        }
        .map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            return Err(status_error(status, &response));
        }
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (content_type, content_encoding) = (text("content-type"), text("content-encoding"));
        // One byte more than allowed is asked for, so that a body that just fits is told from one
        // that does not.
        let limit = request.max_response_bytes.saturating_add(1);
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
        if body.len() as u64 > request.max_response_bytes {
            return Err(too_large(request));
        }
        Ok(Answer { content_type, content_encoding, body })
    }

    fn exchange<B: AsSendBody>(
        &self,
        request: Request<B>,
        timeout: Duration,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        self.agent.run(request)
    }
}

/// Why a text cannot be the URL of a call: its scheme, its host, or its signs.
///
/// # Errors
/// A text that goes on after the name of the URL.
pub fn check_url(url: &str) -> Result<(), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must begin with http:// or https://");
    }
    match uri.host() {
        Some("") | None => Err("names no host"),
        Some(_) => Ok(()),
    }
}

fn build<B>(request: &EgressRequest<'_>, uri: Uri, body: B) -> Result<Request<B>, EgressError> {
    let mut builder = Request::builder().method(request.method).uri(uri);
    for (name, value) in request.headers {
        let refused = |what: &str| EgressError::Transport(format!("the header '{name}' {what}"));
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refused("has a name that cannot be sent"))?;
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| refused("has a value that cannot be sent"))?;
        value.set_sensitive(true);
        builder = builder.header(header, value);
    }
    builder.body(body).map_err(|_| EgressError::Transport("the request cannot be built".to_owned()))
}

fn host_and_port(uri: &Uri) -> Option<String> {
    let host = uri.host().filter(|host| !host.is_empty())?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    Some(format!("{host}:{port}"))
}

fn status_error(status: StatusCode, response: &Response<Body>) -> EgressError {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let mut text = format!("HTTP {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        text.push(' ');
        text.push_str(reason);
    }
    if status.is_redirection()
        && let Some(location) = header("location")
    {
        let place = match location.parse::<Uri>().ok().as_ref().and_then(host_and_port) {
            Some(host) => format!("to {host}"),
            None => "within the same host".to_owned(),
        };
        text.push_str(&format!(": a redirect {place} is not followed"));
    }
    let retry_after = header("retry-after").map(str::to_owned);
    EgressError::Status { text, status: status.as_u16(), retry_after }
}

fn too_large(request: &EgressRequest<'_>) -> EgressError {
    let most = request.max_response_bytes;
    EgressError::Transport(format!("the answer is larger than max_response_bytes ({most})"))
}

/// The transport's reason with host and port.
fn transport_error(error: &ureq::Error, target: &str, request: &EgressRequest<'_>) -> EgressError {
    let reason = match error {
        ureq::Error::Timeout(_) => {
            let millis = request.timeout.as_millis();
            return EgressError::Timeout(format!("{target}: no answer within {millis} ms"));
        }
        ureq::Error::BodyExceedsLimit(_) => return too_large(request),
        ureq::Error::HostNotFound => "the host was not found".to_owned(),
        ureq::Error::LargeResponseHeader(..) => {
            format!("the answer's headers are larger than {MAX_RESPONSE_HEAD_BYTES} bytes")
        }
        ureq::Error::Protocol(_) => "the answer is not HTTP".to_owned(),
        ureq::Error::Io(error) => io_reason(error),
        ureq::Error::Rustls(error) => format!("TLS: {error}"),
        ureq::Error::Tls(reason) => format!("TLS: {reason}"),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the endpoint is not a URL".to_owned(),
        _ => "the call could not be made".to_owned(),
    };
    EgressError::Transport(format!("{target}: {reason}"))
}

fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the connection was reset".to_owned()
        }
        io::ErrorKind::UnexpectedEof => "the connection was closed before the answer".to_owned(),
        // TLS hands its own errors on in this kind.
        io::ErrorKind::InvalidData => format!("TLS: {error}"),
        _ => error.to_string(),
    }
}

/// Looks names up as the system does, and refuses what only the machine's own cloud answers.
#[derive(Debug)]
struct GuardedResolver(DefaultResolver);

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = match literal_address(uri) {
            // No look-up, and none of the threads that one takes.
            Some(address) => {
                let mut found = self.empty();
                found.push(address);
                found
            }
            None => self.0.resolve(uri, config, timeout)?,
        };
        if found.iter().any(|address| is_link_local(address.ip())) {
            let refused = "a link-local address is not called";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused).into());
        }
        Ok(found)
    }
}

fn literal_address(uri: &Uri) -> Option<SocketAddr> {
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if uri.scheme_str()? == "https" { 443 } else { 80 });
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port))
}

fn is_link_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
