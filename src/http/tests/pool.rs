//! More clients than there is room for, a handler that panics, and the end.

use std::time::Duration;

use super::fakes::{Mode, PATIENCE, TestDoor, get, post};

/// A door with little room, that gets impatient quickly.
fn small(max_connections: usize) -> TestDoor {
    TestDoor::with(|config| {
        config.max_connections = max_connections;
        config.deadlines.tick = Duration::from_millis(2);
        config.deadlines.pressed = Duration::from_millis(5);
    })
}

#[test]
fn silent_connections_by_the_hundred_do_not_keep_out_a_good_request() {
    let door = small(4);
    let silent: Vec<_> = (0..400).map(|_| door.connect()).collect();
    assert_eq!(door.connect().ask(post("1")).status, 202);
    drop(silent);
}

#[test]
fn idle_and_slow_connections_make_room_when_others_wait() {
    let door = small(2);
    let mut idle = door.connect();
    assert_eq!(idle.ask(get("/health")).status, 200);
    let mut slow = door.connect();
    slow.send(&post("[1]")[..60]);
    assert_eq!(door.connect().ask(post("2")).status, 202);
    let mut body = door.connect();
    body.send("POST /dev/echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n12");
    let mut other = door.connect();
    other.send("POST /dev/echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n12");
    assert_eq!(door.connect().ask(post("3")).status, 202);
    assert_eq!(door.queues.payloads(), ["2", "3"]);
}

#[test]
fn a_busy_connection_makes_room_when_others_wait() {
    // Ticks are so far apart that the connection is never seen idle.
    let door = TestDoor::with(|config| {
        config.max_connections = 1;
        config.deadlines.tick = PATIENCE;
        config.deadlines.pressed = Duration::from_secs(1);
    });
    let mut busy = door.connect();
    assert_eq!(busy.ask(post("1")).status, 202);
    let mut waiting = door.connect();
    waiting.send(post("2"));
    let closed = (0..1_000_000).any(|_| busy.ask(get("/health")).header("Connection").is_some());
    assert!(closed);
    assert_eq!(waiting.answer().status, 202);
}

#[test]
fn an_idle_connection_stays_open_while_nobody_waits() {
    // Room for each connection, for the one before may still be open.
    let door = small(22);
    let mut idle = door.connect();
    assert_eq!(idle.ask(get("/health")).status, 200);
    for _ in 0..20 {
        assert_eq!(door.connect().ask(get("/health")).status, 200);
    }
    assert_eq!(idle.ask(get("/health")).status, 200);
}

#[test]
fn a_handler_that_panics_costs_its_connection_and_nothing_else() {
    let door = small(1);
    door.queues.set(Mode::Panic);
    for _ in 0..3 {
        let answers = door.all_answers_to(post("1"));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].status, 503, "the handle was dropped unanswered");
    }
    door.queues.set(Mode::AnswerAtOnce);
    assert_eq!(door.connect().ask(post("1")).status, 202);
}

#[test]
fn a_door_that_stops_finishes_what_is_in_hand_and_closes_what_is_idle() {
    let door = TestDoor::open();
    let mut idle = door.connect();
    assert_eq!(idle.ask(get("/health")).status, 200);
    door.queues.set(Mode::Hold);
    let mut in_hand = door.connect();
    in_hand.send(post("1") + &get("/health") + &post("2"));
    door.queues.wait_for_held(1);

    door.door.stop();
    assert_eq!(idle.rest(), []);
    assert_ne!(door.door.join(Duration::ZERO), 0, "one is in hand");
    door.queues.release();
    // What was in hand is answered, and with it what came right behind: that answer says that it is
    // the last.
    let answers = in_hand.rest();
    assert_eq!(answers.len(), 2);
    assert_eq!((answers[0].status, answers[1].status), (202, 200));
    assert_eq!(answers[1].header("Connection"), Some("close"));
    assert_eq!(door.queues.payloads(), ["1"]);
    assert_eq!(door.door.join(PATIENCE), 0);
    assert!(std::net::TcpStream::connect(door.door.address()).is_err());
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let door = TestDoor::open();
    let (services, _, _) = super::fakes::services();
    let config = crate::http::DoorConfig {
        listen: door.door.address(),
        acceptors: 1,
        max_connections: 1,
        max_message_bytes: 1,
        dev: true,
        deadlines: crate::http::Deadlines::default(),
    };
    assert!(crate::http::Door::start(config, services).is_err());
}
