//! A message, and how it lies in a frame of `segment.log`.
//!
//! The body of a frame of kind 1, little endian:
//!
//! | bytes  | field          | meaning                                                          |
//! |--------|----------------|------------------------------------------------------------------|
//! | 0..8   | id             | u64, from 1; grows from frame to frame                           |
//! | 8..16  | enqueued at    | i64, milliseconds since 1970 UTC                                 |
//! | 16..24 | first id       | u64, id of the first submission: its own, unless it is a replay  |
//! | 24..28 | replays        | u32, how often it has been replayed                              |
//! | 28..30 | length         | u16, of the correlation id; 0 in `dlq.log` only                  |
//! | 30..   | correlation id | ASCII                                                            |
//! | ..     | payload        | JSON, byte for byte as submitted                                 |

use crate::base::{CorrelationId, MessageId, Timestamp};
use crate::disk::DiskFile;
use crate::queue::error::QueueError;
use crate::store::frame;

/// The kind of a frame that holds a message.
pub const KIND_MESSAGE: u8 = 1;

/// Bytes of the fields in front of the correlation id.
pub const FIXED_LEN: usize = 30;

/// Where a replayed message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Id of the first submission.
    pub first_id: MessageId,
    /// How often it has been replayed, this time included.
    pub replays: u32,
}

/// A message as it is handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// JSON, byte for byte as submitted.
    pub payload: Vec<u8>,
    /// What ties its trace together.
    pub correlation_id: CorrelationId,
    /// Set on a replay.
    pub origin: Option<Origin>,
}

/// A message as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was appended.
    pub enqueued_at: Timestamp,
    /// Id of the first submission: the same on every replay.
    pub first_id: MessageId,
    /// How often it has been replayed.
    pub replays: u32,
    /// What ties its trace together: the same on every attempt.
    pub correlation_id: CorrelationId,
    /// JSON, byte for byte as submitted.
    pub payload: Vec<u8>,
}

/// Proof that a message is synced to the log. Only the append makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub id: MessageId,
    /// Where its frame begins in the log, in bytes.
    pub offset: u64,
}

/// The fields in front of the correlation id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub id: MessageId,
    pub enqueued_at: Timestamp,
    pub first_id: MessageId,
    pub replays: u32,
    pub correlation_id_len: u16,
}

impl Fixed {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.get().to_le_bytes());
        out.extend_from_slice(&self.enqueued_at.as_millis().to_le_bytes());
        out.extend_from_slice(&self.first_id.get().to_le_bytes());
        out.extend_from_slice(&self.replays.to_le_bytes());
        out.extend_from_slice(&self.correlation_id_len.to_le_bytes());
    }

    /// The fields, and the rest of the body.
    pub(crate) fn read(body: &[u8]) -> Option<(Fixed, &[u8])> {
        let (id, rest) = body.split_first_chunk::<8>()?;
        let (enqueued_at, rest) = rest.split_first_chunk::<8>()?;
        let (first_id, rest) = rest.split_first_chunk::<8>()?;
        let (replays, rest) = rest.split_first_chunk::<4>()?;
        let (correlation_id_len, rest) = rest.split_first_chunk::<2>()?;
        let fixed = Fixed {
            id: MessageId::new(u64::from_le_bytes(*id))?,
            enqueued_at: Timestamp::from_millis(i64::from_le_bytes(*enqueued_at)),
            first_id: MessageId::new(u64::from_le_bytes(*first_id))?,
            replays: u32::from_le_bytes(*replays),
            correlation_id_len: u16::from_le_bytes(*correlation_id_len),
        };
        Some((fixed, rest))
    }
}

impl NewMessage {
    /// Appends the frame of this message under the id that it is given.
    pub(crate) fn encode(&self, id: MessageId, now: Timestamp, out: &mut Vec<u8>) {
        let origin = self.origin.unwrap_or(Origin { first_id: id, replays: 0 });
        let correlation_id = self.correlation_id.as_str().as_bytes();
        let fixed = Fixed {
            id,
            enqueued_at: now,
            first_id: origin.first_id,
            replays: origin.replays,
            // A correlation id has at most 128 bytes: the type sees to it.
            correlation_id_len: correlation_id.len() as u16,
        };
        frame::encode(KIND_MESSAGE, out, |out| {
            fixed.write(out);
            out.extend_from_slice(correlation_id);
            out.extend_from_slice(&self.payload);
        });
    }

    /// Bytes that its frame takes.
    pub(crate) fn frame_len(&self) -> usize {
        frame::HEADER_LEN + FIXED_LEN + self.correlation_id.as_str().len() + self.payload.len()
    }
}

impl Message {
    /// Reads the body of a frame of kind [`KIND_MESSAGE`]; `None` when it is no message.
    pub(crate) fn decode(body: &[u8]) -> Option<Message> {
        let (fixed, rest) = Fixed::read(body)?;
        let (correlation_id, payload) =
            rest.split_at_checked(usize::from(fixed.correlation_id_len))?;
        Some(Message {
            id: fixed.id,
            enqueued_at: fixed.enqueued_at,
            first_id: fixed.first_id,
            replays: fixed.replays,
            correlation_id: CorrelationId::parse(correlation_id).ok()?,
            payload: payload.to_vec(),
        })
    }
}

/// The message of this id whose frame begins at `offset`; `None` when there is none that verifies.
pub(crate) fn read_message(
    file: &dyn DiskFile,
    offset: u64,
    id: MessageId,
) -> Result<Option<Message>, QueueError> {
    let fault = |error| QueueError::io("read", file.path(), &error);
    let mut header = [0; frame::HEADER_LEN];
    let read = file.read_full_at(&mut header, offset).map_err(fault)?;
    let Some(len) = frame::announced_len(&header).filter(|_| read == header.len()) else {
        return Ok(None);
    };
    let file_len = file.len().map_err(fault)?;
    if offset.checked_add(len).is_none_or(|end| end > file_len) {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_full_at(&mut bytes, offset).map_err(fault)?;
    match frame::decode(&bytes[..read]) {
        Ok(frame) if frame.kind == KIND_MESSAGE => {
            Ok(Message::decode(frame.body).filter(|message| message.id == id))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_went_in(
            id in 1u64.., now: i64, payload in prop::collection::vec(any::<u8>(), 0..200),
            correlation in "[!-~]{1,128}", origin in prop::option::of((1u64.., any::<u32>())),
        ) {
            let id = MessageId::new(id).unwrap();
            let origin = origin.map(|(first, replays)| Origin {
                first_id: MessageId::new(first).unwrap(), replays,
            });
            let correlation_id = CorrelationId::parse(correlation.as_bytes()).unwrap();
            let new = NewMessage { payload, correlation_id, origin };
            let mut bytes = Vec::new();
            new.encode(id, Timestamp::from_millis(now), &mut bytes);
            prop_assert_eq!(bytes.len(), new.frame_len());
            let message = Message::decode(frame::decode(&bytes).unwrap().body).unwrap();
            prop_assert_eq!(message.id, id);
            prop_assert_eq!(message.enqueued_at.as_millis(), now);
            prop_assert_eq!(message.first_id, origin.map_or(id, |o| o.first_id));
            prop_assert_eq!(message.replays, origin.map_or(0, |o| o.replays));
            prop_assert_eq!(message.correlation_id, new.correlation_id);
            prop_assert_eq!(message.payload, new.payload);
        }

        #[test]
        fn noise_in_a_sound_frame_is_no_message_or_one_but_never_a_panic(
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = Message::decode(&body);
        }
    }
}
