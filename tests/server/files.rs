//! The files of a queue as bytes, read and changed by the formats' descriptions alone.

use std::fs;
use std::ops::Range;
use std::path::Path;

/// One frame of `segment.log` or `dlq.log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it lies in the file.
    pub range: Range<usize>,
    pub id: u64,
    /// Everything behind the fixed fields: correlation id and payload, or error and payload.
    pub rest: Vec<u8>,
}

/// The frames that lie one behind the other from the start of a file.
pub fn frames(path: &Path) -> Vec<Frame> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 16) {
        if head[..4] != *b"\xFFNXF" {
            break;
        }
        let body = at + 16..at + 16 + number(&head[8..12]) as usize;
        let Some(content) = bytes.get(body.clone()) else { break };
        let (id, rest) = (number(&content[..8]), content[30..].to_vec());
        found.push(Frame { range: at..body.end, id, rest });
        at = body.end;
    }
    found
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Changes a file's bytes.
pub fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Bytes of one record of `segment.log.retry`.
const RETRY_RECORD: usize = 52;

/// A scheduled retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    pub attempt: u64,
    pub id: u64,
    /// Milliseconds since 1970 UTC.
    pub due: i64,
    /// Milliseconds.
    pub delay: u64,
}

/// The retries that `segment.log.retry` has scheduled, in the file's order.
pub fn scheduled(path: &Path) -> Vec<Scheduled> {
    let bytes = fs::read(path).unwrap_or_default();
    let records = bytes.chunks_exact(RETRY_RECORD).filter(|record| number(&record[8..12]) == 1);
    let read = |record: &[u8]| Scheduled {
        attempt: number(&record[12..16]),
        id: number(&record[16..24]),
        due: number(&record[32..40]).cast_signed(),
        delay: number(&record[40..48]),
    };
    records.map(read).collect()
}

/// Changes due time and delay of every scheduled retry.
pub fn reschedule(path: &Path, change: impl Fn(&mut Scheduled)) {
    let before = scheduled(path);
    edit(path, |bytes| {
        let records = bytes.chunks_exact_mut(RETRY_RECORD);
        let records = records.filter(|record| number(&record[8..12]) == 1);
        for (record, mut retry) in records.zip(before) {
            change(&mut retry);
            record[32..40].copy_from_slice(&retry.due.to_le_bytes());
            record[40..48].copy_from_slice(&retry.delay.to_le_bytes());
            let sum = crc32fast::hash(&record[..48]);
            record[48..52].copy_from_slice(&sum.to_le_bytes());
        }
    });
}
