//! The connections of one event loop: their places, and what the kernel watches of them.
//!
//! Everything read goes through one buffer of the loop; a connection keeps only what it cannot use
//! yet. A panic while a connection is served costs that connection, and nothing else.

use std::cmp::Reverse;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use rustix::event::epoll::EventFlags;

use crate::base::limits::{ACCEPT_RETRY_DELAY, BODY_STEP};
use crate::http::connection::Connection;
use crate::http::context::Scene;
use crate::http::exchange::Exchange;
use crate::http::mailbox::{Mailbox, Notes, Token};

/// The connections of one loop.
pub(super) struct Connections {
    epoll: Arc<OwnedFd>,
    mailbox: Arc<Mailbox>,
    places: Vec<Place>,
    free: Vec<u32>,
    open: usize,
    scratch: Box<[u8]>,
    /// When deadlines are to be looked at next.
    due: Option<Duration>,
    /// Those that were idle when others last waited, the oldest last.
    idle: Vec<Token>,
    /// When they were listed.
    listed: Option<Duration>,
}

struct Place {
    generation: u32,
    seated: Option<Seated>,
}

struct Seated {
    socket: Arc<TcpStream>,
    connection: Connection,
    /// What the kernel watches.
    watched: EventFlags,
}

/// Why a connection is served.
#[derive(Debug, Clone, Copy)]
pub(super) enum Readiness {
    /// The kernel says so of its socket.
    Socket(EventFlags),
    /// Its outstanding answer was given.
    Answered,
    /// Its deadlines are looked at.
    Deadline,
}

impl Connections {
    /// None, watched by this instance of epoll.
    pub(super) fn new(epoll: Arc<OwnedFd>, mailbox: Arc<Mailbox>) -> Connections {
        Connections {
            epoll,
            mailbox,
            places: Vec::new(),
            free: Vec::new(),
            open: 0,
            scratch: vec![0; BODY_STEP].into_boxed_slice(),
            due: None,
            idle: Vec::new(),
            listed: None,
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// When deadlines are to be looked at next, if there is any.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Serves a connection, if it is still there.
    pub(super) fn serve(&mut self, token: Token, ready: Readiness, scene: &Scene<'_>) {
        let Some(place) = self.places.get_mut(token.place as usize) else { return };
        let Some(seated) = &mut place.seated else { return };
        if place.generation != token.generation {
            return;
        }
        let scratch = &mut self.scratch;
        // What a panic leaves half done is the connection's, and goes with it; the buffer has
        // nothing that is read before it is written.
        let served = catch_unwind(AssertUnwindSafe(|| seated.serve(ready, scratch, scene)));
        if served.is_err() {
            log::error!("a connection was dropped: its handler panicked");
        }
        if served.is_err() || seated.connection.is_over() || !seated.watch(&self.epoll, token) {
            self.remove(token, scene);
            return;
        }
        let due = seated.connection.due(scene).max(scene.boot + scene.context.deadlines.tick);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Does what others have asked for.
    pub(super) fn read_notes(&mut self, notes: Notes, scene: &Scene<'_>) {
        for token in notes.answered {
            self.serve(token, Readiness::Answered, scene);
        }
        for socket in notes.sockets {
            self.add(socket, scene);
        }
        if notes.make_room {
            self.make_room(scene);
        }
    }

    /// Looks at every connection's deadlines.
    pub(super) fn look_at_all(&mut self, scene: &Scene<'_>) {
        self.due = None;
        for at in 0..self.places.len() {
            let token = self.token_at(at);
            self.serve(token, Readiness::Deadline, scene);
        }
    }

    fn token_at(&self, at: usize) -> Token {
        // There are fewer places than that, for there are fewer descriptors.
        Token { place: at as u32, generation: self.places[at].generation }
    }

    fn add(&mut self, socket: TcpStream, scene: &Scene<'_>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, seated: None });
            // There are fewer descriptors than that.
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        let token = Token { place: at, generation: place.generation };
        let socket = Arc::new(socket);
        let exchange = Exchange::new(
            Box::new(Arc::clone(&socket)),
            Arc::clone(&scene.context.services.clock),
            Arc::clone(&self.mailbox),
            token,
        );
        let connection = Connection::new(Arc::new(exchange), scene.boot);
        let watched = EventFlags::IN;
        let data = epoll::EventData::new_u64(token.to_bits());
        // Small answers leave at once. A socket that cannot be readied is one whose client has
        // gone.
        let readied = !scene.context.is_stopping()
            && socket.set_nodelay(true).is_ok()
            && epoll::add(&*self.epoll, &*socket, data, watched).is_ok();
        place.seated = Some(Seated { socket, connection, watched });
        self.open += 1;
        if readied {
            // Its request has often come already.
            self.serve(token, Readiness::Socket(EventFlags::IN), scene);
        } else {
            self.remove(token, scene);
        }
    }

    /// Ends what is too late, and closes one connection that is idle, if one may be. All are looked
    /// at only now and then, so that many who wait do not make it costly.
    fn make_room(&mut self, scene: &Scene<'_>) {
        let since = self.listed.map(|listed| scene.boot.saturating_sub(listed));
        if since.is_none_or(|since| since >= ACCEPT_RETRY_DELAY / 2) {
            self.listed = Some(scene.boot);
            self.look_at_all(scene);
            self.list_idle(scene);
        }
        self.close_oldest_idle(scene);
    }

    fn list_idle(&mut self, scene: &Scene<'_>) {
        let all = (0..self.places.len()).map(|at| self.token_at(at));
        let mut idle: Vec<_> =
            all.filter_map(|token| Some((self.idle_since(token, scene)?, token))).collect();
        idle.sort_unstable_by_key(|(since, _)| Reverse(*since));
        self.idle = idle.into_iter().map(|(_, token)| token).collect();
    }

    fn idle_since(&self, token: Token, scene: &Scene<'_>) -> Option<Duration> {
        let place = self.places.get(token.place as usize)?;
        let seated = place.seated.as_ref().filter(|_| place.generation == token.generation)?;
        seated.connection.idle_for_others(scene)
    }

    fn close_oldest_idle(&mut self, scene: &Scene<'_>) {
        while let Some(token) = self.idle.pop() {
            if self.idle_since(token, scene).is_none() {
                continue;
            }
            if !scene.context.capacity.must_yield() {
                self.idle.push(token);
                return;
            }
            // Its next request may have come just now: it is served then.
            self.serve(token, Readiness::Socket(EventFlags::IN), scene);
            if self.idle_since(token, scene).is_some() {
                self.remove(token, scene);
            }
            return;
        }
    }

    fn remove(&mut self, token: Token, scene: &Scene<'_>) {
        let place = &mut self.places[token.place as usize];
        let Some(seated) = place.seated.take() else { return };
        // It is closed for good with its last owner, and until then it is not watched.
        let _unwatched = epoll::delete(&*self.epoll, &*seated.socket);
        seated.connection.leave();
        // After so many the place is not used again, for its tokens would be.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(token.place);
        }
        self.open -= 1;
        self.mailbox.lighten();
        scene.context.capacity.release();
    }
}

impl Seated {
    fn serve(&mut self, ready: Readiness, scratch: &mut [u8], scene: &Scene<'_>) {
        let connection = &mut self.connection;
        match ready {
            Readiness::Answered => connection.progress(scene),
            Readiness::Deadline => connection.look(scene),
            Readiness::Socket(flags) => {
                if flags.contains(EventFlags::OUT) {
                    connection.flush(scene);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.read(flags, scratch, scene);
                }
            }
        }
    }

    fn read(&mut self, flags: EventFlags, scratch: &mut [u8], scene: &Scene<'_>) {
        let connection = &mut self.connection;
        let room = connection.room().min(scratch.len());
        if room == 0 {
            // Nobody is there to be answered, or the kernel would go on telling so.
            if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                connection.lose();
            }
            return;
        }
        match (&*self.socket).read(&mut scratch[..room]) {
            Ok(0) => connection.end_input(scene),
            Ok(len) => connection.receive(&scratch[..len], scene),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => connection.lose(),
        }
    }

    /// Has the kernel watch what the connection waits for; `false` when it cannot.
    fn watch(&mut self, epoll: &OwnedFd, token: Token) -> bool {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.connection.room() > 0);
        wanted.set(EventFlags::OUT, self.connection.has_unsent());
        if wanted == self.watched {
            return true;
        }
        self.watched = wanted;
        let data = epoll::EventData::new_u64(token.to_bits());
        epoll::modify(epoll, &*self.socket, data, wanted).is_ok()
    }
}
