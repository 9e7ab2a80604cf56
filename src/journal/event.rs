//! The events of a server: what can happen, how loud each is, and the fields that it carries.
//!
//! An [`Event`] is built by the thread that saw it and handed to
//! [`Journal::record`](super::Journal::record). Its field names are those of the log, the journal
//! and the interfaces alike: `event`, `tenant`, `flow`, `id`, `offset`, `correlation_id`,
//! `attempt`, `outcome`, `reason`, `duration_ms`, `due_at`, `path`, `error`.
//!
//! Promises: a payload is never in an event (there is no field for one); a text from outside is cut
//! to [`MAX_ERROR_TEXT`] and its control characters are escaped, so that one event stays one line.
//! Not here: where events are written (`log`), which are left out when they repeat (`thin`).

use std::borrow::Cow;
use std::path::Path;

use log::Level;
use log::kv::{self, Key, Value, VisitSource};

use crate::base::limits::MAX_ERROR_TEXT;
use crate::base::{CorrelationId, MessageId, QueueName, Timestamp};

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A 202 went out.
    QueueAccepted,
    /// A delivery ended in success; `outcome` is `succeeded` or `fault_handled`.
    QueueProcessed,
    /// A condition was false: acknowledged, not a failure.
    QueueFiltered,
    /// An attempt failed and the next is scheduled for `due_at`.
    QueueRetry,
    /// The registry has no such flow: acknowledged and dropped.
    QueueDropped,
    /// Dead-lettered. The entry itself does not keep the correlation id; this event does.
    DlqMoved,
    /// A dead letter was put back on its queue as a new message.
    DlqReplayed,
    /// A dead letter was marked handled.
    DlqDiscarded,
    /// Bytes that do not verify were found and stepped over.
    FrameCorrupt,
    /// A failed write could not be undone, or the files are not what they must be: the queue
    /// refuses.
    QueuePoisoned,
    /// Full recovery has succeeded and the queue accepts again.
    QueueReopened,
    /// A file of the queue could not be read or written; it is tried again.
    QueueFault,
    /// No room on the device.
    DiskFull,
    /// A queue's thread began its work.
    WorkerStarted,
    /// A queue's thread ended: stopped, or the queue was idle and gave its place back.
    WorkerStopped,
    /// This process delivers the queue from now on.
    WorkerElected,
    /// A thread of the worker failed in a way that it must not; it goes on.
    WorkerPanicked,
    /// The queue was found settled and its log was emptied.
    QueueDrained,
    /// The registry could not be read; it is tried again each second.
    RegistryUnavailable,
    /// A caller was refused at the gate.
    AuthRefused,
    /// The server listens.
    ServerStarted,
    /// The server was asked to stop.
    ServerStopping,
}

impl Kind {
    /// The value of the field `event`.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// How loud it is in the log.
    pub fn level(self) -> Level {
        self.describe().1
    }

    /// The sentence that a person reads.
    pub fn sentence(self) -> &'static str {
        self.describe().2
    }

    fn describe(self) -> (&'static str, Level, &'static str) {
        use Level::{Debug, Error, Info, Warn};
        match self {
            Kind::QueueAccepted => ("queue_accepted", Debug, "message accepted"),
            Kind::QueueProcessed => ("queue_processed", Info, "message processed"),
            Kind::QueueFiltered => ("queue_filtered", Info, "message filtered by a condition"),
            Kind::QueueRetry => ("queue_retry", Warn, "attempt failed, the next is scheduled"),
            Kind::QueueDropped => ("queue_dropped", Error, "no such flow, message dropped"),
            Kind::DlqMoved => ("dlq_moved", Warn, "message moved to the dead-letter queue"),
            Kind::DlqReplayed => ("dlq_replayed", Info, "dead letter replayed"),
            Kind::DlqDiscarded => ("dlq_discarded", Info, "dead letter discarded"),
            Kind::FrameCorrupt => ("frame_corrupt", Error, "damaged bytes stepped over"),
            Kind::QueuePoisoned => {
                ("queue_poisoned", Error, "queue refuses until it has been recovered")
            }
            Kind::QueueReopened => ("queue_reopened", Warn, "queue recovered and open again"),
            Kind::QueueFault => ("queue_fault", Error, "queue file failed, trying again"),
            Kind::DiskFull => ("disk_full", Error, "no room on the device"),
            Kind::WorkerStarted => ("worker_started", Debug, "queue started"),
            Kind::WorkerStopped => ("worker_stopped", Debug, "queue stopped"),
            Kind::WorkerElected => ("worker_elected", Info, "this process delivers the queue"),
            Kind::WorkerPanicked => ("worker_panicked", Error, "a thread failed and goes on"),
            Kind::QueueDrained => ("queue_drained", Debug, "queue drained"),
            Kind::RegistryUnavailable => {
                ("registry_unavailable", Error, "registry cannot be read, trying again")
            }
            Kind::AuthRefused => ("auth_refused", Warn, "caller refused"),
            Kind::ServerStarted => ("server_started", Info, "server started"),
            Kind::ServerStopping => ("server_stopping", Info, "server stopping"),
        }
    }

    /// Whether equal ones within a second are one line with a count. Never those that a person
    /// searches one by one.
    pub fn is_thinned(self) -> bool {
        matches!(
            self,
            Kind::QueueRetry
                | Kind::QueueDropped
                | Kind::QueuePoisoned
                | Kind::QueueFault
                | Kind::DiskFull
                | Kind::WorkerPanicked
                | Kind::RegistryUnavailable
                | Kind::AuthRefused
        )
    }
}

/// One event. Borrowed from whoever saw it; made only when somebody wants to read it.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    kind: Kind,
    queue: Option<&'a QueueName>,
    id: Option<MessageId>,
    offset: Option<u64>,
    correlation_id: Option<&'a CorrelationId>,
    attempt: Option<u32>,
    outcome: Option<&'a str>,
    reason: Option<&'a str>,
    duration_ms: Option<u64>,
    due_at: Option<Timestamp>,
    path: Option<Cow<'a, str>>,
    error: Option<Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// An event of the server as a whole.
    pub fn new(kind: Kind) -> Event<'a> {
        Event {
            kind,
            queue: None,
            id: None,
            offset: None,
            correlation_id: None,
            attempt: None,
            outcome: None,
            reason: None,
            duration_ms: None,
            due_at: None,
            path: None,
            error: None,
        }
    }

    /// An event of one queue.
    pub fn of(kind: Kind, queue: &'a QueueName) -> Event<'a> {
        Event { queue: Some(queue), ..Event::new(kind) }
    }

    /// Which message, and where its frame begins.
    pub fn message(mut self, id: MessageId, offset: u64) -> Event<'a> {
        self.id = Some(id);
        self.offset = Some(offset);
        self
    }

    /// Which message, where its place is not known.
    pub fn id(mut self, id: MessageId) -> Event<'a> {
        self.id = Some(id);
        self
    }

    /// The trace that it belongs to.
    pub fn correlation_id(mut self, correlation_id: &'a CorrelationId) -> Event<'a> {
        self.correlation_id = Some(correlation_id);
        self
    }

    /// Which attempt, from 1.
    pub fn attempt(mut self, attempt: u32) -> Event<'a> {
        self.attempt = Some(attempt);
        self
    }

    /// How it ended.
    pub fn outcome(mut self, outcome: &'a str) -> Event<'a> {
        self.outcome = Some(outcome);
        self
    }

    /// Why it was dead-lettered, or why the server stops.
    pub fn reason(mut self, reason: &'a str) -> Event<'a> {
        self.reason = Some(reason);
        self
    }

    /// How long it took, in milliseconds.
    pub fn duration_ms(mut self, millis: u64) -> Event<'a> {
        self.duration_ms = Some(millis);
        self
    }

    /// When the next attempt is due.
    pub fn due_at(mut self, due_at: Timestamp) -> Event<'a> {
        self.due_at = Some(due_at);
        self
    }

    /// The file, and where in it.
    pub fn place(mut self, path: &'a Path, offset: u64) -> Event<'a> {
        self.path = Some(printable(path.to_string_lossy()));
        self.offset = Some(offset);
        self
    }

    /// What went wrong; cut and escaped.
    pub fn error(mut self, text: impl Into<Cow<'a, str>>) -> Event<'a> {
        self.error = Some(printable(text));
        self
    }

    /// What happened.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What makes two events the same complaint: the kind, the queue and the text.
    pub(super) fn cause(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        (self.kind, self.queue, &self.error).hash(&mut hasher);
        hasher.finish()
    }
}

impl kv::Source for Event<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        let mut pair = |key: &'static str, value: Option<Value<'kvs>>| match value {
            Some(value) => visitor.visit_pair(Key::from_str(key), value),
            None => Ok(()),
        };
        pair("event", Some(Value::from(self.kind.name())))?;
        pair("tenant", self.queue.map(|queue| Value::from(queue.tenant.as_str())))?;
        pair("flow", self.queue.map(|queue| Value::from(queue.flow.as_str())))?;
        pair("id", self.id.map(|id| Value::from(id.get())))?;
        pair("path", self.path.as_deref().map(Value::from))?;
        pair("offset", self.offset.map(Value::from))?;
        pair("correlation_id", self.correlation_id.map(|id| Value::from(id.as_str())))?;
        pair("attempt", self.attempt.map(Value::from))?;
        pair("outcome", self.outcome.map(Value::from))?;
        pair("reason", self.reason.map(Value::from))?;
        pair("duration_ms", self.duration_ms.map(Value::from))?;
        pair("due_at", self.due_at.as_ref().map(Value::from_display))?;
        pair("error", self.error.as_deref().map(Value::from))
    }
}

/// A text from outside, fit for one line: at most [`MAX_ERROR_TEXT`] bytes, control characters
/// escaped.
fn printable<'a>(text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let text = text.into();
    if text.len() <= MAX_ERROR_TEXT && !text.contains(char::is_control) {
        return text;
    }
    let mut clean = String::new();
    for c in text.chars() {
        let before = clean.len();
        if c.is_control() {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
        if clean.len() > MAX_ERROR_TEXT - '…'.len_utf8() {
            clean.truncate(before);
            clean.push('…');
            break;
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Fields(BTreeMap<String, String>);

    impl<'kvs> VisitSource<'kvs> for Fields {
        fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
            self.0.insert(key.to_string(), value.to_string());
            Ok(())
        }
    }

    #[test]
    fn an_event_shows_the_fields_it_has_and_no_others() {
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let trace = CorrelationId::parse(b"trace-1").unwrap();
        let event = Event::of(Kind::QueueRetry, &queue)
            .message(MessageId::FIRST, 64)
            .correlation_id(&trace)
            .attempt(2)
            .due_at(Timestamp::from_millis(1_786_284_131_250))
            .error("step 'forward': effect handler failed: HTTP 503 Service Unavailable");
        let mut fields = Fields(BTreeMap::new());
        kv::Source::visit(&event, &mut fields).unwrap();
        let shown: Vec<_> = fields.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            shown,
            [
                "attempt=2",
                "correlation_id=trace-1",
                "due_at=2026-08-09T14:02:11.250Z",
                "error=step 'forward': effect handler failed: HTTP 503 Service Unavailable",
                "event=queue_retry",
                "flow=forward-order",
                "id=1",
                "offset=64",
                "tenant=acme",
            ]
        );
    }

    #[test]
    fn a_text_from_outside_stays_on_one_line_and_within_its_bound() {
        assert_eq!(printable("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(printable("é".repeat(MAX_ERROR_TEXT / 2)).len(), MAX_ERROR_TEXT);
        let cut = printable("é".repeat(MAX_ERROR_TEXT));
        assert!(cut.len() <= MAX_ERROR_TEXT && cut.ends_with('…'), "{} bytes", cut.len());
        assert!(printable("\0".repeat(MAX_ERROR_TEXT)).len() <= MAX_ERROR_TEXT);
    }

    #[test]
    fn the_same_complaint_of_two_queues_has_two_causes() {
        let (a, b) = (QueueName::parse("a", "x").unwrap(), QueueName::parse("b", "x").unwrap());
        let cause = |queue, text: &'static str| {
            Event::of(Kind::QueueRetry, queue).id(MessageId::FIRST).error(text).cause()
        };
        assert_eq!(cause(&a, "503"), Event::of(Kind::QueueRetry, &a).error("503").cause());
        assert_ne!(cause(&a, "503"), cause(&b, "503"));
        assert_ne!(cause(&a, "503"), cause(&a, "504"));
    }
}
