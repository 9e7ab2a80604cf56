//! Several processes on one state directory: servers that share queues, and the command line beside
//! them.

use std::collections::BTreeSet;
use std::process::{Child, Output, Stdio};

use rustix::process::Signal;

use crate::files::edit;
use crate::harness::{Server, Site, attempts, done, failed, forward, wait_until};
use crate::sink::{Answer, Sink};

fn site(sink: &Sink, front_matter: &str) -> Site {
    Site::with_flows(&[&forward("forward", &sink.url("/"), front_matter)])
}

/// Submits so many numbered messages on one connection.
fn submit(server: &Server, from: usize, count: usize) {
    let mut client = server.client();
    for n in from..from + count {
        let response = client.enqueue("forward", &n.to_string()).unwrap();
        assert_eq!(response.status, 202, "{response:?}");
    }
}

fn assert_each_once(sink: &Sink, count: usize) {
    let calls = sink.calls();
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.header("message-id")).collect();
    let bodies: BTreeSet<&str> = calls.iter().map(|call| call.body.as_str()).collect();
    assert_eq!((calls.len(), ids.len(), bodies.len()), (count, count, count));
}

/// Which of two servers delivers the queue.
fn owner(servers: &[Server]) -> usize {
    let mut found = None;
    wait_until("an owner", || {
        found = servers.iter().position(|server| !server.events("worker_elected").is_empty());
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn two_servers_take_submissions_for_one_queue_and_one_of_them_delivers_each_once() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let servers = [site.serve(), site.serve()];
    std::thread::scope(|scope| {
        for (nth, server) in servers.iter().enumerate() {
            scope.spawn(move || submit(server, nth * 300, 300));
        }
    });
    sink.wait_for(600);
    site.wait_for_drain("forward");
    assert_each_once(&sink, 600);
    let delivered = |server: &Server| !server.events("queue_processed").is_empty();
    assert!(delivered(&servers[0]) != delivered(&servers[1]), "exactly one delivers");
    for server in &servers {
        assert_eq!(server.problems(), "");
        assert!(
            server.events("queue_fault").is_empty() && server.events("frame_corrupt").is_empty()
        );
    }
}

#[test]
fn another_server_takes_over_when_the_one_that_delivers_is_killed() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink, "");
    let mut servers = vec![site.serve(), site.serve()];
    submit(&servers[0], 0, 3);
    submit(&servers[1], 3, 3);
    sink.wait_for(1);
    let owner = owner(&servers);
    sink.now(|_| Answer::status(200));
    servers.remove(owner).kill();
    let calls = sink.wait_for(7);
    let bodies: Vec<&str> = calls[1..].iter().map(|call| call.body.as_str()).collect();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5"]);
    submit(&servers[0], 6, 1);
    sink.wait_for(8);
    site.wait_for_drain("forward");
}

#[test]
fn a_server_that_never_saw_the_queue_takes_it_over_from_one_that_died() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink, "");
    let dying = site.serve();
    let _other = site.serve();
    submit(&dying, 0, 2);
    sink.wait_for(1);
    sink.now(|_| Answer::status(200));
    dying.kill();
    let calls = sink.wait_for(3);
    assert_eq!((calls[1].body.as_str(), calls[2].body.as_str()), ("0", "1"));
}

#[test]
fn a_stop_hands_the_queue_to_the_other_server_without_a_second_delivery() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let mut servers = vec![site.serve(), site.serve()];
    submit(&servers[0], 0, 20);
    submit(&servers[1], 20, 20);
    let owner = owner(&servers);
    servers.remove(owner).stop();
    submit(&servers[0], 40, 20);
    sink.wait_for(60);
    site.wait_for_drain("forward");
    assert_each_once(&sink, 60);
}

#[test]
fn while_the_owner_is_suspended_the_other_server_goes_on_accepting() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let servers = [site.serve(), site.serve()];
    submit(&servers[0], 0, 1);
    sink.wait_for(1);
    let owner = owner(&servers);
    servers[owner].signal(Signal::STOP);
    submit(&servers[1 - owner], 1, 20);
    assert_eq!(sink.count(), 1, "a suspended owner still owns");
    servers[owner].signal(Signal::CONT);
    sink.wait_for(21);
    site.wait_for_drain("forward");
    assert_each_once(&sink, 21);
}

#[test]
fn a_stale_lock_file_that_names_another_process_keeps_nobody_out() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let server = site.serve();
    submit(&server, 0, 1);
    sink.wait_for(1);
    server.kill();
    for file in ["worker.lock", "append.lock", "dlq.lock"] {
        std::fs::write(site.file("forward", file), "1\n").unwrap();
    }
    let server = site.serve();
    submit(&server, 1, 1);
    wait_until("the delivery", || sink.bodies().contains(&"1".to_owned()));
}

#[test]
fn a_counter_damaged_under_two_servers_makes_neither_give_an_id_twice() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let servers = [site.serve(), site.serve()];
    submit(&servers[0], 1, 1);
    sink.wait_for(1);
    submit(&servers[1], 2, 1);
    submit(&servers[0], 3, 5);
    sink.wait_for(7);
    site.wait_for_drain("forward");
    edit(&site.file("forward", "segment.log.seq"), |bytes| bytes[9] ^= 1);
    submit(&servers[1], 8, 1);
    let calls = sink.wait_for(8);
    assert_eq!(calls[7].header("message-id"), "8");
}

/// Makes dead letters 1 to `count`.
fn bury(server: &Server, site: &Site, count: usize) {
    submit(server, 1, count);
    site.wait_for_dead_letters(count);
}

fn start(site: &Site, verb: &str, id: usize) -> Child {
    let mut command = site.nexus();
    command.args(["dlq", verb, "--tenant", "acme", "--flow", "forward", "--id", &id.to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn five_hundred_discards_by_twenty_shells_during_traffic_lose_no_mark() {
    let sink = Sink::new(|call| Answer::status(if call.body.starts_with('"') { 200 } else { 503 }));
    let site = site(&sink, &attempts(1));
    let server = site.serve();
    bury(&server, &site, 500);
    std::thread::scope(|scope| {
        for shell in 0..20 {
            let site = &site;
            scope.spawn(move || {
                for id in (1..=500).filter(|id| id % 20 == shell) {
                    let out = done(start(site, "discard", id).wait_with_output().unwrap());
                    let expected = format!("discarded id={id} tenant=acme flow=forward\n");
                    assert!(out.starts_with(&expected), "{out}");
                }
            });
        }
        let mut client = server.client();
        for n in 0..200 {
            assert_eq!(client.enqueue("forward", &format!("\"{n}\"")).unwrap().status, 202);
        }
    });
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
    wait_until("the bodies to leave the disk", || {
        crate::harness::len(&site.file("forward", "dlq.log")) == 0
    });
    sink.wait_for(700);
    assert_eq!(sink.count(), 700);
}

#[test]
fn of_twelve_replays_of_one_dead_letter_at_once_one_wins_while_a_server_runs() {
    let sink = Sink::always(503);
    let site = site(&sink, &attempts(1));
    let server = site.serve();
    bury(&server, &site, 1);
    sink.now(|_| Answer::status(200));
    let replays: Vec<Child> = (0..12).map(|_| start(&site, "replay", 1)).collect();
    let runs: Vec<Output> =
        replays.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
    let (won, lost): (Vec<Output>, Vec<Output>) =
        runs.into_iter().partition(|run| run.status.success());
    assert_eq!((won.len(), lost.len()), (1, 11));
    for run in &lost {
        // Marked, or swept already.
        let error = failed(run);
        assert!(error.contains("handled already") || error.contains("no dead letter"), "{error}");
    }
    sink.wait_for(2);
    site.wait_for_drain("forward");
    assert_eq!(sink.count(), 2);
}

#[test]
fn replays_from_the_command_line_and_submissions_at_full_speed_do_not_disturb_each_other() {
    let sink = Sink::new(|call| Answer::status(if call.nth <= 60 { 503 } else { 200 }));
    let site = site(&sink, &attempts(1));
    let server = site.serve();
    bury(&server, &site, 60);
    std::thread::scope(|scope| {
        for shell in 0..3 {
            let site = &site;
            scope.spawn(move || {
                for id in (1..=60).filter(|id| id % 3 == shell) {
                    done(start(site, "replay", id).wait_with_output().unwrap());
                }
            });
        }
        submit(&server, 61, 400);
    });
    sink.wait_for(60 + 60 + 400);
    site.wait_for_drain("forward");
    let calls = sink.calls();
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.header("message-id")).collect();
    let later: BTreeSet<&str> = calls[60..].iter().map(|call| call.body.as_str()).collect();
    assert_eq!((calls.len(), ids.len(), later.len()), (520, 520, 460));
    assert!(server.events("frame_corrupt").is_empty());
}

#[test]
fn a_replay_for_a_queue_that_sleeps_is_delivered_by_a_running_server() {
    let sink = Sink::always(503);
    let site = site(&sink, &attempts(1));
    let server = site.serve();
    bury(&server, &site, 1);
    server.stop();
    // This one has nothing to do for the queue and does not work it.
    let _server = site.serve();
    sink.now(|_| Answer::status(200));
    done(start(&site, "replay", 1).wait_with_output().unwrap());
    sink.wait_for(2);
}
