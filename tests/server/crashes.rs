//! Crashes: the server is killed at any moment, again and again, and its clients keep count.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::Client;
use crate::files::frames;
use crate::harness::{Server, Site, attempts, forward, wait_until};
use crate::sink::{Answer, Sink};

/// What all clients together know.
#[derive(Default)]
struct Ledger {
    next: AtomicUsize,
    /// Bodies with a 202.
    accepted: Mutex<BTreeSet<String>>,
}

impl Ledger {
    /// Submits until the server is gone.
    fn submit_until_it_dies(&self, address: SocketAddr) {
        let Ok(mut client) = Client::connect(address) else { return };
        loop {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            let body = format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(n * 37 % 900));
            match client.enqueue("forward", &body) {
                Ok(response) if response.status == 202 => {
                    self.accepted.lock().unwrap().insert(body);
                }
                Ok(response) => panic!("{response:?}"),
                Err(_) => return,
            }
        }
    }

    fn count(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }
}

/// Messages whose number this divides are always refused by the sink.
const REFUSED: u64 = 11;

fn is_refused(body: &str) -> bool {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["n"].as_u64().unwrap().is_multiple_of(REFUSED)
}

/// Kills a server so many times under load, each time after another number of 202s.
fn kill_under_load(kills: usize) {
    let sink = Sink::new(|call| Answer::status(if is_refused(&call.body) { 503 } else { 200 }));
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), &attempts(2))]);
    let ledger = Ledger::default();
    for kill in 0..kills {
        let server = site.serve();
        let enough = ledger.count() + kill * 13 % 41 + 1;
        let (address, ledger) = (server.address, &ledger);
        std::thread::scope(move |scope| {
            for _ in 0..4 {
                scope.spawn(move || ledger.submit_until_it_dies(address));
            }
            wait_until("enough 202s", || ledger.count() >= enough);
            server.kill();
        });
    }
    let server = site.serve();
    site.wait_for_drain("forward");
    server.stop();
    check(&ledger.accepted.into_inner().unwrap(), &site, &sink);
}

fn check(accepted: &BTreeSet<String>, site: &Site, sink: &Sink) {
    let mut by_id: BTreeMap<u64, String> = BTreeMap::new();
    let mut delivered = BTreeSet::new();
    for call in sink.calls() {
        let id = call.header("message-id").parse().unwrap();
        let other = by_id.insert(id, call.body.clone());
        assert!(other.is_none_or(|other| other == call.body), "two bodies have the id {id}");
        delivered.insert(call.body);
    }
    // A body that reached the sink is one that was sent, and whole: its parts say so.
    for body in &delivered {
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        let n = value["n"].as_u64().unwrap() as usize;
        assert_eq!(value["pad"].as_str().unwrap(), "x".repeat(n * 37 % 900));
    }
    let dead: BTreeMap<u64, Vec<u8>> = frames(&site.file("forward", "dlq.log"))
        .into_iter()
        .map(|frame| (frame.id, frame.rest))
        .collect();
    assert_eq!(site.dead_letters().len(), dead.len());
    for (id, rest) in &dead {
        assert!(rest.ends_with(by_id[id].as_bytes()), "{id}");
    }
    for body in accepted {
        assert!(delivered.contains(body), "accepted and lost: {body}");
        if is_refused(body) {
            let buried = dead.values().any(|rest| rest.ends_with(body.as_bytes()));
            assert!(buried, "refused and not in the dead-letter queue: {body}");
        }
    }
}

#[test]
fn no_202_is_lost_altered_or_given_an_id_twice_by_30_kills_under_load() {
    kill_under_load(30);
}

#[test]
#[ignore = "takes minutes"]
fn no_202_is_lost_altered_or_given_an_id_twice_by_300_kills_under_load() {
    kill_under_load(300);
}

/// Kills a server right after each delivery's effect, so many times.
fn kill_after_each_effect(kills: usize) {
    let sink = Sink::always(200);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "")]);
    for n in 0..kills {
        let server = site.serve();
        let body = n.to_string();
        server.accept("forward", &body);
        wait_until("its delivery", || sink.bodies().contains(&body));
        server.kill();
    }
    let _server = site.serve();
    site.wait_for_drain("forward");
    let calls = sink.calls();
    let numbers: Vec<usize> = calls.iter().map(|call| call.body.parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "only the last in flight comes again: {numbers:?}");
    let each: BTreeSet<usize> = numbers.iter().copied().collect();
    assert_eq!(each, (0..kills).collect());
    for call in &calls {
        let id: usize = call.header("message-id").parse().unwrap();
        assert_eq!(call.body, (id - 1).to_string());
        assert_eq!(call.header("message-key"), format!("acme/forward/{id}"));
        assert_eq!(call.header("attempt"), "1", "a crash is not charged");
    }
}

#[test]
fn a_kill_between_effect_and_checkpoint_repeats_the_last_message_only() {
    kill_after_each_effect(20);
}

#[test]
#[ignore = "takes a minute"]
fn three_hundred_kills_between_effect_and_checkpoint_repeat_the_last_message_only() {
    kill_after_each_effect(300);
}

#[test]
fn a_message_that_kills_the_server_five_times_is_dead_lettered_and_the_others_go_on() {
    let sink = Sink::new(|call| match call.body.as_str() {
        "\"poison\"" => Answer::Hold,
        _ => Answer::status(200),
    });
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), &attempts(3))]);
    let poisoned = || sink.bodies().iter().filter(|body| *body == "\"poison\"").count();
    let mut server = site.serve();
    server.accept("forward", "\"poison\"");
    server.accept("forward", "\"good\"");
    for crash in 1..=5 {
        wait_until("the poison to be delivered", || poisoned() == crash);
        server.kill();
        server = site.serve();
    }
    let letter = site.wait_for_dead_letters(1).remove(0);
    assert_eq!((&letter["id"], &letter["reason"]), (&1.into(), &"crashed".into()));
    wait_until("the other message", || sink.bodies().contains(&"\"good\"".to_owned()));
    site.wait_for_drain("forward");
    assert_eq!(poisoned(), 5);
    let calls = sink.calls();
    assert!(calls.iter().all(|call| call.header("attempt") == "1"), "no crash is charged");
    assert_eq!(site.dead_letters().len(), 1);
    assert_ready(&server);
}

fn assert_ready(server: &Server) {
    assert_eq!(server.problems(), "");
}
