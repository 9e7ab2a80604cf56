//! One event loop: waits until some of its connections are ready, and serves them.
//!
//! All that is ready at one waking is served before the next wait. A connection belongs to one loop
//! for its whole life, so loops share no lock. Deadlines are looked at no more than once in a tick,
//! and only while there is one; a loop whose connections are all idle sleeps until the first of
//! them has been so for too long.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::base::limits::READY_AT_ONCE;
use crate::http::connections::{Connections, Readiness};
use crate::http::context::{Calendar, Context};
use crate::http::mailbox::{Mailbox, Token};

/// The kernel's name for the mailbox, which no token has.
const BELL: u64 = u64::MAX;

/// A loop, before or while it runs.
pub(super) struct EventLoop {
    context: Arc<Context>,
    mailbox: Arc<Mailbox>,
    epoll: Arc<OwnedFd>,
    connections: Connections,
    calendar: Calendar,
}

impl EventLoop {
    /// A loop without connections.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(super) fn new(context: Arc<Context>) -> io::Result<EventLoop> {
        let mailbox = Arc::new(Mailbox::new()?);
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let bell = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, mailbox.bell(), bell, epoll::EventFlags::IN)?;
        let connections = Connections::new(Arc::clone(&epoll), Arc::clone(&mailbox));
        Ok(EventLoop { context, mailbox, epoll, connections, calendar: Calendar::default() })
    }

    /// Where others leave notes for it.
    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Serves until the door has stopped and every connection has ended.
    pub(super) fn run(mut self) {
        let mut now = self.context.boot();
        let mut stopping = false;
        let mut events = Vec::with_capacity(READY_AT_ONCE);
        while !(stopping && self.connections.is_empty()) {
            self.wait(now, &mut events);
            let scene = self.calendar.scene(&self.context);
            now = scene.boot;
            let mut rung = false;
            for event in &events {
                if event.data.u64() == BELL {
                    rung = true;
                    continue;
                }
                let token = Token::from_bits(event.data.u64());
                self.connections.serve(token, Readiness::Socket(event.flags), &scene);
            }
            if rung {
                self.connections.read_notes(self.mailbox.take(), &scene);
            }
            let stops_now = !stopping && self.context.is_stopping();
            if stops_now || self.connections.due().is_some_and(|due| due <= now) {
                stopping |= stops_now;
                self.connections.look_at_all(&scene);
            }
        }
        for _lost in self.mailbox.close().sockets {
            self.context.capacity.release();
        }
    }

    /// Waits for events, or until the next deadline.
    fn wait(&self, now: Duration, events: &mut Vec<epoll::Event>) {
        let left = self.connections.due().map(|due| due.saturating_sub(now));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        events.clear();
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&*self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => log::error!("an event loop cannot wait: {error}"),
        }
    }
}
