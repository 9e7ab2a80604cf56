//! The door: listens, starts the pool of acceptors, and closes.
//!
//! Home of `socket2`. Everything from outside comes in as an argument ([`Services`]), so that a
//! test opens a door with its own queues, registry and clock.
//!
//! Closing: [`Door::stop`] accepts no more and lets connections finish the request they are in;
//! [`Door::join`] waits for that, for a while.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::base::limits::{
    ACCEPTOR_STACK, ANSWER_DEADLINE, CONNECTION_TICK, HEAD_DEADLINE, IDLE_TIMEOUT, LINGER_TIME,
    LISTEN_BACKLOG, PRESSED_DEADLINE, TRANSFER_GRACE,
};
use crate::base::random::Random;
use crate::base::time::Clock;
use crate::http::acceptors::{self, Pressure};
use crate::http::context::Context;
use crate::http::dev::Flaky;
use crate::http::gate::{Access, Flows};
use crate::http::health::Readiness;
use crate::worker::Submit;

/// How a door is set up.
#[derive(Debug, Clone)]
pub struct DoorConfig {
    /// Where to listen (`--listen`); port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads, each with one connection at a time (`--acceptors`); at least 1.
    pub acceptors: usize,
    /// Ceiling on one message in bytes, where the flow has none of its own (`--max-message-bytes`).
    pub max_message_bytes: u64,
    /// Lets everybody in, and has the sample downstream (`--dev`).
    pub dev: bool,
    /// How long clients are waited for.
    pub deadlines: Deadlines,
}

/// How long a connection waits, and for what. The defaults are those of `base::limits`; tests have
/// shorter ones.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// How often everything else is looked at.
    pub tick: Duration,
    /// A whole head.
    pub head: Duration,
    /// The next request.
    pub idle: Duration,
    /// Silence in a body, or of a client that does not read.
    pub transfer: Duration,
    /// A queue's answer.
    pub answer: Duration,
    /// The rest of a refused request.
    pub linger: Duration,
    /// What deadlines fall to while others wait.
    pub pressed: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            tick: CONNECTION_TICK,
            head: HEAD_DEADLINE,
            idle: IDLE_TIMEOUT,
            transfer: TRANSFER_GRACE,
            answer: ANSWER_DEADLINE,
            linger: LINGER_TIME,
            pressed: PRESSED_DEADLINE,
        }
    }
}

/// What the door needs of the rest of the program.
#[derive(Clone)]
pub struct Services {
    /// The registry, for the gate.
    pub flows: Arc<dyn Flows>,
    /// The queues.
    pub queues: Arc<dyn Submit>,
    /// What `/ready` tells.
    pub readiness: Arc<dyn Readiness>,
    /// Both clocks.
    pub clock: Arc<dyn Clock>,
    /// For new correlation ids.
    pub random: Arc<dyn Random>,
}

/// An open door.
pub struct Door {
    address: SocketAddr,
    context: Arc<Context>,
    pool: Arc<Pool>,
}

/// How many acceptors are still there.
#[derive(Debug, Default)]
struct Pool {
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Door {
    /// Listens, and starts the acceptors.
    ///
    /// # Errors
    /// The address cannot be listened on, or a thread cannot be started; nothing is left behind
    /// then.
    pub fn start(config: DoorConfig, services: Services) -> io::Result<Door> {
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?;
        let acceptors = config.acceptors.max(1);
        let context = Arc::new(Context {
            services,
            deadlines: config.deadlines,
            max_message_bytes: config.max_message_bytes,
            access: if config.dev { Access::Everyone } else { Access::Keys },
            dev: config.dev.then(Flaky::default),
            pressure: Pressure::new(listener, acceptors),
            stopping: AtomicBool::new(false),
        });
        let door = Door { address, context, pool: Arc::default() };
        for number in 0..acceptors {
            if let Err(error) = door.start_acceptor(number) {
                door.stop();
                return Err(error);
            }
        }
        Ok(door)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more. Connections finish the request that they are in; idle ones close at their
    /// next tick.
    pub fn stop(&self) {
        self.context.stopping.store(true, Ordering::Relaxed);
        // On Linux this wakes every thread that waits in accept. It fails only for a socket that is
        // shut down already.
        let _shut = SockRef::from(self.context.pressure.listener()).shutdown(Shutdown::Both);
    }

    /// Waits until every acceptor has ended, but no longer than this; says how many have not.
    pub fn join(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        let mut alive = self.pool.alive.lock().unwrap_or_else(PoisonError::into_inner);
        while *alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (alive, _) =
                self.pool.ended.wait_timeout(alive, left).unwrap_or_else(PoisonError::into_inner);
        }
        *alive
    }

    fn start_acceptor(&self, number: usize) -> io::Result<()> {
        let context = Arc::clone(&self.context);
        let place = Place::take(&self.pool);
        thread::Builder::new()
            .name(format!("acceptor-{number}"))
            .stack_size(ACCEPTOR_STACK)
            .spawn(move || {
                acceptors::run(&context);
                drop(place);
            })
            .map(drop)
    }
}

/// One acceptor's place in the pool, given back when it ends, however it ends.
struct Place(Arc<Pool>);

impl Place {
    fn take(pool: &Arc<Pool>) -> Place {
        *pool.alive.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Place(Arc::clone(pool))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.alive.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}
