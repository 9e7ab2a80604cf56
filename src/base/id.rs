//! Message ids and correlation ids.

use std::fmt;

use crate::base::limits::MAX_CORRELATION_ID_LEN;
use crate::base::random::Random;

/// The id of a message within its queue: from 1, never reissued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u64);

impl MessageId {
    /// The id of the first message of a queue.
    pub const FIRST: MessageId = MessageId(1);

    /// The id with this number; `None` for 0, which never names a message.
    pub fn new(value: u64) -> Option<MessageId> {
        (value != 0).then_some(MessageId(value))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The id after this one. At one million messages a second the numbers last for half a million
    /// years.
    pub fn next(self) -> MessageId {
        MessageId(self.0.saturating_add(1))
    }

    /// The id `n` after this one.
    pub fn plus(self, n: u64) -> MessageId {
        MessageId(self.0.saturating_add(n))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What ties together all that happens to one message: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CorrelationId(Box<str>);

/// A text that cannot be a correlation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a correlation id is 1 to {MAX_CORRELATION_ID_LEN} visible ASCII characters (no spaces), \
     and this one {0}"
)]
pub struct CorrelationIdError(&'static str);

impl CorrelationId {
    /// Checks the bytes of a header's value.
    ///
    /// # Errors
    /// [`CorrelationIdError`], which never repeats the value.
    pub fn parse(bytes: &[u8]) -> Result<CorrelationId, CorrelationIdError> {
        if bytes.is_empty() {
            return Err(CorrelationIdError("is empty"));
        }
        if bytes.len() > MAX_CORRELATION_ID_LEN {
            return Err(CorrelationIdError("is longer"));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if bytes.iter().all(u8::is_ascii_graphic) => Ok(CorrelationId(text.into())),
            _ => Err(CorrelationIdError("has another character")),
        }
    }

    /// A new one: a UUIDv7.
    pub fn generate(random: &dyn Random) -> CorrelationId {
        CorrelationId(random.uuid_v7().into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_id() {
        assert_eq!(MessageId::new(0), None);
        assert_eq!(MessageId::new(1), Some(MessageId::FIRST));
        assert_eq!(MessageId::FIRST.next().get(), 2);
    }

    #[test]
    fn a_correlation_id_is_short_and_visible() {
        assert_eq!(
            CorrelationId::parse(b"a{{ $.x }}"),
            Err(CorrelationIdError("has another character"))
        );
        assert_eq!(CorrelationId::parse(b"trace-1").unwrap().as_str(), "trace-1");
        assert!(CorrelationId::parse(&[b'x'; 128]).is_ok());
        for bad in [&b""[..], &[b'x'; 129], b"a b", b"a\r\nX: y", b"a\x7f", "é".as_bytes(), b"\xff"]
        {
            assert!(CorrelationId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
