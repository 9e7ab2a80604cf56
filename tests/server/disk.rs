//! The file system against the server: files that vanish, links, modes, directories that cannot be
//! written, devices without room.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use crate::harness::{Server, Site, done, everything, forward, len, wait_until};
use crate::nobody::{self, NOBODY};
use crate::sink::{Answer, Sink};

fn site(sink: &Sink) -> Site {
    Site::with_flows(&[&forward("forward", &sink.url("/"), "")])
}

/// A queue `forward` that has delivered one message and is drained.
fn drained() -> (Site, Sink, Server) {
    let sink = Sink::always(200);
    let site = site(&sink);
    let server = site.serve();
    server.accept("forward", "\"first\"");
    sink.wait_for(1);
    site.wait_for_drain("forward");
    (site, sink, server)
}

/// Submits until it is accepted, in a bounded time; what is refused is refused with 503.
#[track_caller]
fn accept_in_the_end(server: &Server, flow: &str, body: &str) {
    wait_until("a 202", || {
        let response = server.enqueue(flow, body);
        assert!([202, 503].contains(&response.status), "{response:?}");
        response.status == 202
    });
}

/// A file or directory of a running server's queue is taken away or changed; what is accepted
/// afterwards survives even a kill.
#[track_caller]
fn survives(change: impl Fn(&Site)) {
    let (site, sink, server) = drained();
    sink.now(|_| Answer::Hold);
    change(&site);
    accept_in_the_end(&server, "forward", "\"second\"");
    sink.wait_for(2);
    server.kill();
    sink.now(|_| Answer::status(200));
    let server = site.serve();
    sink.wait_for(3);
    accept_in_the_end(&server, "forward", "\"third\"");
    sink.wait_for(4);
    assert_eq!(sink.bodies()[1..], ["\"second\"", "\"second\"", "\"third\""]);
    wait_until("the server to be ready", || server.problems().is_empty());
}

#[test]
fn nothing_is_accepted_into_a_log_that_was_deleted() {
    survives(|site| fs::remove_file(site.file("forward", "segment.log")).unwrap());
}

#[test]
fn nothing_is_accepted_into_a_log_that_was_replaced() {
    survives(|site| {
        let log = site.file("forward", "segment.log");
        fs::copy(&log, site.root().join("copy")).unwrap();
        fs::rename(site.root().join("copy"), log).unwrap();
    });
}

#[test]
fn nothing_is_accepted_into_a_queue_directory_that_was_moved_away() {
    survives(|site| fs::rename(site.queue("forward"), site.root().join("away")).unwrap());
}

#[test]
fn nothing_is_accepted_into_queues_that_were_deleted_altogether() {
    survives(|site| fs::remove_dir_all(site.state().join("queues")).unwrap());
}

#[test]
fn a_log_deleted_with_messages_in_it_is_noticed_and_the_queue_goes_on() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink);
    let server = site.serve();
    for n in 0..3 {
        server.accept("forward", &n.to_string());
    }
    sink.wait_for(1);
    fs::remove_file(site.file("forward", "segment.log")).unwrap();
    server.wait_for_event("queue_poisoned");
    sink.now(|_| Answer::status(200));
    sink.release();
    accept_in_the_end(&server, "forward", "\"later\"");
    wait_until("its delivery", || sink.bodies().contains(&"\"later\"".to_owned()));
    server.wait_for_event("queue_reopened");
}

/// Runs a check for each of these, all at the same time: they mostly wait.
fn each_at_once(names: &[&'static str], check: fn(&'static str)) {
    std::thread::scope(|scope| {
        for name in names {
            scope.spawn(move || check(name));
        }
    });
}

#[test]
fn each_other_file_may_vanish_under_a_running_server() {
    let files = [
        "segment.log.ckpt",
        "segment.log.retry",
        "segment.log.seq",
        "dlq.log",
        "dlq.log.acked",
        "append.lock",
        "dlq.lock",
        "worker.lock",
    ];
    each_at_once(&files, |file| {
        let (site, sink, server) = drained();
        fs::remove_file(site.file("forward", file)).unwrap();
        for n in 0..3 {
            accept_in_the_end(&server, "forward", &n.to_string());
        }
        wait_until(file, || sink.bodies().contains(&"2".to_owned()));
        server.kill();
        let server = site.serve();
        accept_in_the_end(&server, "forward", "\"last\"");
        wait_until(file, || sink.bodies().contains(&"\"last\"".to_owned()));
        let mut bodies = BTreeMap::new();
        for call in sink.calls() {
            let other = bodies.insert(call.header("message-id").to_owned(), call.body.clone());
            assert!(other.is_none_or(|other| other == call.body), "{file}: an id is given twice");
        }
    });
}

#[test]
fn a_symbolic_link_in_the_state_directory_is_refused_by_name_and_not_followed() {
    let links = [
        "queues",
        "queues/acme",
        "queues/acme/forward",
        "queues/acme/forward/segment.log",
        "queues/acme/forward/segment.log.ckpt",
        "queues/acme/forward/segment.log.seq",
        "queues/acme/forward/dlq.log",
        "queues/acme/forward/worker.lock",
        "queues/acme/forward/append.lock",
    ];
    each_at_once(&links, refuses_and_heals);
}

fn refuses_and_heals(link: &str) {
    let sink = Sink::always(200);
    let site = site(&sink);
    let outside = site.root().join("outside");
    let path = site.state().join(link);
    let is_file = link.contains("forward/");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match is_file {
        true => fs::write(&outside, "precious").unwrap(),
        false => fs::create_dir(&outside).unwrap(),
    }
    symlink(&outside, &path).unwrap();
    let server = site.serve();
    let response = server.enqueue("forward", "{}");
    assert_eq!(response.status, 503, "{link}: {response:?}");
    let error = response.error();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("symbolic link"), "{error}");
    match is_file {
        true => assert_eq!(fs::read_to_string(&outside).unwrap(), "precious", "{link}"),
        false => assert_eq!(everything(&outside).len(), 0, "{link}"),
    }
    assert_eq!(sink.count(), 0);
    fs::remove_file(&path).unwrap();
    accept_in_the_end(&server, "forward", "\"healed\"");
    sink.wait_for(1);
}

#[test]
fn the_command_line_does_not_follow_a_symbolic_link_either() {
    let sink = Sink::always(503);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "queue_max_attempts: 1")]);
    let server = site.serve();
    server.accept("forward", "{}");
    site.wait_for_dead_letters(1);
    server.stop();
    let marks = site.file("forward", "dlq.log.acked");
    let outside = site.root().join("outside");
    fs::write(&outside, "precious").unwrap();
    let _ = fs::remove_file(&marks);
    symlink(&outside, &marks).unwrap();
    for verb in ["replay", "discard"] {
        let error = crate::harness::failed(&site.handle(verb, "forward", 1));
        assert!(error.contains("symbolic link") && error.contains("dlq.log.acked"), "{error}");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
}

#[test]
fn the_state_directory_itself_may_be_a_symbolic_link() {
    let sink = Sink::always(200);
    let site = site(&sink);
    let elsewhere = site.root().join("elsewhere");
    fs::rename(site.state(), &elsewhere).unwrap();
    symlink(&elsewhere, site.state()).unwrap();
    let server = site.serve();
    server.accept("forward", "{}");
    sink.wait_for(1);
}

fn assert_private(path: &Path) {
    let meta = fs::symlink_metadata(path).unwrap();
    let expected = if meta.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(meta.mode() & 0o7777, expected, "{}: {:o}", path.display(), meta.mode());
}

#[test]
fn files_are_0600_and_directories_0700_whatever_the_umask() {
    let sink = Sink::always(503);
    let site = Site::new();
    let flow = site.root().join("flow.md");
    fs::write(&flow, forward("forward", &sink.url("/"), "queue_max_attempts: 1")).unwrap();
    let mut command = site.nexus();
    let program = command.get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(program);
    shell.args(["serve", "--dev", "--listen", "127.0.0.1:0"]).arg(&flow);
    for (name, value) in command.env_clear().env("NEXUS_DB", site.registry()).get_envs() {
        shell.env(name, value.unwrap());
    }
    let server = Server::start(&mut shell);
    server.accept("forward", "{}");
    site.wait_for_dead_letters(1);
    done(site.handle("discard", "forward", 1));
    server.accept("forward", "{}");
    site.wait_for_dead_letters(1);
    assert_private(site.state());
    let files = everything(site.state());
    assert!(files.len() > 15, "{files:?}");
    files.iter().for_each(|path| assert_private(path));
}

#[test]
fn a_queue_directory_that_cannot_be_written_stops_no_other_queue_and_heals() {
    let sink = Sink::always(200);
    let site = Site::with_flows(&[
        &forward("good", &sink.url("/good"), ""),
        &forward("bad", &sink.url("/bad"), ""),
    ]);
    fs::create_dir_all(site.queue("bad")).unwrap();
    nobody::give(&site);
    fs::set_permissions(site.queue("bad"), fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = nobody::nexus(&site);
    let server = Server::start(command.args(["serve", "--dev", "--listen", "127.0.0.1:0"]));
    let response = server.enqueue("bad", "{}");
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.error().contains(site.queue("bad").to_str().unwrap()), "{response:?}");
    wait_until("the queue to be named", || server.problems().contains("acme/bad"));
    server.accept("good", "{}");
    sink.wait_for(1);
    fs::set_permissions(site.queue("bad"), fs::Permissions::from_mode(0o700)).unwrap();
    accept_in_the_end(&server, "bad", "{}");
    sink.wait_for(2);
    wait_until("the server to be ready", || server.problems().is_empty());
}

#[test]
fn a_file_that_belongs_to_another_user_is_refused_by_name() {
    if !rustix::process::geteuid().is_root() {
        // Only the superuser can make such a file.
        return;
    }
    let sink = Sink::always(200);
    let site = site(&sink);
    let path = site.file("forward", "segment.log");
    fs::create_dir_all(site.queue("forward")).unwrap();
    fs::write(&path, "").unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let server = site.serve();
    let response = server.enqueue("forward", "{}");
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.error().contains(path.to_str().unwrap()), "{response:?}");
    assert_eq!(len(&path), 0);
}
