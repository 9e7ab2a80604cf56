//! The goldens, each field on a line of its own, and what the files say.
//!
//! Little endian. The checksums are CRC-32 (IEEE) as the tables in the owning files say.

/// Two messages.
pub const SEGMENT: &str = concat!(
    "ff4e5846",         // magic
    "01",               // version
    "01",               // kind
    "0000",             // reserved
    "27000000",         // length
    "242cb318",         // checksum
    "0100000000000000", // id
    "b2c3d4e69f010000", // enqueued at
    "0100000000000000", // first id
    "00000000",         // replays
    "0700",             // correlation id length
    "74726163652d31",   // correlation id
    "7b7d",             // payload
    "ff4e5846",         // magic
    "01",               // version
    "01",               // kind
    "0000",             // reserved
    "23000000",         // length
    "81804fcd",         // checksum
    "0200000000000000", // id
    "b2c3d4e69f010000", // enqueued at
    "0200000000000000", // first id
    "00000000",         // replays
    "0100",             // correlation id length
    "62",               // correlation id
    "22c3a922",         // payload
);

/// After the batch of them.
pub const SEQUENCE: &str = concat!(
    "4e585351",         // magic
    "01000000",         // version
    "0300000000000000", // next id
    "0000000000000000", // synced end
    "d0159dd5",         // checksum
);

/// Of a message that is a replay of message 1.
pub const REPLAY_FIELDS: &str = concat!(
    "b2c3d4e69f010000", // enqueued at
    "0100000000000000", // first id
    "01000000",         // replays
    "2400",             // correlation id length
);

/// Message 1 is settled.
pub const CHECKPOINT: &str = concat!(
    "4e58434b",         // magic
    "01000000",         // version
    "0100000000000000", // generation
    "3700000000000000", // offset
    "0200000000000000", // id
    "0000000000000000", // retry length
    "36f97737",         // checksum
);

/// Message 2 as well.
pub const SECOND_CHECKPOINT: &str = concat!(
    "4e58434b",         // magic
    "01000000",         // version
    "0200000000000000", // generation
    "6e00000000000000", // offset
    "0300000000000000", // id
    "0000000000000000", // retry length
    "09bc9f5a",         // checksum
);

/// Scheduled, crashed, done.
pub const RETRY: &str = concat!(
    "4e585254",         // magic
    "01000000",         // version
    "01000000",         // kind
    "02000000",         // number
    "0100000000000000", // id
    "0000000000000000", // offset
    "9ac7d4e69f010000", // due
    "e803000000000000", // delay
    "b0f855df",         // checksum
    "4e585254",         // magic
    "01000000",         // version
    "03000000",         // kind
    "01000000",         // number
    "0100000000000000", // id
    "0000000000000000", // offset
    "0000000000000000", // due
    "0000000000000000", // delay
    "0f21e962",         // checksum
    "4e585254",         // magic
    "01000000",         // version
    "02000000",         // kind
    "00000000",         // number
    "0100000000000000", // id
    "0000000000000000", // offset
    "0000000000000000", // due
    "0000000000000000", // delay
    "dd67dd58",         // checksum
);

/// Message 1, dead-lettered.
pub const DEAD_LETTER: &str = concat!(
    "ff4e5846",         // magic
    "01",               // version
    "02",               // kind
    "0000",             // reserved
    "39000000",         // length
    "38bc2a2e",         // checksum
    "0100000000000000", // id
    "b2c3d4e69f010000", // enqueued at
    "0100000000000000", // first id
    "00000000",         // replays
    "0000",             // correlation id length
    "b2c3d4e69f010000", // failed at
    "01000000",         // attempts
    "03",               // reason
    "08000000",         // length of the last error
    "4854545020353033", // last error
    "7b7d",             // payload
);

/// It is discarded.
pub const MARK: &str = concat!(
    "4e58414b",         // magic
    "01000000",         // version
    "0100000000000000", // id
    "cf17aa72",         // checksum
);

/// Both messages in flight.
pub const SLOTS: &str = concat!(
    "4e584946",         // magic
    "01000000",         // version
    "0100000000000000", // id
    "0000000000000000", // offset
    "c601da4e",         // checksum
    "00000000",         // unused
    "4e584946",         // magic
    "01000000",         // version
    "0200000000000000", // id
    "3700000000000000", // offset
    "50ef1ae8",         // checksum
    "00000000",         // unused
);

/// A torn end.
pub const KEPT: &str = concat!(
    "ff4e5846",         // magic
    "01",               // version
    "03",               // kind
    "0000",             // reserved
    "15000000",         // length
    "ff960243",         // checksum
    "3700000000000000", // offset
    "0500000000000000", // length
    "ff746f726e",       // bytes
);

/// One line.
pub const WAKE: &str = "61636d652f610a";

/// Bytes of the frame of a replay of `{}`, whose correlation id has 36 characters.
pub const REPLAY_LEN: usize = 16 + 30 + 36 + 2;

pub const SEGMENT_SAYS: [&str; 2] = [
    r#"{"at":0,"length":55,"kind":"message","id":1,"enqueued_at":"2026-08-09T14:02:11.250Z","first_id":1,"replays":0,"correlation_id":"trace-1","payload":"{}"}"#,
    r#"{"at":55,"length":51,"kind":"message","id":2,"enqueued_at":"2026-08-09T14:02:11.250Z","first_id":2,"replays":0,"correlation_id":"b","payload":"\"é\""}"#,
];
pub const SEQUENCE_SAYS: [&str; 1] =
    [r#"{"at":0,"length":28,"kind":"sequence","next_id":3,"synced_end":0}"#];
pub const CHECKPOINT_SAYS: [&str; 2] = [
    r#"{"at":0,"length":44,"kind":"checkpoint","generation":1,"offset":55,"id":2,"retry_length":0}"#,
    r#"{"at":4096,"length":44,"kind":"checkpoint","generation":2,"offset":110,"id":3,"retry_length":0}"#,
];
pub const RETRY_SAYS: [&str; 3] = [
    r#"{"at":0,"length":52,"kind":"scheduled","id":1,"offset":0,"attempt":2,"due_at":"2026-08-09T14:02:12.250Z","delay_ms":1000}"#,
    r#"{"at":52,"length":52,"kind":"crashed","id":1,"offset":0,"count":1}"#,
    r#"{"at":104,"length":52,"kind":"done","id":1}"#,
];
pub const DEAD_LETTER_SAYS: [&str; 1] = [
    r#"{"at":0,"length":73,"kind":"dead_letter","id":1,"enqueued_at":"2026-08-09T14:02:11.250Z","first_id":1,"replays":0,"failed_at":"2026-08-09T14:02:11.250Z","attempts":1,"reason":"non_retryable","last_error":"HTTP 503","payload":"{}"}"#,
];
pub const MARK_SAYS: [&str; 1] = [r#"{"at":0,"length":20,"kind":"handled","id":1}"#];
pub const SLOTS_SAY: [&str; 2] = [
    r#"{"at":0,"length":32,"kind":"in_flight","id":1,"offset":0}"#,
    r#"{"at":32,"length":32,"kind":"in_flight","id":2,"offset":55}"#,
];
pub const KEPT_SAYS: [&str; 1] = [
    r#"{"at":0,"length":37,"kind":"kept","offset":55,"original_length":5,"payload_base64":"/3Rvcm4="}"#,
];
pub const WAKE_SAYS: [&str; 1] =
    [r#"{"at":0,"length":7,"kind":"wake","tenant":"acme","flow":"a"}"#];
