//! The channel of one queue: everything that its owner thread waits for comes through it.
//!
//! Submissions, ended runs, wake-ups and the order to stop share one unbounded channel, so that the
//! owner waits in one place, with a deadline; counters beside it bound what may wait. A sender is
//! never blocked: what does not fit is refused at once, with a text that names the bound.
//!
//! The load counts each submission from before it is sent until just before it is answered. While
//! it is 0 nothing is on its way, and only then can the owner close the channel
//! ([`Inbox::close_if_idle`]): whoever comes later is told so before it sends anything, and starts
//! a new owner. So nothing is ever sent to a thread that has gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendError, Sender};

use crate::base::limits::{MAX_CHANNEL_BYTES, MAX_CHANNEL_MESSAGES, STUCK_AFTER};
use crate::worker::inbox::{Refusal, Reply, Submission};
use crate::worker::runner::Ended;

/// What the owner thread is told.
pub(super) enum Command {
    /// A message to be stored; the owner answers.
    Submit(Submission, Box<dyn Reply>),
    /// A run is over.
    Ended(Box<Ended>),
    /// Another process may have appended or marked something: look at once.
    Wake,
    /// Start nothing further. The signal is dropped when nothing is in flight any more.
    Quiesce(DoneSignal),
    /// Give back what is in flight, sync, close and end. The signal is dropped when that is done.
    Close(DoneSignal),
}

/// Tells whoever waits for it, by being dropped, that what was asked for is done.
pub(super) struct DoneSignal(Sender<Never>);

/// No value: a channel of these can only be closed.
#[derive(Debug, PartialEq)]
pub(super) enum Never {}

impl DoneSignal {
    /// A signal to be cloned for everybody who is asked, and where their being done is waited for.
    pub(super) fn new() -> (DoneSignal, Receiver<Never>) {
        let (sender, receiver) = crossbeam_channel::bounded(0);
        (DoneSignal(sender), receiver)
    }
}

impl Clone for DoneSignal {
    fn clone(&self) -> DoneSignal {
        DoneSignal(self.0.clone())
    }
}

/// Set in the load once the owner has closed the channel; far above any count.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The sending side, shared by the doors, the runners and the roster.
pub(super) struct Inbox {
    sender: Sender<Command>,
    load: AtomicUsize,
    bytes: AtomicUsize,
    /// Boot time in milliseconds at which the owner began what it is doing; 0 while it waits.
    busy_since: AtomicU64,
    /// What is wrong with the queue.
    troubles: Mutex<BTreeMap<Part, Trouble>>,
}

/// The part of a queue's work that something can be wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Its files: it is closed until they have been recovered.
    Files,
    /// Looking for work.
    Reading,
    /// Writing down how deliveries ended.
    Settling,
    /// The registry, or the threads, that a delivery needs.
    Running,
}

/// What is wrong with a queue.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    /// In a person's words.
    pub(super) text: String,
    /// Boot time at which it began.
    pub(super) since: Duration,
}

/// A submission with who waits for its answer.
pub(super) type Carried = (Submission, Box<dyn Reply>);

/// The owner has closed the channel; nothing was sent.
#[derive(Debug)]
pub(super) struct Closed<T>(pub(super) T);

impl Inbox {
    /// A channel and its receiving end, for the owner thread alone.
    pub(super) fn new() -> (Inbox, Receiver<Command>) {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let inbox = Inbox {
            sender,
            load: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            busy_since: AtomicU64::new(0),
            troubles: Mutex::default(),
        };
        (inbox, receiver)
    }

    /// Hands a submission over, or refuses it through its reply when more than `limit` would be
    /// waiting. `now` gives boot time; it is asked only when somebody waits already.
    ///
    /// # Errors
    /// [`Closed`] with both, unused, when the owner has gone.
    pub(super) fn submit(
        &self,
        submission: Submission,
        reply: Box<dyn Reply>,
        limit: usize,
        now: impl FnOnce() -> Duration,
    ) -> Result<(), Closed<Carried>> {
        let size = submission.payload.len();
        let before = self.load.fetch_add(1, Ordering::AcqRel);
        if before & CLOSED != 0 {
            self.load.fetch_sub(1, Ordering::AcqRel);
            return Err(Closed((submission, reply)));
        }
        let bytes_before = self.bytes.fetch_add(size, Ordering::AcqRel);
        let refusal = match refuse(before, bytes_before + size, limit.min(MAX_CHANNEL_MESSAGES)) {
            None if before > 0 => self.refuse_if_stuck(now()),
            refusal => refusal,
        };
        if let Some(text) = refusal {
            self.release(1, size);
            reply.answer(Err(Refusal::Busy(text)));
            return Ok(());
        }
        match self.sender.send(Command::Submit(submission, reply)) {
            // The owner has ended without closing, and what was sent has come back.
            Err(SendError(Command::Submit(submission, reply))) => Err(Closed((submission, reply))),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Wakes the owner to look at its files.
    ///
    /// # Errors
    /// [`Closed`] when the owner has gone.
    pub(super) fn wake(&self) -> Result<(), Closed<()>> {
        if self.load.fetch_add(1, Ordering::AcqRel) & CLOSED != 0 {
            self.load.fetch_sub(1, Ordering::AcqRel);
            return Err(Closed(()));
        }
        let _ = self.sender.send(Command::Wake);
        Ok(())
    }

    /// Sends what is not counted: the owner never closes the channel while it is to come. A queue
    /// whose thread has ended needs none of it.
    pub(super) fn tell(&self, command: Command) {
        let _ = self.sender.send(command);
    }

    /// Takes what is about to be answered off the load.
    pub(super) fn release(&self, messages: usize, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.load.fetch_sub(messages, Ordering::AcqRel);
    }

    /// Closes the channel if nothing is in it or on its way; `true` when it is closed.
    pub(super) fn close_if_idle(&self) -> bool {
        self.load.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the owner has closed the channel.
    pub(super) fn is_closed(&self) -> bool {
        self.load.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Closes the channel whatever is in it.
    pub(super) fn close(&self) {
        self.load.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// The owner begins to work on something (boot time), or waits for the next command.
    pub(super) fn set_busy(&self, since: Option<Duration>) {
        let millis = since.map_or(0, |since| (since.as_millis() as u64).max(1));
        self.busy_since.store(millis, Ordering::Release);
    }

    /// How long the owner has been at one piece of work; zero while it waits.
    pub(super) fn busy_for(&self, now: Duration) -> Duration {
        match self.busy_since.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => now.saturating_sub(Duration::from_millis(since)),
        }
    }

    /// Notes that something is wrong with a part of the queue's work; the first moment of it is
    /// kept.
    pub(super) fn set_trouble(&self, part: Part, text: String, now: Duration) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let since = troubles.get(&part).map_or(now, |earlier| earlier.since);
        troubles.insert(part, Trouble { text, since });
    }

    /// Notes that a part of the queue's work is well.
    pub(super) fn clear_trouble(&self, part: Part) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).remove(&part);
    }

    /// Notes that the queue is well.
    pub(super) fn clear_all_troubles(&self) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is wrong with the queue.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.values().cloned().collect()
    }

    fn refuse_if_stuck(&self, now: Duration) -> Option<String> {
        let stuck = self.busy_for(now);
        (stuck >= STUCK_AFTER).then(|| {
            format!("the queue has made no progress for {} s; send it again", stuck.as_secs())
        })
    }
}

/// Whether one more is too many, with `before` waiting and `bytes` waiting with it.
fn refuse(before: usize, bytes: usize, limit: usize) -> Option<String> {
    if before >= limit {
        return Some(format!("{limit} messages wait to be stored in this queue, and no more may"));
    }
    if bytes > MAX_CHANNEL_BYTES && before > 0 {
        return Some(format!(
            "{MAX_CHANNEL_BYTES} bytes wait to be stored in this queue, and no more may"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::CorrelationId;
    use crate::queue::Receipt;
    use std::sync::Arc;

    type Answers = Arc<Mutex<Vec<Result<Receipt, Refusal>>>>;

    struct Recorder(Answers);

    impl Reply for Recorder {
        fn answer(self: Box<Self>, outcome: Result<Receipt, Refusal>) {
            self.0.lock().unwrap().push(outcome);
        }
    }

    fn submission(bytes: usize) -> Submission {
        Submission {
            payload: vec![b' '; bytes],
            correlation_id: CorrelationId::parse(b"t").unwrap(),
        }
    }

    fn send(inbox: &Inbox, answers: &Answers, bytes: usize, limit: usize, now_ms: u64) -> bool {
        let reply = Box::new(Recorder(Arc::clone(answers)));
        inbox.submit(submission(bytes), reply, limit, || Duration::from_millis(now_ms)).is_ok()
    }

    #[test]
    fn one_message_more_than_the_limit_is_refused_at_once() {
        let (inbox, receiver) = Inbox::new();
        let answers = Answers::default();
        for _ in 0..3 {
            assert!(send(&inbox, &answers, 1, 3, 0));
        }
        assert!(answers.lock().unwrap().is_empty());
        assert!(send(&inbox, &answers, 1, 3, 0));
        assert!(matches!(&answers.lock().unwrap()[..], [Err(Refusal::Busy(text))]
            if text.contains("3 messages")));
        assert_eq!(receiver.len(), 3);
        inbox.release(1, 1);
        assert!(send(&inbox, &answers, 1, 3, 0));
        assert_eq!(receiver.len(), 4, "an answered message makes room");
    }

    #[test]
    fn the_channel_is_bounded_in_bytes_but_one_message_always_fits() {
        let (inbox, receiver) = Inbox::new();
        let answers = Answers::default();
        assert!(send(&inbox, &answers, MAX_CHANNEL_BYTES, 9, 0));
        assert!(send(&inbox, &answers, 1, 9, 0));
        assert_eq!(receiver.len(), 1);
        assert!(matches!(&answers.lock().unwrap()[..], [Err(Refusal::Busy(text))]
            if text.contains("bytes")));
    }

    #[test]
    fn a_queue_without_progress_refuses_until_it_goes_on() {
        let (inbox, receiver) = Inbox::new();
        let answers = Answers::default();
        inbox.set_busy(Some(Duration::from_millis(10)));
        assert!(send(&inbox, &answers, 1, 9, 5000), "nobody waits yet: no reason to refuse");
        assert!(send(&inbox, &answers, 1, 9, 2009));
        assert_eq!(receiver.len(), 2);
        assert!(send(&inbox, &answers, 1, 9, 2010));
        assert_eq!(answers.lock().unwrap().len(), 1);
        inbox.set_busy(Some(Duration::from_millis(2010)));
        assert!(send(&inbox, &answers, 1, 9, 2011));
        assert_eq!(receiver.len(), 3);
    }

    #[test]
    fn a_channel_closes_only_when_nothing_is_on_its_way_and_then_takes_nothing() {
        let (inbox, receiver) = Inbox::new();
        let answers = Answers::default();
        assert!(send(&inbox, &answers, 7, 9, 0));
        assert!(!inbox.close_if_idle());
        inbox.release(1, 7);
        assert!(inbox.wake().is_ok());
        assert!(!inbox.close_if_idle(), "a wake-up is work too");
        inbox.release(1, 0);
        assert!(inbox.close_if_idle());
        assert!(!send(&inbox, &answers, 1, 9, 0));
        assert!(inbox.wake().is_err());
        assert_eq!(receiver.len(), 2);
        assert!(answers.lock().unwrap().is_empty());
    }

    #[test]
    fn trouble_keeps_its_first_moment() {
        let (inbox, _receiver) = Inbox::new();
        inbox.set_trouble(Part::Files, "a".into(), Duration::from_secs(1));
        inbox.set_trouble(Part::Files, "b".into(), Duration::from_secs(9));
        inbox.set_trouble(Part::Running, "c".into(), Duration::from_secs(9));
        inbox.clear_trouble(Part::Running);
        let troubles = inbox.troubles();
        assert_eq!(troubles.len(), 1);
        assert_eq!((troubles[0].text.as_str(), troubles[0].since), ("b", Duration::from_secs(1)));
    }
}
