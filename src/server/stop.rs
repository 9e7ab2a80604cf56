//! From a signal to an orderly end.
//!
//! SIGTERM and SIGINT: the door stops accepting, what is in flight is finished within the grace and
//! then given back uncharged, checkpoints are synced, files closed, exit 0. A second signal ends
//! the process at once with exit 1; that is safe too, as every end is.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::journal::{Event, Kind};
use crate::server::config::StartError;
use crate::server::start::Server;

/// The signals that end a server.
pub(super) struct Signals(mpsc::Receiver<i32>);

impl Signals {
    /// Starts the thread that receives them.
    pub(super) fn watch() -> io::Result<Signals> {
        // A handler, so that the signal does nothing; nobody reads the flag.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
        let (sender, receiver) = mpsc::channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for (nth, signal) in signals.forever().enumerate() {
                if nth > 0 || sender.send(signal).is_err() {
                    eprintln!("nexus: a second signal: ending at once");
                    std::process::exit(1);
                }
            }
        })?;
        Ok(Signals(receiver))
    }

    /// Waits for the first signal; gives its name.
    pub(super) fn wait(&self) -> &'static str {
        match self.0.recv() {
            Ok(SIGINT) => "SIGINT",
            Ok(_) => "SIGTERM",
            // The thread never ends; if it did, nothing could stop the server any more.
            Err(mpsc::RecvError) => "the end of the signal thread",
        }
    }
}

impl Server {
    /// Stops everything, in order, within the grace and a few seconds for the disk.
    ///
    /// # Errors
    /// Queues that did not close in time. Nothing is lost: their next owner recovers them.
    pub fn stop(self, because: &str) -> Result<(), StartError> {
        let Server { door, janitor, roster, catalog, journal, grace } = self;
        journal.record(&Event::new(Kind::ServerStopping).reason(because));
        let until = Instant::now() + grace;
        door.stop();
        // From here on other servers look after what this one leaves.
        janitor.stop();
        roster.quiesce(until);
        let busy = door.join(until.saturating_duration_since(Instant::now()));
        if busy > 0 {
            log::warn!("{busy} connections did not end within the grace of {} s", grace.as_secs());
        }
        let closed = roster.close();
        catalog.stop();
        closed.map_err(|queues| {
            let why = format!("{queues} queues did not close in time; they are recovered later");
            StartError::part("an orderly end", why)
        })
    }
}
