//! The runner threads of one queue: each takes a delivery, runs the flow on it, and tells the owner
//! how that ended.
//!
//! As many as the flow's `queue_concurrency` run at once; they start when there is something for
//! them. A runner touches no file of the queue and waits for no owner but one that its flow
//! publishes to, so a slow downstream delays no 202 and no other queue. A run that panics is a
//! failed attempt like any other.
//!
//! | the run | the ending |
//! |---|---|
//! | succeeded, fault handled, filtered | acknowledged |
//! | no such flow in the registry | acknowledged, and reported as dropped |
//! | failed, panicked | failed: rescheduled or dead-lettered by the flow's policy |
//! | the stored flow is corrupt | dead-lettered at once |
//! | the registry cannot be read | not tried: the job goes back to the owner, and is not charged |

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::base::limits::{MAX_IN_FLIGHT, RUNNER_STACK};
use crate::base::{MessageId, QueueName};
use crate::flow::{Context, DeliveryContext, Effects, Failure, Flow, Outcome};
use crate::queue::{Delivery, Ending};
use crate::worker::channel::{Command, Inbox};
use crate::worker::inbox::Submit;
use crate::worker::publish::QueuePublish;
use crate::worker::resolve::{RegistryReader, Resolved, Resolver};
use crate::worker::surroundings::Surroundings;

/// A delivery to be run.
#[derive(Debug)]
pub(super) struct Job {
    /// Of which tenure of the owner it is.
    pub(super) tenure: u32,
    /// The message and its attempt.
    pub(super) delivery: Delivery,
}

/// A run that is over.
pub(super) struct Ended {
    /// Of which tenure of the owner the delivery was.
    pub(super) tenure: u32,
    /// Which message.
    pub(super) id: MessageId,
    /// What the events about it say.
    pub(super) trace: Trace,
    /// How it ended.
    pub(super) end: End,
    /// The concurrency of the flow that ran, where one was found.
    pub(super) concurrency: Option<usize>,
    /// How long it took.
    pub(super) took: Duration,
}

/// What the events about a delivery say, and the queue's files do not keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace {
    pub(super) offset: u64,
    pub(super) duration_ms: u64,
    /// How it ended, if it was acknowledged.
    pub(super) done: Option<Done>,
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum End {
    /// The message leaves the queue.
    Done(Done),
    /// It failed, or its flow is corrupt.
    Failed(Ending),
    /// It was not run, for this reason; the job comes back.
    NotTried(Job, String),
}

/// Why a message leaves the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Its run succeeded.
    Succeeded,
    /// Its run failed, and the flow's fault handler succeeded.
    FaultHandled,
    /// A condition was false.
    Filtered,
    /// There is no such flow.
    NoSuchFlow,
}

/// What a runner thread is told.
pub(super) enum Order {
    /// To run this.
    Run(Job),
    /// To end: one thread, whichever is idle.
    End,
}

/// Starts one more runner thread that takes orders from this channel.
pub(super) type StartRunner = Box<dyn FnMut(Receiver<Order>) -> io::Result<()> + Send>;

/// The runner threads of one queue, as its owner sees them.
pub(super) struct Runners {
    orders: Sender<Order>,
    waiting: Receiver<Order>,
    threads: usize,
    start: StartRunner,
}

impl Runners {
    /// No threads yet.
    pub(super) fn new(start: StartRunner) -> Runners {
        // Never holds more than are in flight, and one end for each thread.
        let (orders, waiting) = crossbeam_channel::bounded(2 * MAX_IN_FLIGHT);
        Runners { orders, waiting, threads: 0, start }
    }

    /// Takes back the jobs that no runner has begun, in their order.
    pub(super) fn recall(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut ends = 0;
        for order in self.waiting.try_iter() {
            match order {
                Order::Run(job) => jobs.push(job),
                Order::End => ends += 1,
            }
        }
        for _ in 0..ends {
            // There was room for it a moment ago, and nobody else sends.
            let _ = self.orders.try_send(Order::End);
        }
        jobs
    }

    /// Hands a job to a runner; `busy` other runners are at work or about to be.
    ///
    /// # Errors
    /// With the job, when there is no thread for it and none can be started.
    pub(super) fn hand(&mut self, job: Job, busy: usize) -> Result<(), (Job, io::Error)> {
        if self.threads <= busy {
            match (self.start)(self.waiting.clone()) {
                Ok(()) => self.threads += 1,
                Err(error) => return Err((job, error)),
            }
        }
        match self.orders.try_send(Order::Run(job)) {
            Err(
                TrySendError::Full(Order::Run(job)) | TrySendError::Disconnected(Order::Run(job)),
            ) => Err((job, io::Error::other("more deliveries in flight than runners"))),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Ends the threads beyond so many, each once it is idle.
    pub(super) fn shrink_to(&mut self, wanted: usize) {
        while self.threads > wanted && self.orders.try_send(Order::End).is_ok() {
            self.threads -= 1;
        }
    }
}

/// What came of trying to run a delivery.
enum Run {
    /// It ended so, by a flow of this concurrency.
    Ended(End, Option<usize>),
    /// It was not run, for this reason.
    NotTried(String),
}

/// What a runner thread works with.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) around: Arc<Surroundings>,
    pub(super) queue: QueueName,
    pub(super) inbox: Arc<Inbox>,
    /// The queues, for flows that publish.
    pub(super) queues: Arc<dyn Submit>,
}

impl Seat {
    /// Starts a thread at this seat. It ends when nobody can hand it a job any more.
    pub(super) fn start(self, orders: Receiver<Order>) -> io::Result<()> {
        std::thread::Builder::new()
            .name(format!("r:{}", self.queue))
            .stack_size(RUNNER_STACK)
            .spawn(move || self.work(&orders))
            .map(drop)
    }

    fn work(self, orders: &Receiver<Order>) {
        let reader = RegistryReader::new(self.around.registry.clone());
        let mut resolver = Resolver::new(self.queue.clone());
        for order in orders {
            let Order::Run(job) = order else { return };
            let ended = self.run(job, &reader, &mut resolver);
            let untried = matches!(ended.end, End::NotTried(..));
            self.inbox.tell(Command::Ended(Box::new(ended)));
            if untried {
                self.return_waiting(orders);
            }
        }
    }

    /// Gives back what was read ahead of a job that could not be tried: nothing behind it starts.
    fn return_waiting(&self, orders: &Receiver<Order>) {
        for order in orders.try_iter() {
            let Order::Run(job) = order else { continue };
            let ended = Ended {
                tenure: job.tenure,
                id: job.delivery.message.id,
                trace: Trace { offset: job.delivery.offset, duration_ms: 0, done: None },
                end: End::NotTried(job, "a message before it could not be tried".to_owned()),
                concurrency: None,
                took: Duration::ZERO,
            };
            self.inbox.tell(Command::Ended(Box::new(ended)));
        }
    }

    fn run(&self, job: Job, reader: &RegistryReader, resolver: &mut Resolver) -> Ended {
        let began = self.around.clock.boot();
        let delivery = &job.delivery;
        let run = AssertUnwindSafe(|| self.resolve_and_run(delivery, reader, resolver));
        // A panic of the run itself is caught within; here it can only be the registry's.
        let run = catch_unwind(run).unwrap_or_else(|panic| {
            Run::NotTried(format!("reading the registry panicked: {}", panic_text(&*panic)))
        });
        let took = self.around.clock.boot().saturating_sub(began);
        let trace = Trace {
            offset: delivery.offset,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            done: match &run {
                Run::Ended(End::Done(done), _) => Some(*done),
                Run::Ended(..) | Run::NotTried(_) => None,
            },
        };
        let (tenure, id) = (job.tenure, delivery.message.id);
        let (end, concurrency) = match run {
            Run::Ended(end, concurrency) => (end, concurrency),
            Run::NotTried(why) => (End::NotTried(job, why), None),
        };
        Ended { tenure, id, trace, end, concurrency, took }
    }

    fn resolve_and_run(
        &self,
        delivery: &Delivery,
        reader: &RegistryReader,
        resolver: &mut Resolver,
    ) -> Run {
        match resolver.latest(reader) {
            Err(error) => Run::NotTried(error.to_string()),
            Ok(Resolved::Missing) => Run::Ended(End::Done(Done::NoSuchFlow), None),
            Ok(Resolved::Corrupt(error)) => {
                let ending = Ending::CorruptArtifact { error: error.clone() };
                Run::Ended(End::Failed(ending), None)
            }
            Ok(Resolved::Flow { version, flow }) => {
                let end = self.run_flow(delivery, *version, flow, reader);
                Run::Ended(end, Some(flow.concurrency()))
            }
        }
    }

    fn run_flow(
        &self,
        delivery: &Delivery,
        version: u32,
        flow: &Flow,
        reader: &RegistryReader,
    ) -> End {
        let message = &delivery.message;
        let context = Context {
            queue: self.queue.clone(),
            version,
            correlation_id: message.correlation_id.clone(),
            delivery: Some(DeliveryContext {
                attempt: delivery.attempt,
                message_id: message.id,
                first_id: message.first_id,
                enqueued_at: message.enqueued_at,
            }),
        };
        let publish = QueuePublish {
            tenant: &self.queue.tenant,
            registry: reader,
            queues: &*self.queues,
            max_message_bytes: self.around.limits.max_message_bytes,
        };
        let effects = Effects {
            egress: &self.around.egress,
            publish: &publish,
            clock: &*self.around.clock,
            random: &*self.around.random,
        };
        let run = AssertUnwindSafe(|| flow.run(&message.payload, &context, &effects));
        match catch_unwind(run) {
            Ok(outcome) => end_of(outcome, flow),
            Err(panic) => End::Failed(Ending::Failed {
                error: format!("the run panicked: {}", panic_text(&*panic)),
                policy: flow.policy(),
                non_retryable: false,
                retry_after_ms: None,
            }),
        }
    }
}

/// What an outcome means to the queue.
fn end_of(outcome: Outcome, flow: &Flow) -> End {
    match outcome {
        Outcome::Succeeded(_) => End::Done(Done::Succeeded),
        Outcome::FaultHandled(_) => End::Done(Done::FaultHandled),
        Outcome::Filtered => End::Done(Done::Filtered),
        Outcome::Failed(failure) => End::Failed(failed(failure, flow)),
    }
}

fn failed(failure: Failure, flow: &Flow) -> Ending {
    let Failure { error, kind: _, non_retryable, retry_after } = failure;
    Ending::Failed {
        error,
        policy: flow.policy(),
        non_retryable,
        retry_after_ms: retry_after
            .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{CorrelationId, Timestamp};
    use crate::queue::Message;

    fn job(id: u64) -> Job {
        let id = MessageId::new(id).unwrap();
        let message = Message {
            id,
            enqueued_at: Timestamp::from_millis(0),
            first_id: id,
            replays: 0,
            correlation_id: CorrelationId::parse(b"t").unwrap(),
            payload: b"{}".to_vec(),
        };
        Job { tenure: 1, delivery: Delivery { message: Arc::new(message), offset: 0, attempt: 1 } }
    }

    #[test]
    fn threads_start_only_when_all_others_are_busy() {
        let (started, count) = crossbeam_channel::unbounded();
        let mut runners = Runners::new(Box::new(move |jobs| {
            started.send(jobs).unwrap();
            Ok(())
        }));
        assert!(runners.hand(job(1), 0).is_ok());
        assert_eq!(count.len(), 1);
        assert!(runners.hand(job(2), 0).is_ok());
        assert_eq!(count.len(), 1, "the first thread is free again");
        assert!(runners.hand(job(3), 1).is_ok());
        assert_eq!(count.len(), 2);
    }

    #[test]
    fn threads_beyond_the_flows_concurrency_are_ended() {
        let mut runners = Runners::new(Box::new(|_| Ok(())));
        for busy in 0..4 {
            assert!(runners.hand(job(busy as u64 + 1), busy).is_ok());
        }
        runners.shrink_to(4);
        assert_eq!(runners.waiting.len(), 4);
        runners.shrink_to(1);
        assert_eq!((runners.threads, runners.waiting.len()), (1, 7));
        runners.shrink_to(1);
        assert_eq!(runners.waiting.len(), 7, "each is told once");
    }

    #[test]
    fn a_job_comes_back_when_no_thread_can_be_started() {
        let mut runners = Runners::new(Box::new(|_| Err(io::ErrorKind::WouldBlock.into())));
        let (job, error) = runners.hand(job(7), 0).err().unwrap();
        assert_eq!(job.delivery.message.id.get(), 7);
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_panic_is_told_by_its_text() {
        let text = |panic: Box<dyn Any + Send>| panic_text(&*panic).to_owned();
        assert_eq!(text(Box::new("a")), "a");
        assert_eq!(text(Box::new("b".to_owned())), "b");
        assert_eq!(text(Box::new(3)), "no text");
    }
}
