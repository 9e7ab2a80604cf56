//! What is refused, with which words, and that nothing is left behind by it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::harness::{Server, Site, everything, failed, forward};
use crate::nobody;
use crate::sink::Sink;

/// A server with one published flow `forward`, and everything that its state directory holds.
fn quiet() -> (Site, Sink, Server, Vec<PathBuf>) {
    let sink = Sink::always(200);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "max_message_bytes: 1000")]);
    let server = site.serve();
    let before = everything(site.root());
    (site, sink, server, before)
}

#[test]
fn a_body_that_is_no_json_is_refused_with_line_and_column_and_nothing_is_stored() {
    let (site, sink, server, before) = quiet();
    let deep = "[".repeat(129) + &"]".repeat(129);
    for bad in ["", "{", "nope", "{\"a\":1}\n{\"b\":2}", "{\"a\":1,\"a\":2}", "[1,]", &deep] {
        let response = server.enqueue("forward", bad);
        assert_eq!(response.status, 400, "{bad:?}: {response:?}");
        let error = response.error();
        assert!(error.contains("line") && error.contains("column"), "{bad:?}: {error}");
    }
    let error = server.enqueue("forward", "{\n  \"a\": nope\n}").error();
    assert!(error.contains("line 2") && error.contains("column"), "{error}");
    assert_eq!(everything(site.root()), before);
    server.accept("forward", "{}");
    sink.wait_for(1);
    assert_eq!(sink.bodies(), ["{}"]);
}

#[test]
fn a_flow_that_is_not_published_is_404_and_no_directory_appears() {
    let (site, _sink, server, before) = quiet();
    for (tenant, flow) in [("acme", "none"), ("none", "forward"), ("acme", "con")] {
        let response =
            server.request("POST", &format!("/flows/{tenant}/{flow}/enqueue"), &[], "{}");
        assert_eq!(response.status, 404, "{response:?}");
        let error = response.error();
        assert!(error.contains(tenant) && error.contains(flow), "{error}");
    }
    assert_eq!(everything(site.root()), before);
}

#[test]
fn a_name_that_cannot_become_a_path_is_refused_naming_tenant_flow_and_character() {
    let (site, _sink, server, before) = quiet();
    let long = "a".repeat(65);
    let names = [
        ("..", "'.'"),
        (".", "'.'"),
        ("%2e%2e", "'%'"),
        ("%2e%2e%2fx", "'%'"),
        ("a%2fb", "'%'"),
        ("a\\b", "'\\\\'"),
        ("Forward", "'F'"),
        ("forwarD", "'D'"),
        ("segment.log", "'.'"),
        ("forward.", "'.'"),
        ("-a", "'-'"),
        ("_a", "'_'"),
        ("forward%00", "'%'"),
        (&long, "65 bytes long"),
        ("", "empty"),
    ];
    for (name, fault) in names {
        for (tenant, flow) in [("acme", name), (name, "forward")] {
            let path = format!("/flows/{tenant}/{flow}/enqueue");
            let response = server.request("POST", &path, &[], "{}");
            assert_eq!(response.status, 400, "{path}: {response:?}");
            let error = response.error();
            let cut = |text: &str| format!("{:?}", text.chars().take(60).collect::<String>());
            for part in [cut(tenant).trim_end_matches('"'), cut(flow).trim_end_matches('"'), fault]
            {
                assert!(error.contains(part), "{path}: {error}, without {part}");
            }
        }
    }
    // A path with more parts is another path.
    for path in
        ["/flows/acme/../x/enqueue", "/flows/acme/a/b/enqueue", "//flows/acme/forward/enqueue"]
    {
        let status = server.request("POST", path, &[], "{}").status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    assert_eq!(everything(site.root()), before);
}

#[test]
fn a_body_above_the_flows_ceiling_is_refused_announced_or_not() {
    let (site, sink, server, before) = quiet();
    let mut client = server.client();
    let head = "POST /flows/acme/forward/enqueue HTTP/1.1\r\nHost: nexus\r\n";
    client.send(format!("{head}Content-Length: 1000000000000\r\n\r\n").as_bytes()).unwrap();
    let response = client.receive().unwrap();
    assert_eq!(response.status, 413);
    assert!(response.error().contains("1000 bytes"), "{response:?}");
    let mut client = server.client();
    let chunk = format!("3e8\r\n{}\r\n1\r\n \r\n0\r\n\r\n", " ".repeat(1000));
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 413);
    assert_eq!(everything(site.root()), before);
    let fits = format!("{:1000}", "{}");
    server.accept("forward", &fits);
    assert_eq!(sink.wait_for(1)[0].body, fits, "the bytes arrive as they were submitted");
}

#[test]
fn a_registry_path_that_is_a_directory_is_refused_by_name() {
    let site = Site::new();
    fs::create_dir_all(site.registry()).unwrap();
    let output = site.run(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    let error = failed(&output);
    assert!(
        error.starts_with("nexus: ") && error.contains(site.registry().to_str().unwrap()),
        "{error}"
    );
    assert!(error.contains("directory"), "{error}");
}

#[test]
fn a_registry_that_is_no_database_is_refused_and_left_alone() {
    let site = Site::new();
    fs::create_dir_all(site.state()).unwrap();
    let text = "these are somebody's notes\n".repeat(100);
    fs::write(site.registry(), &text).unwrap();
    let error = failed(&site.run(&["serve", "--dev", "--listen", "127.0.0.1:0"]));
    assert!(error.contains(site.registry().to_str().unwrap()), "{error}");
    assert_eq!(fs::read_to_string(site.registry()).unwrap(), text);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let (site, _sink, server, _) = quiet();
    let address = server.address.to_string();
    let error = failed(&site.run(&["serve", "--dev", "--listen", &address]));
    assert!(
        error.starts_with("nexus: cannot start listening") && error.contains(&address),
        "{error}"
    );
    server.accept("forward", "{}");
}

#[test]
fn without_keys_and_without_dev_nothing_is_served_and_nothing_is_made() {
    let site = Site::new();
    let error = failed(&site.run(&["serve", "--listen", "127.0.0.1:0"]));
    assert!(error.contains("--dev"), "{error}");
    let error = failed(&site.run(&["serve", "--dev", "--listen", "0.0.0.0:0"]));
    assert!(error.contains("loopback"), "{error}");
    assert!(!site.state().exists());
}

#[test]
fn a_state_directory_that_cannot_be_written_is_refused_at_start_with_user_owner_and_mode() {
    let site = Site::new();
    fs::create_dir_all(site.state()).unwrap();
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = nobody::nexus(&site);
    let error =
        failed(&command.args(["serve", "--dev", "--listen", "127.0.0.1:0"]).output().unwrap());
    for part in
        [site.state().to_str().unwrap(), &format!("as user {}", nobody::user()), "mode 0555"]
    {
        assert!(error.contains(part), "{error}, without {part}");
    }
    assert_eq!(everything(site.state()), [] as [PathBuf; 0]);
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o755)).unwrap();
}
