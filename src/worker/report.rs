//! What became of deliveries, as events.
//!
//! The queue's files say what a settlement was; the [`Trace`] kept from the run says the rest:
//! where the message lies, and how long it took. Not here: settling itself (`queue`), when it is
//! done (`owner`).

use crate::base::QueueName;
use crate::journal::{Event, Journal, Kind};
use crate::queue::{FaultKind, QueueError, Report, Settled, Settlement};
use crate::worker::runner::{Done, Trace};

/// Reports one settlement. `trace` is missing where no run of this process
/// led to it.
pub(super) fn report_settled(
    journal: &Journal,
    queue: &QueueName,
    settled: &Settled,
    trace: Option<&Trace>,
) {
    let event = |kind| {
        let message = &settled.message;
        let event =
            Event::of(kind, queue).correlation_id(&message.correlation_id).attempt(settled.attempt);
        match trace {
            Some(trace) => event.message(message.id, trace.offset).duration_ms(trace.duration_ms),
            None => event.id(message.id),
        }
    };
    let done = trace.and_then(|trace| trace.done);
    let event = match &settled.what {
        Settlement::Acknowledged => acknowledged(event, done),
        Settlement::Rescheduled { due_at, error, .. } => {
            event(Kind::QueueRetry).outcome("failed").due_at(*due_at).error(error)
        }
        Settlement::DeadLettered { reason, error } => {
            event(Kind::DlqMoved).outcome("failed").reason(reason.as_str()).error(error)
        }
    };
    journal.record(&event);
}

fn acknowledged<'a>(event: impl Fn(Kind) -> Event<'a>, done: Option<Done>) -> Event<'a> {
    match done {
        Some(Done::Succeeded) | None => event(Kind::QueueProcessed).outcome("succeeded"),
        Some(Done::FaultHandled) => event(Kind::QueueProcessed).outcome("fault_handled"),
        Some(Done::Filtered) => event(Kind::QueueFiltered).outcome("filtered"),
        Some(Done::NoSuchFlow) => event(Kind::QueueDropped)
            .outcome("dropped")
            .error("no such flow in the registry; the message is acknowledged and dropped"),
    }
}

/// Reports what was found damaged.
pub(super) fn report_damage(journal: &Journal, queue: &QueueName, report: &Report) {
    journal.record(
        &Event::of(Kind::FrameCorrupt, queue)
            .place(&report.path, report.offset)
            .error(format!("{} bytes: {}", report.len, report.text)),
    );
}

/// Reports a file that failed.
pub(super) fn report_fault(journal: &Journal, queue: &QueueName, error: &QueueError) {
    let kind = match error.kind {
        FaultKind::NoRoom => Kind::DiskFull,
        FaultKind::Poisoned => Kind::QueuePoisoned,
        FaultKind::Locked | FaultKind::Io => Kind::QueueFault,
    };
    journal.record(&Event::of(kind, queue).error(&error.text));
}
