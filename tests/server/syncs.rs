//! What is synced before a 202, seen from outside: the server's system calls.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::harness::{Server, Site, done, forward, wait_until};
use crate::sink::{Answer, Sink};

/// `strace` on a running server; it lets the server go when it ends.
struct Trace {
    strace: Child,
    output: PathBuf,
}

impl Trace {
    /// Follows a server's threads with these arguments; begins when this returns.
    fn attach(server: &Server, site: &Site, args: &[&str]) -> Trace {
        let output = site.root().join("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-s", "700", "-o"]).arg(&output).args(args);
        strace.arg("-p").arg(server.pid().as_raw_nonzero().to_string());
        let mut strace = strace.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(strace.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("attached")), "strace does not attach");
        // It tells of every new thread, and would end if nobody listened.
        std::thread::spawn(move || lines.for_each(drop));
        Trace { strace, output }
    }

    /// Ends it and gives what it saw. What a client was told before is in it: a thread goes on
    /// only after its call has been noted.
    fn end(mut self, server: &Server) -> Vec<Event> {
        assert_eq!(server.get("/health").status, 200);
        let strace = rustix::process::Pid::from_child(&self.strace);
        rustix::process::kill_process(strace, rustix::process::Signal::INT).unwrap();
        self.strace.wait().unwrap();
        events(&fs::read_to_string(&self.output).unwrap())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// A system call that matters, from its first line in the trace to its last.
#[derive(Debug, Clone)]
struct Event {
    name: String,
    text: String,
    began: usize,
    ended: usize,
}

/// The calls of a trace, unfinished and resumed lines put together.
fn events(trace: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut open: Vec<(&str, Event)> = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        if let Some((_, rest)) = text.split_once(" resumed>") {
            let index = open.iter().position(|(other, _)| *other == pid);
            let Some(index) = index else { continue };
            let (_, mut event) = open.remove(index);
            event.text = event.text.replace(" <unfinished ...>", rest);
            event.ended = at;
            events.push(event);
            continue;
        }
        let Some((name, _)) = text.split_once('(') else { continue };
        let event = Event { name: name.into(), text: text.into(), began: at, ended: at };
        match text.ends_with("<unfinished ...>") {
            true => open.push((pid, event)),
            false => events.push(event),
        }
    }
    events.extend(open.into_iter().map(|(_, event)| Event { ended: usize::MAX, ..event }));
    events.sort_by_key(|event| event.ended);
    events
}

impl Event {
    fn is_sync_of(&self, path: &str) -> bool {
        ["fsync", "fdatasync"].contains(&self.name.as_str())
            && self.text.contains(&format!("{path}>"))
            && self.text.ends_with("= 0")
    }

    /// Offset and length, if it is a write to this file.
    fn written(&self, path: &str) -> Option<(u64, u64)> {
        if !self.name.starts_with("pwrite") || !self.text.contains(&format!("{path}>")) {
            return None;
        }
        let (call, result) = self.text.rsplit_once('=')?;
        let offset = call.trim_end().strip_suffix(')')?.rsplit_once(", ")?.1;
        Some((offset.parse().ok()?, result.trim().parse().ok()?))
    }

    /// The offset that a 202 tells.
    fn accepted(&self) -> Option<u64> {
        if !["write", "writev", "sendto", "sendmsg"].contains(&self.name.as_str())
            || !self.text.contains("HTTP/1.1 202")
        {
            return None;
        }
        let rest = self.text.split_once("\\\"offset\\\":")?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

const CALLS: &str =
    "trace=pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,fsync,fdatasync,recvfrom,read";

/// For every 202: a sync of the log that began after the frame's write had ended, and ended before
/// the answer left. Gives the number of 202s.
#[track_caller]
fn assert_synced_before_answered(events: &[Event]) -> usize {
    let log = "/segment.log";
    let mut answers = 0;
    for answer in events {
        let Some(offset) = answer.accepted() else { continue };
        answers += 1;
        let covers = |event: &&Event| {
            event.ended < answer.began
                && event.written(log).is_some_and(|(at, len)| (at..at + len).contains(&offset))
        };
        let write = events.iter().filter(covers).max_by_key(|write| write.ended);
        let write = write.unwrap_or_else(|| panic!("no write of offset {offset}: {answer:?}"));
        let synced = events.iter().any(|sync| {
            sync.is_sync_of(log) && sync.began > write.ended && sync.ended < answer.began
        });
        assert!(synced, "answered before it was synced: {write:?} {answer:?}");
    }
    answers
}

fn syncs_of_the_log(events: &[Event]) -> usize {
    events.iter().filter(|event| event.is_sync_of("/segment.log")).count()
}

/// A server with nothing in its queue but a first message that the sink holds.
fn busy() -> (Site, Sink, Server) {
    let sink = Sink::new(|_| Answer::Hold);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "")]);
    let server = site.serve();
    server.accept("forward", "0");
    sink.wait_for(1);
    (site, sink, server)
}

#[test]
#[ignore = "traces system calls, which needs strace and the right to use it"]
fn with_one_connection_every_message_has_a_sync_of_its_own_before_its_202() {
    let (site, _sink, server) = busy();
    let trace = Trace::attach(&server, &site, &["-e", CALLS]);
    let mut client = server.client();
    for n in 0..100 {
        assert_eq!(client.enqueue("forward", &n.to_string()).unwrap().status, 202);
    }
    let events = trace.end(&server);
    assert_eq!(assert_synced_before_answered(&events), 100);
    assert_eq!(syncs_of_the_log(&events), 100);
}

#[test]
#[ignore = "traces system calls, which needs strace and the right to use it"]
fn with_64_connections_far_fewer_syncs_cover_all_messages_and_none_leaves_early() {
    let (site, _sink, server) = busy();
    let trace = Trace::attach(&server, &site, &["-e", CALLS]);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let mut client = server.client();
                for n in 0..20 {
                    assert_eq!(client.enqueue("forward", &n.to_string()).unwrap().status, 202);
                }
            });
        }
    });
    let events = trace.end(&server);
    assert_eq!(assert_synced_before_answered(&events), 64 * 20);
    let syncs = syncs_of_the_log(&events);
    assert!(syncs < 64 * 20 / 4, "{syncs} syncs");
}

#[test]
#[ignore = "traces system calls, which needs strace and the right to use it"]
fn the_first_202_of_a_queue_waits_for_its_directories_and_later_ones_for_drains_and_replays() {
    let sink = Sink::always(503);
    let flow = forward("forward", &sink.url("/"), "queue_max_attempts: 1");
    let site = Site::with_flows(&[&flow]);
    let server = site.serve();
    let trace = Trace::attach(&server, &site, &["-e", CALLS]);
    for id in 1..=3 {
        server.accept("forward", "{}");
        site.wait_for_dead_letters(1);
        site.wait_for_drain("forward");
        sink.now(|_| Answer::status(200));
        done(site.handle("replay", "forward", 2 * id - 1));
        wait_until("the replay", || sink.count() as u64 == 2 * id);
        site.wait_for_drain("forward");
        sink.now(|_| Answer::status(503));
    }
    let events = trace.end(&server);
    assert_eq!(assert_synced_before_answered(&events), 3);
    let first = events.iter().find(|event| event.accepted().is_some()).unwrap();
    for directory in ["queues/acme/forward", "queues/acme", "queues", ""] {
        let directory = site.state().join(directory);
        let directory = directory.to_str().unwrap().trim_end_matches('/');
        let synced =
            events.iter().any(|event| event.is_sync_of(directory) && event.ended < first.began);
        assert!(synced, "{directory} is not synced before the first 202");
    }
}

/// Submits while one call of the server fails, and checks that what it accepts afterwards is kept.
fn goes_on_after(fault: &str) {
    let (site, sink, server) = busy();
    let log = site.file("forward", "segment.log");
    let log = log.to_str().unwrap();
    let calls = fault.split(':').next().unwrap();
    let args = ["-P", log, "-e", &format!("trace={calls}"), "-e", &format!("inject={fault}")];
    let trace = Trace::attach(&server, &site, &args);
    let mut accepted = BTreeSet::from(["0".to_owned()]);
    let mut refused = Vec::new();
    let mut n = 0;
    wait_until("30 messages after the fault", || {
        n += 1;
        let response = server.enqueue("forward", &n.to_string());
        match response.status {
            202 => drop(accepted.insert(n.to_string())),
            503 => refused.push((n, response.error())),
            _ => panic!("{response:?}"),
        }
        refused.first().is_some_and(|(first, _)| accepted.len() >= first + 30)
    });
    drop(trace);
    assert!(server.events("queue_fault").len() + server.events("queue_poisoned").len() > 0);
    server.kill();
    sink.now(|_| Answer::status(200));
    let _server = site.serve();
    site.wait_for_drain("forward");
    let delivered: BTreeSet<String> = sink.bodies().into_iter().collect();
    assert!(delivered.is_superset(&accepted), "lost: {:?}", accepted.difference(&delivered));
    let mut ids = BTreeSet::new();
    let known = sink.calls().into_iter().all(|call| {
        ids.insert((call.header("message-id").to_owned(), call.body.clone()));
        true
    });
    assert!(known && ids.len() == delivered.len(), "an id or a body came twice: {ids:?}");
}

#[test]
#[ignore = "injects faults into system calls, which needs strace and the right to use it"]
fn after_a_sync_that_failed_once_every_202_is_kept() {
    goes_on_after("fdatasync:error=EIO:when=3");
}

#[test]
#[ignore = "injects faults into system calls, which needs strace and the right to use it"]
fn after_a_sync_that_failed_and_could_not_be_undone_every_202_is_kept() {
    goes_on_after("fdatasync,ftruncate:error=EIO:when=3..6");
}

#[test]
#[ignore = "injects faults into system calls, which needs strace and the right to use it"]
fn after_a_write_that_failed_once_every_202_is_kept() {
    goes_on_after("pwrite64:error=EIO:when=3");
}
