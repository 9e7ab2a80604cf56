//! The door: listens, starts the event loops, and closes.
//!
//! Home of `socket2`. Everything from outside comes in as an argument ([`Services`]), so that a
//! test opens a door with its own queues, registry and clock.
//!
//! Closing: [`Door::stop`] accepts no more and lets connections finish the request they are in;
//! [`Door::join`] waits for that, for a while.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::base::limits::{
    ACCEPTOR_STACK, ANSWER_DEADLINE, CONNECTION_TICK, HEAD_DEADLINE, IDLE_TIMEOUT, LINGER_TIME,
    LISTEN_BACKLOG, PRESSED_DEADLINE, SMALL_STACK_BYTES, TRANSFER_GRACE,
};
use crate::base::random::Random;
use crate::base::time::Clock;
use crate::http::arrivals::Arrivals;
use crate::http::capacity::Capacity;
use crate::http::context::Context;
use crate::http::dev::Flaky;
use crate::http::event_loop::EventLoop;
use crate::http::gate::{Access, Flows};
use crate::http::health::Readiness;
use crate::http::listener::Listener;
use crate::http::mailbox::Mailbox;
use crate::worker::Submit;

/// How a door is set up.
#[derive(Debug, Clone)]
pub struct DoorConfig {
    /// Where to listen (`--listen`); port 0 takes a free one.
    pub listen: SocketAddr,
    /// Event loops (`--acceptors`); at least 1.
    pub acceptors: usize,
    /// Connections that may be open at once (`--max-connections`); at least 1.
    pub max_connections: usize,
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
    /// The listening socket, shared with the thread that accepts.
    socket: OwnedFd,
    loops: Vec<Arc<Mailbox>>,
    pool: Arc<Pool>,
}

/// How many of the door's threads are still there.
#[derive(Debug, Default)]
struct Pool {
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Door {
    /// Listens, and starts the event loops.
    ///
    /// # Errors
    /// The address cannot be listened on, or a thread cannot be started; nothing is left behind
    /// then.
    pub fn start(config: DoorConfig, services: Services) -> io::Result<Door> {
        let socket = listen(config.listen)?;
        let address = socket.local_addr()?;
        let context = Arc::new(Context {
            services,
            deadlines: config.deadlines,
            max_message_bytes: config.max_message_bytes,
            access: if config.dev { Access::Everyone } else { Access::Keys },
            dev: config.dev.then(Flaky::default),
            capacity: Capacity::new(config.max_connections),
            arrivals: Arrivals::default(),
            stopping: AtomicBool::new(false),
        });
        let count = config.acceptors.max(1);
        let loops: Vec<EventLoop> =
            (0..count).map(|_| EventLoop::new(Arc::clone(&context))).collect::<io::Result<_>>()?;
        let door = Door {
            address,
            context,
            socket: socket.try_clone()?.into(),
            loops: loops.iter().map(|each| Arc::clone(each.mailbox())).collect(),
            pool: Arc::default(),
        };
        match door.start_threads(loops, socket) {
            Ok(()) => Ok(door),
            Err(error) => {
                door.stop();
                Err(error)
            }
        }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more. Connections finish the request that they are in; idle ones are closed.
    pub fn stop(&self) {
        self.context.stopping.store(true, Ordering::Relaxed);
        // This wakes the thread that waits for clients. It fails only for a socket that is shut
        // down already.
        let _shut = SockRef::from(&self.socket).shutdown(Shutdown::Both);
        self.context.capacity.interrupt();
        self.loops.iter().for_each(|mailbox| mailbox.ring());
    }

    /// Waits until every connection has ended, but no longer than this; says how many have not.
    pub fn join(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        let mut alive = self.pool.alive.lock().unwrap_or_else(PoisonError::into_inner);
        while *alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.context.capacity.open().max(1);
            }
            (alive, _) =
                self.pool.ended.wait_timeout(alive, left).unwrap_or_else(PoisonError::into_inner);
        }
        0
    }

    fn start_threads(&self, loops: Vec<EventLoop>, socket: TcpListener) -> io::Result<()> {
        for (number, event_loop) in loops.into_iter().enumerate() {
            let name = format!("acceptor-{number}");
            self.start_thread(name, ACCEPTOR_STACK, move || event_loop.run())?;
        }
        let (loops, context) = (self.loops.clone(), Arc::clone(&self.context));
        let listener = Listener { socket, loops, context };
        self.start_thread("listener".into(), SMALL_STACK_BYTES, move || listener.run())
    }

    fn start_thread(
        &self,
        name: String,
        stack: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let place = Place::take(&self.pool);
        let work = move || {
            work();
            drop(place);
        };
        thread::Builder::new().name(name).stack_size(stack).spawn(work).map(drop)
    }
}

/// One thread's place in the pool, given back when it ends, however it ends.
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
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
