//! How a dead letter is shown, as text and as JSON.
//!
//! Source: the document "Queues, retries and the DLQ", section "Managing the dead-letter queue".
//! The text is the document's, to the letter. A [`Row`] has what is shown and no payload, so that
//! a long list needs little memory.

use serde::Serialize;

use super::output::escaped;
use crate::base::limits::MAX_ERROR_TEXT;
use crate::base::{MessageId, QueueName, Timestamp};
use crate::queue::{DeadLetter, Reason};

/// What a list without entries prints.
pub const EMPTY: &str = "DLQ is empty";

/// What a listing shows of a dead letter.
#[derive(Debug, Clone)]
pub struct Row {
    id: MessageId,
    enqueued_at: Timestamp,
    failed_at: Timestamp,
    attempts: u32,
    reason: Reason,
    last_error: Box<str>,
    first_id: MessageId,
    replays: u32,
}

impl From<DeadLetter> for Row {
    fn from(letter: DeadLetter) -> Row {
        Row {
            id: letter.id,
            enqueued_at: letter.enqueued_at,
            failed_at: letter.failed_at,
            attempts: letter.attempts,
            reason: letter.reason,
            last_error: cut(&letter.last_error, MAX_ERROR_TEXT).into(),
            first_id: letter.first_id,
            replays: letter.replays,
        }
    }
}

/// The first line of a list: `DLQ: 2 pending message(s)`.
pub fn heading(count: usize) -> String {
    format!("DLQ: {count} pending message(s)")
}

/// `id=7 tenant=acme flow=forward-order`
pub fn entry_name(queue: &QueueName, id: MessageId) -> String {
    format!("id={id} tenant={} flow={}", queue.tenant, queue.flow)
}

/// One entry of a list, with the blank line that sets it off from what is before it.
pub fn text(queue: &QueueName, row: &Row) -> String {
    format!(
        "\n  {}\n    enqueued_at: {}\n    failed_at:   {}\n    attempts:    {}\n    \
         last_error:  {}\n",
        entry_name(queue, row.id),
        row.enqueued_at.to_seconds_text(),
        row.failed_at.to_seconds_text(),
        row.attempts,
        escaped(&row.last_error),
    )
}

/// One entry as `--json` shows it. Times have milliseconds.
#[derive(Debug, Serialize)]
pub struct JsonRow<'a> {
    tenant: &'a str,
    flow: &'a str,
    id: u64,
    enqueued_at: String,
    failed_at: String,
    attempts: u32,
    reason: &'static str,
    last_error: &'a str,
    message_key: String,
    replays: u32,
}

impl<'a> JsonRow<'a> {
    /// The entry of a queue.
    pub fn of(queue: &'a QueueName, row: &'a Row) -> JsonRow<'a> {
        JsonRow {
            tenant: queue.tenant.as_str(),
            flow: queue.flow.as_str(),
            id: row.id.get(),
            enqueued_at: row.enqueued_at.to_millis_text(),
            failed_at: row.failed_at.to_millis_text(),
            attempts: row.attempts,
            reason: row.reason.as_str(),
            last_error: &row.last_error,
            message_key: format!("{queue}/{}", row.first_id),
            replays: row.replays,
        }
    }
}

/// The text, or as many whole characters of it as fit into `bytes`.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(last_error: &str) -> DeadLetter {
        DeadLetter {
            id: MessageId::new(7).unwrap(),
            enqueued_at: Timestamp::from_millis(1_786_284_131_250),
            first_id: MessageId::new(5).unwrap(),
            replays: 1,
            payload: br#"{"secret":"payload"}"#.to_vec(),
            failed_at: Timestamp::from_millis(1_786_284_134_999),
            attempts: 3,
            reason: Reason::MaxAttemptsExceeded,
            last_error: last_error.to_owned(),
        }
    }

    fn queue() -> QueueName {
        QueueName::parse("acme", "forward-order").unwrap()
    }

    #[test]
    fn an_entry_is_shown_as_in_the_document() {
        let error = "step 'forward': effect handler failed: HTTP 503 Service Unavailable";
        let shown = heading(2) + "\n" + &text(&queue(), &Row::from(letter(error)));
        let expected = "\
DLQ: 2 pending message(s)

  id=7 tenant=acme flow=forward-order
    enqueued_at: 2026-08-09T14:02:11Z
    failed_at:   2026-08-09T14:02:14Z
    attempts:    3
    last_error:  step 'forward': effect handler failed: HTTP 503 Service Unavailable
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_error_text_from_outside_is_bounded_and_escaped() {
        let hostile = format!("\u{1b}]0;x\u{7}\n  id=8 tenant=b{}", "é".repeat(10_000_000));
        let shown = text(&queue(), &Row::from(letter(&hostile)));
        assert!(shown.len() < 6 * MAX_ERROR_TEXT, "{} bytes", shown.len());
        assert_eq!(shown.lines().count(), 6);
        assert!(shown.contains(r"\u{1b}]0;x\u{7}\n  id=8"), "{}", &shown[..300]);
        assert_eq!(cut("aé", 2), "a");
    }
}
