//! `nexus queue show`: one queue, with its retry schedule, its oldest message and its files.
//!
//! With `--watch` it looks again each second until it is interrupted, on a terminal in place.

use std::fmt::Write as _;
use std::thread;

use super::row::DetailRow;
use super::target::Target;
use crate::base::limits::{MAX_LISTED_RETRIES, WATCH_INTERVAL};
use crate::base::time::{Clock, SystemClock};
use crate::base::{QueueName, Timestamp};
use crate::cli::args::QueueShowArgs;
use crate::cli::output::{Failure, Output, escaped};
use crate::queue::{self, Inspection, Worker};

/// Moves to the upper left corner of a terminal and clears it.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Shows a queue, once or again and again.
pub fn show(args: &QueueShowArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let target = Target::parse(&args.queue, &args.db, "show")?;
    target.must_be_known("show")?;
    loop {
        look(&target, args, output)?;
        if !args.watch {
            return Ok(());
        }
        output.flush()?;
        thread::sleep(WATCH_INTERVAL);
        match (output.is_terminal(), args.json) {
            (true, _) => output.text(CLEAR)?,
            (false, true) => {}
            (false, false) => output.line("")?,
        }
    }
}

fn look(target: &Target, args: &QueueShowArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let Target { queue, disk, layout, .. } = target;
    let now = SystemClock.now();
    let seen = queue::inspect(disk.as_ref(), layout, queue, now, MAX_LISTED_RETRIES)
        .map_err(|error| Failure::new(format_args!("cannot show {queue}"), error))?;
    match args.json {
        true => output.json(&DetailRow::of(queue, &seen, now)),
        false => output.text(&text(queue, &seen, now)),
    }
}

fn text(queue: &QueueName, seen: &Inspection, now: Timestamp) -> String {
    let overview = &seen.overview;
    let lines = [
        ("waiting", overview.waiting.to_string()),
        ("in flight", overview.in_flight.to_string()),
        ("retrying", overview.retrying.to_string()),
        ("dead letters", overview.dead_letters.to_string()),
        ("total", overview.total.to_string()),
        ("processed", overview.processed.to_string()),
        (
            "oldest due",
            match overview.oldest_due_seconds(now) {
                Some(seconds) => format!("for {seconds} s"),
                None => "none".to_owned(),
            },
        ),
        (
            "oldest message",
            match seen.oldest {
                Some(oldest) => {
                    format!("id={} enqueued_at={}", oldest.id, oldest.enqueued_at.to_seconds_text())
                }
                None => "none".to_owned(),
            },
        ),
        ("paused", if overview.paused { "yes" } else { "no" }.to_owned()),
        (
            "worker",
            match overview.worker {
                Worker::None => "none".to_owned(),
                Worker::Running(Some(process)) => format!("process {process}"),
                Worker::Running(None) => "another process".to_owned(),
            },
        ),
    ];
    let mut text = format!("{queue}\n");
    // Writing to a string cannot fail.
    for (name, value) in lines {
        let _ = writeln!(text, "  {:16}{value}", format!("{name}:"));
    }
    if !seen.retries.is_empty() {
        text.push_str("  retries:\n");
    }
    for retry in &seen.retries {
        let due = retry.due_at.to_seconds_text();
        let _ = writeln!(text, "    id={} attempt={} due_at={due}", retry.id, retry.attempt);
    }
    let more = overview.retrying.saturating_sub(seen.retries.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "    and {more} more");
    }
    if !seen.files.is_empty() {
        text.push_str("  files:\n");
    }
    let width = seen.files.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, bytes) in &seen.files {
        let _ = writeln!(text, "    {:width$}  {bytes} bytes", escaped(name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MessageId;
    use crate::queue::{Oldest, Overview, PendingRetry};

    #[test]
    fn a_queue_is_shown_with_what_is_due_and_what_lies_where() {
        let at = |seconds: i64| Timestamp::from_millis(1_786_284_131_250 + 1000 * seconds);
        let overview = Overview {
            waiting: 2,
            in_flight: 0,
            retrying: 3,
            dead_letters: 1,
            total: 9,
            processed: 4,
            oldest_due: Some(at(0)),
            next_due: Some(at(60)),
            paused: true,
            worker: Worker::Running(Some(4711)),
        };
        let id = MessageId::new(2).unwrap();
        let seen = Inspection {
            overview,
            oldest: Some(Oldest { id, enqueued_at: at(0) }),
            retries: vec![PendingRetry { id, attempt: 2, due_at: at(60), delay_ms: 60_000 }],
            files: vec![("dlq.log".to_owned(), 120), ("segment.log".to_owned(), 1024)],
        };
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let expected = "\
acme/forward-order
  waiting:        2
  in flight:      0
  retrying:       3
  dead letters:   1
  total:          9
  processed:      4
  oldest due:     for 30 s
  oldest message: id=2 enqueued_at=2026-08-09T14:02:11Z
  paused:         yes
  worker:         process 4711
  retries:
    id=2 attempt=2 due_at=2026-08-09T14:03:11Z
    and 2 more
  files:
    dlq.log      120 bytes
    segment.log  1024 bytes
";
        assert_eq!(text(&queue, &seen, at(30)), expected);
    }
}
