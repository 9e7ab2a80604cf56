//! One connection as a state machine, step by step, by a clock that the test moves.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fakes::{Answer, FakeQueues, Mode, get, post, services};
use crate::base::Timestamp;
use crate::base::limits::{MAX_ARRIVING_BYTES, MAX_HEAD_BYTES};
use crate::http::Deadlines;
use crate::http::arrivals::Arrivals;
use crate::http::capacity::Capacity;
use crate::http::connection::{Connection, State};
use crate::http::context::{Context, Scene};
use crate::http::exchange::Exchange;
use crate::http::gate::Access;
use crate::http::mailbox::{Mailbox, Token};
use crate::http::outbound::Outbound;

/// A client that takes only so many bytes.
#[derive(Default)]
struct Taken {
    room: usize,
    bytes: Vec<u8>,
}

struct Played(Arc<Mutex<Taken>>);

impl Outbound for Played {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.0.lock().unwrap();
        let len = bytes.len().min(taken.room);
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        taken.room -= len;
        taken.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn finish(&self) {}

    fn close(&self) {}
}

struct Machine {
    context: Context,
    queues: Arc<FakeQueues>,
    mailbox: Arc<Mailbox>,
    connection: Connection,
    taken: Arc<Mutex<Taken>>,
    /// Milliseconds since it was opened.
    now: u64,
}

impl Machine {
    fn open() -> Machine {
        let (services, queues, _) = services();
        let context = Context {
            services,
            deadlines: Deadlines::default(),
            max_message_bytes: 1 << 20,
            access: Access::Everyone,
            dev: None,
            capacity: Capacity::new(1),
            arrivals: Arrivals::default(),
            stopping: AtomicBool::new(false),
        };
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let taken = Arc::new(Mutex::new(Taken { room: usize::MAX, bytes: Vec::new() }));
        let exchange = Exchange::new(
            Box::new(Played(Arc::clone(&taken))),
            Arc::clone(&context.services.clock),
            Arc::clone(&mailbox),
            Token { place: 1, generation: 2 },
        );
        let connection = Connection::new(Arc::new(exchange), Duration::ZERO);
        Machine { context, queues, mailbox, connection, taken, now: 0 }
    }

    fn step<T>(&mut self, act: impl FnOnce(&mut Connection, &Scene<'_>) -> T) -> T {
        let scene = Scene {
            context: &self.context,
            boot: Duration::from_millis(self.now),
            wall: Timestamp::from_millis(0),
            date: "now",
        };
        act(&mut self.connection, &scene)
    }

    fn receive(&mut self, bytes: impl AsRef<[u8]>) {
        self.step(|connection, scene| connection.receive(bytes.as_ref(), scene));
    }

    /// Looks at the deadlines at this moment.
    fn look_at(&mut self, millis: u64) {
        self.now = millis;
        self.step(|connection, scene| connection.look(scene));
    }

    fn due(&mut self) -> Duration {
        self.step(|connection, scene| connection.due(scene))
    }

    /// The statuses of what was written since this was last asked.
    fn statuses(&self) -> Vec<u16> {
        let mut bytes = std::mem::take(&mut self.taken.lock().unwrap().bytes);
        let statuses = std::iter::from_fn(|| Answer::take(&mut bytes)).map(|answer| answer.status);
        statuses.collect()
    }

    fn told(&self) -> usize {
        self.mailbox.take().answered.len()
    }
}

#[test]
fn a_client_that_says_nothing_is_told_so_at_the_deadline_and_then_left() {
    let mut machine = Machine::open();
    assert_eq!(machine.due(), Duration::from_secs(10));
    machine.look_at(9_999);
    assert!(machine.statuses().is_empty());
    machine.look_at(10_000);
    assert_eq!(machine.statuses(), [408]);
    machine.receive("what comes now is thrown away");
    assert_eq!(machine.due(), Duration::from_secs(11));
    machine.look_at(11_000);
    assert!(machine.connection.is_over());
    assert!(machine.statuses().is_empty());
}

#[test]
fn a_head_has_its_deadline_from_its_first_byte_and_an_idle_connection_its_own() {
    let mut machine = Machine::open();
    machine.now = 5_000;
    machine.receive(get("/health"));
    assert_eq!(machine.due(), Duration::from_secs(80));
    machine.look_at(79_999);
    machine.receive("GET /hea");
    assert_eq!(machine.due(), Duration::from_millis(89_999));
    machine.now = 85_000;
    machine.receive("l");
    assert_eq!(machine.due(), Duration::from_millis(89_999), "a byte buys no time");
    machine.receive("th HTTP/1.1\r\n\r\n");
    assert_eq!(machine.statuses(), [200, 200]);
    machine.look_at(160_000);
    assert!(machine.connection.is_over());
    assert!(machine.statuses().is_empty(), "it is closed without a word");
}

#[test]
fn a_body_that_stops_is_cut_off() {
    let mut machine = Machine::open();
    let request = post("[1]");
    machine.receive(&request[..request.len() - 1]);
    machine.look_at(10_000);
    assert!(machine.statuses().is_empty());
    machine.look_at(10_001);
    assert_eq!(machine.statuses(), [408]);
    assert!(machine.queues.payloads().is_empty());
}

#[test]
fn the_loop_is_told_of_an_answer_only_when_something_waits_for_it() {
    let mut machine = Machine::open();
    machine.queues.set(Mode::Hold);
    machine.receive(post("1"));
    machine.look_at(1_000);
    machine.queues.release();
    assert_eq!((machine.statuses(), machine.told()), (vec![202], 0));

    machine.receive(post("2") + &get("/health"));
    machine.queues.release();
    assert_eq!((machine.statuses(), machine.told()), (vec![202], 1));
    machine.step(Connection::progress);
    assert_eq!(machine.statuses(), [200]);

    machine.receive(post("3"));
    machine.step(Connection::end_input);
    machine.queues.release();
    assert_eq!((machine.statuses(), machine.told()), (vec![202], 1));
    machine.step(Connection::progress);
    assert!(machine.connection.is_over());
}

#[test]
fn while_an_answer_is_owed_no_more_is_read_than_a_head_and_then_nothing() {
    let mut machine = Machine::open();
    machine.queues.set(Mode::Hold);
    machine.receive(post("1"));
    let mut sent = 0;
    while machine.connection.room() > 0 {
        let len = machine.connection.room().min(1000);
        machine.receive(vec![b'x'; len]);
        sent += len;
    }
    assert_eq!(sent, MAX_HEAD_BYTES);
    assert_eq!(machine.queues.payloads(), ["1"]);
    machine.queues.release();
    machine.step(Connection::progress);
    assert_eq!(machine.statuses(), [202, 431]);
}

#[test]
fn an_idle_connection_keeps_no_memory_of_what_it_has_used() {
    let mut machine = Machine::open();
    for byte in (post("1") + &get("/health")).bytes() {
        machine.receive([byte]);
    }
    assert_eq!(machine.statuses(), [202, 200]);
    assert_eq!(machine.connection.input.capacity(), 0);
    assert!(size_of::<Connection>() <= 256, "{}", size_of::<Connection>());
}

#[test]
fn what_a_client_does_not_take_is_waited_with_and_then_given_up_on() {
    let mut machine = Machine::open();
    machine.taken.lock().unwrap().room = 10;
    machine.receive(post("1"));
    assert_eq!(machine.told(), 1, "the queue's thread could not write it all");
    machine.step(Connection::progress);
    assert!(machine.connection.has_unsent());
    machine.taken.lock().unwrap().room = 5;
    machine.now = 3_000;
    machine.step(Connection::flush);
    assert_eq!(machine.taken.lock().unwrap().bytes, b"HTTP/1.1 202 Ac");
    machine.look_at(10_000);
    assert!(!machine.connection.is_over());
    machine.look_at(14_000);
    assert!(machine.connection.is_over());
}

#[test]
fn while_others_wait_deadlines_fall_and_idle_connections_may_go() {
    let mut machine = Machine::open();
    machine.context.capacity.press();
    machine.look_at(999);
    assert!(matches!(machine.connection.state, State::Head));
    machine.look_at(1_000);
    assert_eq!(machine.statuses(), [408]);
    assert!(machine.connection.is_over(), "nobody lingers while others wait");

    let mut machine = Machine::open();
    machine.receive(get("/health"));
    machine.context.capacity.press();
    let idle = |machine: &mut Machine| machine.step(|c, scene| c.idle_for_others(scene));
    machine.look_at(999);
    assert_eq!(idle(&mut machine), None, "it is likely to ask again");
    machine.look_at(1_000);
    assert_eq!(idle(&mut machine), Some(Duration::ZERO));
    machine.receive(get("/health"));
    assert!(machine.connection.is_over(), "a busy one yields with its answer");
}

#[test]
fn a_door_that_stops_waits_for_answers_that_are_owed() {
    let mut machine = Machine::open();
    machine.queues.set(Mode::Hold);
    machine.receive(post("1"));
    machine.context.stopping.store(true, Ordering::Relaxed);
    machine.look_at(1);
    assert!(!machine.connection.is_over());
    machine.queues.release();
    assert_eq!(machine.told(), 1);
    machine.step(Connection::progress);
    assert_eq!(machine.statuses(), [202]);
    assert!(machine.connection.is_over());
}

#[test]
fn a_body_in_pieces_is_refused_while_all_that_arrive_take_too_much_together() {
    let mut machine = Machine::open();
    let mut others = machine.context.arrivals.share();
    others.grow_to(MAX_ARRIVING_BYTES).unwrap();
    let request = post("[1]");
    machine.receive(&request[..request.len() - 1]);
    assert_eq!(machine.statuses(), [503]);
    assert!(machine.queues.payloads().is_empty());

    let mut machine = Machine::open();
    machine.receive(&request[..request.len() - 1]);
    machine.receive("]");
    assert_eq!(machine.statuses(), [202]);
}
