//! A record of fixed length: fields, then a CRC-32 over them.
//!
//! Used by the small state files. What the fields are, and the magic and version they begin with,
//! is said where each file is; this file only puts the checksum behind them and checks it.

use std::io;
use std::ops::ControlFlow;

use crate::disk::DiskFile;

/// Fields being written, in order, little endian.
#[derive(Debug, Clone)]
pub struct RecordWriter(Vec<u8>);

impl RecordWriter {
    /// Begins a record with its magic and its version.
    pub fn new(magic: [u8; 4], version: u32) -> RecordWriter {
        let mut bytes = magic.to_vec();
        bytes.extend_from_slice(&version.to_le_bytes());
        RecordWriter(bytes)
    }

    /// Appends a field of four bytes.
    pub fn u32(mut self, value: u32) -> RecordWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a field of eight bytes.
    pub fn u64(mut self, value: u64) -> RecordWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a signed field of eight bytes.
    pub fn i64(mut self, value: i64) -> RecordWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends the checksum.
    pub fn finish(mut self) -> Vec<u8> {
        let sum = crc32fast::hash(&self.0);
        self.0.extend_from_slice(&sum.to_le_bytes());
        self.0
    }
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotARecord {
    /// They do not verify.
    Damaged,
    /// They verify, and are of this newer version.
    Newer(u32),
}

/// The fields of a record that has been verified, read in order.
#[derive(Debug, Clone)]
pub struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    /// Verifies the record that `bytes` holds from its first to its last byte.
    ///
    /// # Errors
    /// [`NotARecord`] when they are anything else.
    pub fn new(
        bytes: &'a [u8],
        magic: [u8; 4],
        version: u32,
    ) -> Result<RecordReader<'a>, NotARecord> {
        let (fields, sum) = bytes.split_last_chunk::<4>().ok_or(NotARecord::Damaged)?;
        if crc32fast::hash(fields) != u32::from_le_bytes(*sum) || !fields.starts_with(&magic) {
            return Err(NotARecord::Damaged);
        }
        let mut reader = RecordReader(&fields[4..]);
        match reader.u32() {
            Some(found) if found == version => Ok(reader),
            Some(found) if found > version => Err(NotARecord::Newer(found)),
            _ => Err(NotARecord::Damaged),
        }
    }

    /// The next field of four bytes; `None` past the end.
    pub fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*field))
    }

    /// The next field of eight bytes; `None` past the end.
    pub fn u64(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*field))
    }

    /// The next signed field of eight bytes; `None` past the end.
    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }
}

/// Records that are read at once.
const CHUNK_RECORDS: usize = 1024;

/// Why reading a file of records stopped.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A record of a newer version.
    #[error(
        "the record at offset {offset} has format version {version}, and this build reads {known}"
    )]
    Newer {
        /// Where it begins.
        offset: u64,
        /// Its version.
        version: u32,
        /// The version that this build reads.
        known: u32,
    },
}

/// One place of a file of records: where it begins, how many bytes it has (a whole record's,
/// unless the file ends before), and what it says, if it verifies.
pub type Place<T> = (u64, u64, Option<T>);

/// Hands every place of a file that holds nothing but records of this length to `each`, until
/// that says to stop.
///
/// # Errors
/// [`RecordsError`].
pub fn read_all<T>(
    file: &dyn DiskFile,
    (magic, version): ([u8; 4], u32),
    len: usize,
    decode: impl Fn(&mut RecordReader<'_>) -> Option<T>,
    each: &mut dyn FnMut(Place<T>) -> ControlFlow<()>,
) -> Result<(), RecordsError> {
    let mut buffer = vec![0; CHUNK_RECORDS * len];
    let mut offset = 0;
    loop {
        let read = file.read_full_at(&mut buffer, offset)?;
        for bytes in buffer[..read].chunks(len) {
            let record = match RecordReader::new(bytes, magic, version) {
                Ok(mut fields) => decode(&mut fields),
                Err(NotARecord::Damaged) => None,
                Err(NotARecord::Newer(newer)) => {
                    return Err(RecordsError::Newer { offset, version: newer, known: version });
                }
            };
            if each((offset, bytes.len() as u64, record)).is_break() {
                return Ok(());
            }
            offset += bytes.len() as u64;
        }
        if read < buffer.len() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAGIC: [u8; 4] = *b"TEST";

    #[test]
    fn a_newer_version_is_named() {
        let bytes = RecordWriter::new(MAGIC, 3).finish();
        assert_eq!(RecordReader::new(&bytes, MAGIC, 1).err(), Some(NotARecord::Newer(3)));
        assert_eq!(RecordReader::new(&bytes, *b"ELSE", 3).err(), Some(NotARecord::Damaged));
        assert_eq!(RecordReader::new(&[0; 12], MAGIC, 1).err(), Some(NotARecord::Damaged));
    }

    proptest! {
        #[test]
        fn fields_come_back_in_order_and_a_flipped_bit_is_seen(
            a: u32, b: u64, c: i64, bit in 0usize..28 * 8,
        ) {
            let bytes = RecordWriter::new(MAGIC, 1).u32(a).u64(b).i64(c).finish();
            let mut reader = RecordReader::new(&bytes, MAGIC, 1).unwrap();
            let read = (reader.u32(), reader.u64(), reader.i64());
            prop_assert_eq!(read, (Some(a), Some(b), Some(c)));
            prop_assert_eq!(reader.u32(), None);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RecordReader::new(&flipped, MAGIC, 1).is_err());
        }
    }
}
