//! A device without room: the state directory on a small file system that the test mounts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::client::Response;
use crate::files::{frames, scheduled};
use crate::harness::{Server, Site, done, forward, len, wait_until};
use crate::sink::{Answer, Sink};

/// A state directory on a file system of its own, unmounted when this is dropped.
struct Small {
    site: Site,
    directory: tempfile::TempDir,
}

impl Small {
    fn new(mebibytes: u32) -> Small {
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={mebibytes}m,mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path());
        done(mount.output().unwrap());
        Small { site: Site::at(directory.path()), directory }
    }

    fn filler(&self) -> PathBuf {
        self.directory.path().join("filler")
    }

    /// Takes all room but so many bytes.
    fn fill(&self, but: u64) {
        let room = rustix::fs::statvfs(self.directory.path()).unwrap();
        let free = (room.f_bavail * room.f_frsize).saturating_sub(but);
        fs::write(self.filler(), vec![b'x'; usize::try_from(free).unwrap()]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.directory.path()).output();
    }
}

fn big(n: usize) -> String {
    format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(64 << 10))
}

#[track_caller]
fn assert_no_room(response: &Response) {
    assert_eq!(response.status, 507, "{response:?}");
    let error = response.error();
    assert!(error.contains("No space left") || error.contains("no room"), "{error}");
}

/// Fills the device with messages of the flow `forward`; gives their number.
fn fill_with_messages(server: &Server) -> usize {
    let mut client = server.client();
    for n in 0.. {
        let response = client.enqueue("forward", &big(n)).unwrap();
        if response.status != 202 {
            assert_no_room(&response);
            return n;
        }
    }
    unreachable!()
}

/// A server on a device that messages have filled, the first of them in flight.
fn full() -> (Small, Sink, Server, usize) {
    let sink = Sink::new(|_| Answer::Hold);
    let small = Small::new(4);
    small.site.publish(&[&forward("forward", &sink.url("/"), "")]);
    let server = small.site.serve();
    let count = fill_with_messages(&server);
    sink.wait_for(1);
    assert!(count > 10, "{count}");
    (small, sink, server, count)
}

fn assert_all_once(sink: &Sink, count: usize, skip: usize) {
    let bodies: Vec<String> = sink.bodies().split_off(skip);
    let expected: Vec<String> = (0..count).map(big).collect();
    assert!(bodies == expected, "{} deliveries of {count} messages", bodies.len());
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn a_full_device_refuses_with_507_goes_on_delivering_and_heals_by_itself() {
    let (small, sink, server, count) = full();
    let log = small.site.file("forward", "segment.log");
    assert_eq!(frames(&log).len(), count, "nothing half-written");
    assert_eq!(frames(&log).last().unwrap().range.end as u64, len(&log));
    assert_no_room(&server.enqueue("forward", &big(0)));
    assert!(server.problems().contains("bytes left"), "{}", server.problems());
    server.wait_for_event("disk_full");
    sink.now(|_| Answer::status(200));
    sink.release();
    sink.wait_for(count);
    small.site.wait_for_drain("forward");
    assert_all_once(&sink, count, 0);
    server.accept("forward", &big(count));
    sink.wait_for(count + 1);
    wait_until("the server to be ready", || server.problems().is_empty());
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn a_server_starts_on_a_full_device_after_a_kill_and_delivers() {
    let (small, sink, server, count) = full();
    server.kill();
    small.fill(0);
    sink.now(|_| Answer::status(200));
    let server = small.site.serve();
    sink.wait_for(count + 1);
    small.make_room();
    small.site.wait_for_drain("forward");
    assert_all_once(&sink, count, 1);
    wait_until("a 202", || server.enqueue("forward", "{}").status == 202);
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn a_server_starts_on_a_full_device_after_a_stop_and_delivers() {
    let (small, sink, server, count) = full();
    sink.now(|_| Answer::Hold);
    drop(server);
    let server = small.site.serve_with(&["--grace", "0"]);
    sink.wait_for(2);
    server.stop();
    small.fill(0);
    sink.now(|_| Answer::status(200));
    let _server = small.site.serve();
    sink.wait_for(count + 2);
    small.make_room();
    small.site.wait_for_drain("forward");
    assert_all_once(&sink, count, 2);
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn a_message_that_fits_only_in_part_is_undone_and_a_smaller_one_is_taken() {
    let sink = Sink::new(|_| Answer::Hold);
    let small = Small::new(4);
    small.site.publish(&[&forward("forward", &sink.url("/"), "")]);
    let server = small.site.serve();
    server.accept("forward", "0");
    sink.wait_for(1);
    small.fill(10_000);
    let log = small.site.file("forward", "segment.log");
    let before = fs::read(&log).unwrap();
    for n in 0..5 {
        assert_no_room(&server.enqueue("forward", &big(n)));
        assert!(fs::read(&log).unwrap() == before, "a part was left behind");
    }
    server.accept("forward", "1");
    server.kill();
    small.make_room();
    sink.now(|_| Answer::status(200));
    let _server = small.site.serve();
    small.site.wait_for_drain("forward");
    assert_eq!(sink.bodies(), ["0", "0", "1"]);
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn failures_on_a_full_device_are_settled_when_there_is_room_and_charged_once() {
    // The first of each queue is answered when the device is full: a retry and a dead letter.
    let gate = std::sync::Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let waiting = std::sync::Arc::clone(&gate);
    let sink = Sink::new(move |call| {
        let (open, changed) = &*waiting;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        Answer::status(if call.body == "\"bad\"" { 503 } else { 200 })
    });
    let small = Small::new(4);
    let site = &small.site;
    let hour = "queue_initial_delay_ms: 3600000\nqueue_max_delay_ms: 3600000";
    site.publish(&[
        &forward("later", &sink.url("/later"), hour),
        &forward("dead", &sink.url("/dead"), "queue_max_attempts: 1"),
    ]);
    let server = site.serve();
    for flow in ["later", "dead"] {
        for body in ["\"bad\"", "\"good\""] {
            server.accept(flow, body);
        }
    }
    sink.wait_for(2);
    small.fill(0);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    wait_until("both queues to be named", || {
        let problems = server.problems();
        problems.contains("acme/later") && problems.contains("acme/dead")
    });
    assert_eq!(sink.count(), 2, "nothing further is started");
    small.make_room();
    sink.wait_for(4);
    let letters = site.wait_for_dead_letters(1);
    assert_eq!((&letters[0]["flow"], &letters[0]["attempts"]), (&"dead".into(), &1.into()));
    let retries = scheduled(&site.file("later", "segment.log.retry"));
    assert_eq!((retries.len(), retries[0].id, retries[0].attempt), (1, 1, 2));
    assert_eq!(sink.count(), 4);
    wait_until("the server to be ready", || server.problems().is_empty());
}

#[test]
fn a_limit_on_the_size_of_files_refuses_messages_and_does_not_end_the_server() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "")]);
    let plain = site.nexus();
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=400000").arg(plain.get_program());
    limited.args(["serve", "--dev", "--listen", "127.0.0.1:0"]);
    limited.env("NEXUS_DB", site.registry());
    let server = Server::start(&mut limited);
    let mut client = server.client();
    let refused = (0..20).map(|n| client.enqueue("forward", &big(n)).unwrap());
    let refused: Vec<Response> = refused.filter(|response| response.status != 202).collect();
    assert!(refused.len() > 10 && refused.len() < 18, "{}", refused.len());
    for response in &refused {
        assert_eq!(response.status, 507, "{response:?}");
    }
    server.accept("forward", "\"small\"");
    sink.now(|_| Answer::status(200));
    sink.release();
    let accepted = 20 - refused.len() + 1;
    sink.wait_for(accepted);
    site.wait_for_drain("forward");
    assert_eq!(sink.count(), accepted);
    server.accept("forward", &big(0));
}
