//! The one place that every event passes on its way to the log.
//!
//! Not here: the shape of an event (`event`), the lines of the log (`log`).

use std::sync::{Arc, Mutex, PoisonError};

use log::Record;
use log::kv::{self, Key, Value, VisitSource};

use super::event::{Event, Kind};
use super::thin::Thinner;
use crate::base::time::Clock;

/// The name by which `RUST_LOG` selects the events.
const TARGET: &str = "nexus";

/// Takes every event of a process.
pub struct Journal {
    clock: Arc<dyn Clock>,
    thinner: Mutex<Thinner>,
}

impl Journal {
    /// A journal that tells repeats apart by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Journal {
        Journal { clock, thinner: Mutex::new(Thinner::default()) }
    }

    /// Whether anybody reads events of this kind. Asked before an event is made where one is made
    /// for each message.
    pub fn wants(&self, kind: Kind) -> bool {
        log::log_enabled!(target: TARGET, kind.level())
    }

    /// Writes an event, unless it repeats one of the last second.
    pub fn record(&self, event: &Event<'_>) {
        let kind = event.kind();
        if !self.wants(kind) {
            return;
        }
        let mut repeated = 0;
        if kind.is_thinned() {
            let mut thinner = self.thinner.lock().unwrap_or_else(PoisonError::into_inner);
            match thinner.admit(event.cause(), self.clock.boot()) {
                Some(left_out) => repeated = left_out,
                None => return,
            }
        }
        let fields = WithCount { event, repeated };
        log::logger().log(
            &Record::builder()
                .target(TARGET)
                .level(kind.level())
                .args(format_args!("{}", kind.sentence()))
                .key_values(&fields)
                .build(),
        );
    }
}

/// An event and how many equal ones were left out before it.
struct WithCount<'a> {
    event: &'a Event<'a>,
    repeated: u64,
}

impl kv::Source for WithCount<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        self.event.visit(visitor)?;
        match self.repeated {
            0 => Ok(()),
            count => visitor.visit_pair(Key::from_str("left_out"), Value::from(count)),
        }
    }
}
