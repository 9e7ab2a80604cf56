//! What must hold whatever happened, checked at every event and at the end.
//!
//! A message that was acknowledged ends processed, dead-lettered or handled by a person. No id
//! names two messages, and what is delivered is what was submitted. First deliveries are in order.
//! What is dead-lettered, handled, or settled on the disk never comes again. The attempts of a
//! message are those that failed, and one; a retry comes neither before its time nor is it slept
//! through. A batch that was refused and undone is never delivered. Nothing is called damaged that
//! nobody has damaged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use nexus::base::{MessageId, Timestamp};
use nexus::queue::{DeadLetter, Delivery, Ending, Moment, Reason, Report, Settled, Settlement};

use crate::command_line::Handling;

/// The budget of every flow here.
pub const MAX_ATTEMPTS: u32 = 3;

/// What is known of one id.
#[derive(Debug, Default, Clone)]
struct Known {
    payload: Option<Vec<u8>>,
    /// It was answered with 202, or with "replayed".
    acknowledged: bool,
    /// Reported to the engine as processed, dead-lettered, or handled.
    ended: bool,
    delivered: bool,
    /// How far the acknowledgement of its delivery went.
    acknowledgement: Acknowledgement,
    /// Its dead letter is on the disk.
    dead: bool,
    /// A person was told that it is handled.
    handled: bool,
    /// A person tried to discard it: perhaps it is.
    maybe_discarded: bool,
    /// A person tried to replay it: if it is no longer listed, it was.
    maybe_replayed: bool,
    /// Id of the first submission, and how often it has been replayed.
    lineage: Option<(MessageId, u32)>,
    /// The highest attempt that was reported as failed.
    failed_attempt: u32,
    /// The next attempt, as far as it is known to be on the disk.
    next_attempt: u32,
    due: Option<Due>,
}

/// How far the acknowledgement of a delivery went. One that is synced is never undone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Acknowledgement {
    #[default]
    None,
    Settled,
    Synced,
}

/// A retry that is known to be on the disk.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: Timestamp,
    delay_ms: u64,
    /// By the boot clock of the present owner, in milliseconds.
    boot_ms: i64,
    in_flight: bool,
}

impl Due {
    /// As an owner sees it that learns of it now.
    fn seen_at(mut self, now: Moment) -> Due {
        let ahead = (self.at.as_millis() - now.wall.as_millis()).min(self.delay_ms as i64);
        self.boot_ms = millis(now.boot) + ahead;
        self.in_flight = false;
        self
    }
}

fn millis(boot: Duration) -> i64 {
    boot.as_millis() as i64
}

#[derive(Debug, Default, Clone)]
pub struct Oracle {
    ids: BTreeMap<MessageId, Known>,
    highest_first_delivery: Option<MessageId>,
    /// Payloads that were sent.
    sent: HashSet<Vec<u8>>,
    /// Payloads that were sent more than once: which sending is delivered cannot be told.
    sent_again: HashSet<Vec<u8>>,
    /// Payloads of batches that were refused and undone.
    refused: HashSet<Vec<u8>>,
    checkpoint_was_synced: bool,
    /// Whether files were damaged on purpose: then a message may be lost or come again, but never
    /// altered.
    pub damaged: bool,
}

impl Oracle {
    fn known(&mut self, id: MessageId) -> &mut Known {
        self.ids.entry(id).or_default()
    }

    /// An id and its payload were seen together: they stay together.
    fn learn(&mut self, id: MessageId, payload: &[u8]) -> &mut Known {
        let known = self.ids.entry(id).or_default();
        let before = known.payload.get_or_insert_with(|| payload.to_vec());
        assert_eq!(
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(payload),
            "id {id} names two messages, or a message was altered"
        );
        known
    }

    pub fn sent(&mut self, payload: &[u8]) {
        if !self.sent.insert(payload.to_vec()) {
            self.sent_again.insert(payload.to_vec());
            self.refused.remove(payload);
        }
    }

    pub fn acknowledged(&mut self, id: MessageId, payload: &[u8]) {
        let known = self.learn(id, payload);
        assert!(!known.acknowledged, "id {id} was given twice");
        known.acknowledged = true;
    }

    /// Its batch was refused, and undone.
    pub fn refused(&mut self, payload: Vec<u8>) {
        if !self.sent_again.contains(&payload) {
            self.refused.insert(payload);
        }
    }

    pub fn delivered(&mut self, delivery: &Delivery, now: Moment) {
        let (message, attempt) = (&delivery.message, delivery.attempt);
        let id = message.id;
        assert!(!self.refused.contains(&message.payload), "id {id} was refused and is delivered");
        let damaged = self.damaged;
        let highest = self.highest_first_delivery;
        let known = self.learn(id, &message.payload);
        assert!(attempt <= MAX_ATTEMPTS, "attempt {attempt} of id {id}");
        assert!(attempt <= known.failed_attempt + 1, "attempt {attempt} of id {id} is too many");
        known.lineage = Some((message.first_id, message.replays));
        let first = !std::mem::replace(&mut known.delivered, true);
        if !damaged {
            assert!(!known.handled, "id {id} was handled and comes again");
            assert!(!known.dead, "id {id} was dead-lettered and comes again");
            let synced = known.acknowledgement == Acknowledgement::Synced;
            assert!(!synced, "id {id} was acknowledged on the disk and comes again");
            assert!(attempt >= known.next_attempt, "id {id} forgot its attempts: {attempt}");
            let early = known.due.is_some_and(|due| millis(now.boot) < due.boot_ms);
            assert!(!early, "the retry of id {id} comes before its time");
            let behind = first && highest.is_some_and(|highest| id <= highest);
            assert!(!behind, "id {id} is delivered for the first time behind a later one");
        }
        if let Some(due) = &mut known.due {
            due.in_flight = true;
        }
        if first {
            self.highest_first_delivery = highest.max(Some(id));
        }
    }

    /// The engine is told how a delivery ended, and may or may not come to write it down.
    pub fn ends(&mut self, delivery: &Delivery, ending: &Ending) {
        let known = self.known(delivery.message.id);
        known.due = None;
        match ending {
            // Its effect has happened, whatever becomes of the acknowledgement.
            Ending::Acknowledge => known.ended = true,
            _ => known.failed_attempt = known.failed_attempt.max(delivery.attempt),
        }
    }

    pub fn settled(&mut self, settled: &[Settled], now: Moment) {
        for one in settled {
            let known = self.known(one.message.id);
            match &one.what {
                // That a retry is done is synced at once.
                Settlement::Acknowledged if one.attempt > 1 => {
                    known.acknowledgement = Acknowledgement::Synced;
                }
                Settlement::Acknowledged => known.acknowledgement = Acknowledgement::Settled,
                Settlement::Rescheduled { next_attempt, due_at, delay_ms, .. } => {
                    known.next_attempt = *next_attempt;
                    let (at, delay_ms) = (*due_at, *delay_ms);
                    let due = Due { at, delay_ms, boot_ms: 0, in_flight: false };
                    known.due = Some(due.seen_at(now));
                }
                Settlement::DeadLettered { reason, .. } => {
                    let spent =
                        *reason != Reason::MaxAttemptsExceeded || one.attempt == MAX_ATTEMPTS;
                    assert!(spent, "id {} is given up early", one.message.id);
                    (known.due, known.ended, known.dead) = (None, true, true);
                }
            }
        }
    }

    /// Nothing is to be done for so long.
    pub fn waits(&self, wait: Option<Duration>, now: Moment) {
        if self.damaged {
            return;
        }
        for (id, known) in &self.ids {
            let Some(due) = known.due.filter(|due| !due.in_flight) else { continue };
            let left = (due.boot_ms - millis(now.boot)).max(0);
            let wait = wait.map(millis);
            assert!(
                wait.is_some_and(|wait| wait <= left),
                "id {id} is due in {left}, not {wait:?}"
            );
        }
    }

    /// A new owner: what the last one had acknowledged and not synced may come again, and the waits
    /// are counted from here.
    pub fn elected(&mut self, now: Moment) {
        for known in self.ids.values_mut() {
            if known.acknowledgement == Acknowledgement::Settled {
                known.acknowledgement = Acknowledgement::None;
            }
            known.due = known.due.map(|due| due.seen_at(now));
        }
    }

    /// The checkpoint was synced; `all` when nothing was in flight.
    pub fn checkpoint_synced(&mut self, all: bool) {
        self.checkpoint_was_synced = true;
        if !all {
            return;
        }
        for known in self.ids.values_mut() {
            if known.acknowledgement == Acknowledgement::Settled {
                known.acknowledgement = Acknowledgement::Synced;
            }
        }
    }

    /// What an owner found damaged. A batch of records that a power cut has torn in the middle
    /// cannot be told from damage: then everything that the log still holds may come again.
    pub fn reported(&mut self, reports: &[Report]) {
        let damaged = self.damaged;
        for report in reports.iter().filter(|_| !damaged) {
            let file = report.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let torn = report.text.contains("a record of the schedule does not verify");
            match file {
                "segment.log.retry" if torn => self.everything_may_come_again(),
                "segment.log.retry" => {
                    let moved = report.text.contains("where it is not");
                    assert!(moved, "false damage: {}", report.text);
                }
                "segment.log.ckpt" => {
                    assert!(!self.checkpoint_was_synced, "false damage: {}", report.text);
                }
                _ => {}
            }
        }
    }

    fn everything_may_come_again(&mut self) {
        for known in self.ids.values_mut() {
            known.acknowledgement = Acknowledgement::None;
            known.next_attempt = 0;
        }
    }

    /// A person is about to handle a dead letter, which is on the disk from here on.
    pub fn touched(&mut self, id: MessageId, handling: Handling) {
        let known = self.known(id);
        match handling {
            Handling::Discard => known.maybe_discarded = true,
            Handling::Replay => known.maybe_replayed = true,
        }
    }

    /// A person was told that it is discarded, or replayed as another id.
    pub fn handled(&mut self, id: MessageId, replayed_as: Option<MessageId>) {
        let known = self.known(id);
        assert!(!known.handled || self.damaged, "id {id} was handled twice");
        let known = self.known(id);
        (known.handled, known.dead, known.ended) = (true, true, true);
        if let (Some(new), Some(payload)) = (replayed_as, known.payload.clone()) {
            self.acknowledged(new, &payload);
        }
    }

    /// The dead letters as they are listed; `synced` when an owner has written them again.
    pub fn listed(&mut self, letters: &[DeadLetter], synced: bool) {
        let damaged = self.damaged;
        for letter in letters {
            let id = letter.id;
            let known = self.learn(id, &letter.payload);
            assert!(!known.handled || damaged, "id {id} was handled and is listed again");
            known.lineage = Some((letter.first_id, letter.replays));
            if synced {
                (known.due, known.ended, known.dead) = (None, true, true);
            }
        }
    }

    /// Everything is worked off: what was acknowledged has come to an end, and what is dead is
    /// listed until a person handles it.
    pub fn count(&self, letters: &[DeadLetter]) {
        if self.damaged {
            return;
        }
        let listed: HashMap<MessageId, &DeadLetter> =
            letters.iter().map(|letter| (letter.id, letter)).collect();
        let delivered: HashSet<(MessageId, u32)> =
            self.ids.values().filter(|k| k.delivered).filter_map(|k| k.lineage).collect();
        for (id, known) in &self.ids {
            let ended = known.ended || listed.contains_key(id);
            assert!(
                !known.acknowledged || ended,
                "id {id} was acknowledged and is lost: {known:?}"
            );
            let replayed = known.maybe_replayed
                && known.lineage.is_some_and(|(first, n)| delivered.contains(&(first, n + 1)));
            let gone = known.dead && !known.handled && !listed.contains_key(id);
            let explained = known.maybe_discarded || replayed;
            assert!(!gone || explained, "the dead letter {id} is lost: {known:?}");
        }
    }
}
