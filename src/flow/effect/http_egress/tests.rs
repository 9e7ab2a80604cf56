//! The client against a downstream on loopback.

use std::io::Write;
use std::net::TcpListener;

use super::*;
use crate::flow::effect::downstream::{Downstream, answer, closed_port, json};

fn request<'r>(method: &'r str, url: &'r str) -> EgressRequest<'r> {
    EgressRequest {
        method,
        url,
        headers: &[],
        body: (method == "POST").then_some(b"{\"a\":1E400}"),
        timeout: Duration::from_secs(10),
        max_response_bytes: 1024,
    }
}

fn error(downstream: &Downstream) -> String {
    let url = downstream.url("/secret/path?key=secret");
    HttpEgress::new().send(&request("POST", &url)).unwrap_err().to_string()
}

#[test]
fn a_request_arrives_as_it_is_and_the_answer_comes_back() {
    let downstream = Downstream::new([&json("{\"ok\":true}")[..], &json("")]);
    let egress = HttpEgress::new();
    let headers = [("Idempotency-Key".to_owned(), "é 1".to_owned())];
    let url = downstream.url("/a/b?c=d");
    let answer =
        egress.send(&EgressRequest { headers: &headers, ..request("POST", &url) }).unwrap();
    assert_eq!(answer.body, b"{\"ok\":true}");
    assert_eq!(answer.content_type.as_deref(), Some("application/json"));
    let sent = downstream.request();
    assert!(sent.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\n{\"a\":1E400}"), "{sent}");
    let lower = sent.to_lowercase();
    assert!(lower.contains("idempotency-key: é 1\r\n"), "{sent}");
    assert!(
        lower.contains(&format!("user-agent: nexus/{}\r\n", env!("CARGO_PKG_VERSION"))),
        "{sent}"
    );
    assert!(!lower.contains("accept-encoding"), "{sent}");
    assert_eq!(egress.send(&request("GET", &url)).unwrap().body, b"");
    assert!(downstream.request().starts_with("GET /a/b?c=d "));
}

#[test]
fn a_status_other_than_2xx_is_told_by_number_and_reason() {
    let cases = [
        ("503 Whatever It Says", "HTTP 503 Service Unavailable"),
        ("404 Not Found", "HTTP 404 Not Found"),
        ("999 Strange", "HTTP 999"),
        ("304 Not Modified", "HTTP 304 Not Modified"),
        ("500 Oops", "HTTP 500 Internal Server Error"),
    ];
    for (status, text) in cases {
        let downstream = Downstream::new([&answer(status, &[], "")[..]]);
        assert_eq!(error(&downstream), text);
    }
    for status in ["200 OK", "201 Created", "202 Accepted", "204 No Content", "299 Fine"] {
        let downstream = Downstream::new([&answer(status, &[], "")[..]]);
        let url = downstream.url("/");
        assert!(HttpEgress::new().send(&request("POST", &url)).is_ok(), "{status}");
    }
}

#[test]
fn a_redirect_is_a_failure_that_names_the_host_and_is_not_followed() {
    for status in ["301 x", "302 x", "303 x", "307 x", "308 x"] {
        let location = "Location: http://169.254.169.254/latest/secret";
        let redirect = answer(status, &[location], "");
        let downstream = Downstream::new([&redirect[..], &redirect]);
        let text = error(&downstream);
        assert!(text.ends_with(": a redirect to 169.254.169.254:80 is not followed"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        downstream.request();
        assert_eq!(downstream.further_requests(), 0);
    }
    let downstream = Downstream::new([&answer("302 x", &["Location: /elsewhere"], "")[..]]);
    assert_eq!(
        error(&downstream),
        "HTTP 302 Found: a redirect within the same host is not followed"
    );
}

#[test]
fn retry_after_is_handed_on_as_it_was_written() {
    let downstream = Downstream::new([&answer("429 x", &["Retry-After: 120"], "")[..]]);
    let url = downstream.url("/");
    let error = HttpEgress::new().send(&request("POST", &url)).unwrap_err();
    let EgressError::Status { status, retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!((status, retry_after.as_deref()), (429, Some("120")));
}

#[test]
fn an_answer_is_read_up_to_its_ceiling_only() {
    let fits = Downstream::new([&json(&"x".repeat(1024))[..]]);
    let url = fits.url("/");
    assert_eq!(HttpEgress::new().send(&request("POST", &url)).unwrap().body.len(), 1024);
    let text = "the answer is larger than max_response_bytes (1024)";
    let announced = Downstream::new([&json(&"x".repeat(1025))[..]]);
    assert_eq!(error(&announced), text);
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = Downstream::new([&(head.to_owned() + &chunk.repeat(1000))[..]]);
    assert_eq!(error(&chunked), text);
    let headers = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let large = Downstream::new([&headers[..]]);
    let said = error(&large);
    assert!(said.contains(&large.target()) && said.contains("headers are larger"), "{said}");
}

#[test]
fn a_downstream_that_never_answers_ends_at_the_deadline() {
    for answers in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"] {
        let held = Downstream::with_connections(vec![vec![answers.into(), Vec::new()]]);
        let url = held.url("/");
        let timeout = Duration::from_millis(100);
        let error = HttpEgress::new().send(&EgressRequest { timeout, ..request("POST", &url) });
        let text = format!("{}: no answer within 100 ms", held.target());
        assert_eq!(error, Err(EgressError::Timeout(text)));
    }
}

#[test]
fn faults_of_the_transport_name_host_and_port_and_nothing_else() {
    let closed = closed_port();
    let url = format!("http://user:secret@{closed}/secret");
    let refused = HttpEgress::new().send(&request("POST", &url)).unwrap_err();
    assert_eq!(refused, EgressError::Transport(format!("{closed}: connection refused")));
    let cases = [
        ("", "the connection was closed before the answer"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
            "the connection was closed before the answer",
        ),
    ];
    for (bytes, reason) in cases {
        let downstream = Downstream::new([bytes]);
        assert_eq!(error(&downstream), format!("{}: {reason}", downstream.target()));
    }
}

#[test]
fn a_port_without_tls_is_a_fault_of_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Closing with unread bytes would reset the connection before the answer is read.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let url = format!("https://{address}/secret");
    let error = HttpEgress::new().send(&request("POST", &url)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address}: TLS: ")), "{error}");
    server.join().unwrap();
}

#[test]
fn link_local_addresses_are_not_called() {
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"] {
        let url = format!("http://{host}/latest/meta-data/");
        let error = HttpEgress::new().send(&request("GET", &url)).unwrap_err().to_string();
        assert!(error.ends_with("a link-local address is not called"), "{error}");
    }
}

#[test]
fn a_connection_is_used_again_and_one_that_was_closed_costs_nothing() {
    let kept = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let connections = vec![vec![kept.clone(), kept.clone()], vec![kept]];
    let downstream = Downstream::with_connections(connections);
    let egress = HttpEgress::new();
    let url = downstream.url("/");
    for _ in 0..3 {
        assert_eq!(egress.send(&request("POST", &url)).unwrap().body, b"ok");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is() {
    let egress = HttpEgress::new();
    for url in ["", "x", "http:///path", "http://a b/"] {
        assert!(egress.send(&request("POST", url)).is_err(), "{url}");
    }
    let headers = [("X".to_owned(), "a\u{1}b".to_owned())];
    let error =
        egress.send(&EgressRequest { headers: &headers, ..request("POST", "http://127.0.0.1:1/") });
    assert_eq!(error.unwrap_err().to_string(), "the header 'X' has a value that cannot be sent");
    for bad in ["ftp://x/", "//x/", "x", "http://", "https:///"] {
        assert!(check_url(bad).is_err(), "{bad}");
    }
}
