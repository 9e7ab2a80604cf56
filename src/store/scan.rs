//! Reading a file of frames from front to back, past whatever is damaged.
//!
//! Promises: an [`Item::Frame`] has verified; every byte up to the end is given in exactly one
//! item; nothing is allocated for a length that only an unverified header names, beyond the ceiling
//! of one frame; time is linear.
//!
//! A gap ends where the next sound frame begins. Zeros up to the end are no data, and are told
//! apart from a tail that does not verify. What a gap, zeros or a tail mean is the caller's to say:
//! this file knows no queue.

use std::io;

use crate::base::limits::MAX_MESSAGE_BYTES;
use crate::disk::DiskFile;
use crate::store::frame::{self, Frame, HEADER_LEN, MAGIC, NotAFrame};

/// Bytes of the longest frame: the longest message and what is stored around it.
pub const MAX_FRAME_LEN: u64 = MAX_MESSAGE_BYTES + 64 * 1024;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// The buffer that is kept between reads; what a longer frame made it grow to is given back.
const KEPT_BUFFER: usize = 256 * 1024;

/// What stands at one place of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A sound frame.
    Frame {
        /// Where it begins.
        offset: u64,
        /// All its bytes.
        len: u64,
        /// The frame.
        frame: Frame<'a>,
    },
    /// Bytes that do not verify, up to a sound frame.
    Gap {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
        /// Whether all of them are zero.
        zeros: bool,
    },
    /// Zeros up to the end.
    Zeros {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Bytes that do not verify, up to the end, not all of them zero.
    Tail {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
}

/// Why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A frame of a newer version.
    #[error(
        "the frame at offset {offset} has format version {version}, and this build reads up to {}",
        frame::VERSION
    )]
    Newer {
        /// Where it begins.
        offset: u64,
        /// Its version.
        version: u8,
    },
}

/// A position in a file of frames, and a buffer of what follows it.
#[derive(Debug, Default)]
pub struct Scanner {
    position: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer's first byte stands.
    buffer_offset: u64,
}

impl Scanner {
    /// A scanner that begins at this offset.
    pub fn at(position: u64) -> Scanner {
        Scanner { position, ..Scanner::default() }
    }

    /// Where the next item begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at another place, or at the same with nothing read ahead.
    pub fn seek(&mut self, position: u64) {
        *self = Scanner::at(position);
    }

    /// The next item before `end`; `None` at `end`. After an error the position is as it was.
    ///
    /// # Errors
    /// [`ScanError`].
    pub fn next<'a>(
        &'a mut self,
        file: &dyn DiskFile,
        end: u64,
    ) -> Result<Option<Item<'a>>, ScanError> {
        let offset = self.position;
        if offset >= end {
            return Ok(None);
        }
        let Some(len) = self.frame_len_at(file, offset, end)? else {
            return self.damage(file, offset, end).map(Some);
        };
        self.position = offset + len;
        // The frame was verified a moment ago, and its bytes are still in the buffer.
        let start = (offset - self.buffer_offset) as usize;
        let bytes = &self.buffer[start..start + len as usize];
        let frame = Frame { kind: bytes[5], body: &bytes[HEADER_LEN..] };
        Ok(Some(Item::Frame { offset, len, frame }))
    }

    /// The length of the sound frame at `offset`, whose bytes are then in the buffer.
    fn frame_len_at(
        &mut self,
        file: &dyn DiskFile,
        offset: u64,
        end: u64,
    ) -> Result<Option<u64>, ScanError> {
        let bytes = self.load(file, offset, HEADER_LEN as u64, end)?;
        let Some(len) = bytes.first_chunk().and_then(frame::announced_len) else {
            return Ok(None);
        };
        if len > MAX_FRAME_LEN || len > end - offset {
            return Ok(None);
        }
        let bytes = self.load(file, offset, len, end)?;
        if (bytes.len() as u64) < len {
            return Ok(None);
        }
        match frame::decode(&bytes[..len as usize]) {
            Ok(_) => Ok(Some(len)),
            Err(NotAFrame::Damaged) => Ok(None),
            Err(NotAFrame::Newer(version)) => Err(ScanError::Newer { offset, version }),
        }
    }

    /// The item of a place where no sound frame begins.
    fn damage(
        &mut self,
        file: &dyn DiskFile,
        offset: u64,
        end: u64,
    ) -> Result<Item<'static>, ScanError> {
        let data = self.find(file, offset, end, |byte| byte != 0)?;
        let Some(data) = data else {
            self.position = end;
            return Ok(Item::Zeros { offset, len: end - offset });
        };
        let mut candidate = data.max(offset + 1);
        if data > offset && self.frame_len_at(file, data, end)?.is_some() {
            self.position = data;
            return Ok(Item::Gap { offset, len: data - offset, zeros: true });
        }
        while let Some(at) = self.find(file, candidate, end, |byte| byte == MAGIC[0])? {
            if self.frame_len_at(file, at, end)?.is_some() {
                self.position = at;
                return Ok(Item::Gap { offset, len: at - offset, zeros: false });
            }
            candidate = at + 1;
        }
        self.position = end;
        Ok(Item::Tail { offset, len: end - offset })
    }

    /// The first place from `from` on whose byte is wanted.
    fn find(
        &mut self,
        file: &dyn DiskFile,
        from: u64,
        end: u64,
        wanted: impl Fn(u8) -> bool,
    ) -> Result<Option<u64>, ScanError> {
        let mut at = from;
        while at < end {
            let bytes = self.load(file, at, 1, end)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(found) = bytes.iter().position(|byte| wanted(*byte)) {
                return Ok(Some(at + found as u64));
            }
            at += bytes.len() as u64;
        }
        Ok(None)
    }

    /// What the buffer has from `at` on: at least `need` bytes, unless the file or `end` comes
    /// first.
    fn load(&mut self, file: &dyn DiskFile, at: u64, need: u64, end: u64) -> io::Result<&[u8]> {
        let have = self.buffer_offset + self.buffer.len() as u64;
        let inside = at >= self.buffer_offset && at <= have;
        if !inside || (have - at < need && have < end) {
            self.refill(file, at, need, end, inside)?;
        }
        let start = (at - self.buffer_offset) as usize;
        let until = self.buffer.len().min(start + (end - at) as usize);
        Ok(&self.buffer[start..until])
    }

    fn refill(
        &mut self,
        file: &dyn DiskFile,
        at: u64,
        need: u64,
        end: u64,
        inside: bool,
    ) -> io::Result<()> {
        let keep_from = if inside { (at - self.buffer_offset) as usize } else { self.buffer.len() };
        self.buffer.drain(..keep_from);
        self.buffer_offset = at;
        let kept = self.buffer.len();
        let want = (need.max(CHUNK as u64)).min(end - at) as usize;
        if want <= kept {
            return Ok(());
        }
        if want <= KEPT_BUFFER && self.buffer.capacity() > KEPT_BUFFER {
            self.buffer.shrink_to(KEPT_BUFFER);
        }
        self.buffer.resize(want, 0);
        let read = file.read_full_at(&mut self.buffer[kept..], at + kept as u64);
        // After an error nothing of the new part is believed.
        self.buffer.truncate(kept + read.as_ref().map_or(0, |n| *n));
        read.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Open, RealDisk};
    use proptest::prelude::*;

    fn with_file<T>(content: &[u8], test: impl FnOnce(&dyn DiskFile) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let file = disk.open(&dir.path().join("log"), Open::Create).unwrap();
        file.write_all_at(content, 0).unwrap();
        test(file.as_ref())
    }

    fn log(bodies: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let mut out = Vec::new();
        let mut starts = Vec::new();
        for body in bodies {
            starts.push(out.len());
            frame::encode(1, &mut out, |out| out.extend_from_slice(body));
        }
        (out, starts)
    }

    /// One line for each item, for comparison.
    fn items(content: &[u8]) -> Vec<String> {
        with_file(content, |file| {
            let mut scanner = Scanner::default();
            let mut lines = Vec::new();
            while let Some(item) = scanner.next(file, content.len() as u64).unwrap() {
                lines.push(match item {
                    Item::Frame { offset, frame, .. } => {
                        format!("{offset} {}", String::from_utf8_lossy(frame.body))
                    }
                    other => format!("{other:?}"),
                });
            }
            lines
        })
    }

    #[test]
    fn a_damaged_frame_in_the_middle_is_a_gap_and_the_next_one_is_found() {
        let (mut content, starts) = log(&[b"one", b"two", b"three"]);
        content[starts[1] + 17] ^= 1;
        assert_eq!(
            items(&content),
            ["0 one", "Gap { offset: 19, len: 19, zeros: false }", "38 three"]
        );
    }

    #[test]
    fn a_damaged_length_neither_allocates_nor_loops() {
        for length in [u32::MAX, 0, 1000, 5] {
            let (mut content, starts) = log(&[b"one", b"two", b"three"]);
            let at = starts[1] + 8;
            content[at..at + 4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(items(&content).last().unwrap(), "38 three", "length {length}");
        }
    }

    #[test]
    fn a_cut_last_frame_is_a_tail_and_zeros_behind_the_last_frame_are_no_data() {
        let (content, starts) = log(&[b"one", b"two"]);
        for cut in starts[1] + 1..content.len() {
            let len = cut - starts[1];
            let tail = format!("Tail {{ offset: 19, len: {len} }}");
            assert_eq!(items(&content[..cut]), ["0 one", &tail]);
        }
        let padded = [&content[..], &[0; 70_000]].concat();
        assert_eq!(items(&padded).last().unwrap(), "Zeros { offset: 38, len: 70000 }");
    }

    #[test]
    fn zeros_in_front_of_a_sound_frame_are_told_apart() {
        let (content, starts) = log(&[b"one", b"two"]);
        let mut punched = content.clone();
        punched[..starts[1]].fill(0);
        assert_eq!(items(&punched), ["Gap { offset: 0, len: 19, zeros: true }", "19 two"]);
    }

    #[test]
    fn a_payload_that_holds_frames_is_still_one_frame() {
        let (inner, _) = log(&[b"x", b"y"]);
        let (content, _) = log(&[&inner]);
        assert_eq!(items(&content).len(), 1);
    }

    #[test]
    fn frames_longer_than_what_is_read_at_once_come_whole() {
        let long = vec![b'x'; 300_000];
        let (content, _) = log(&[b"one", &long, b"three"]);
        let lines = items(&content);
        assert_eq!(lines.len(), 3);
        assert!(lines[1].len() > 300_000 && lines[2].ends_with("three"));
    }

    proptest! {
        #[test]
        fn every_byte_is_in_exactly_one_item_whatever_the_damage(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let refs: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
            let (mut content, _) = log(&refs);
            for (at, byte) in &damage {
                if !content.is_empty() {
                    let at = at.index(content.len());
                    content[at] = *byte;
                }
            }
            with_file(&content, |file| {
                let mut scanner = Scanner::default();
                let mut at = 0;
                while let Some(item) = scanner.next(file, content.len() as u64).unwrap() {
                    let (offset, len) = match item {
                        Item::Frame { offset, len, .. } | Item::Gap { offset, len, .. }
                        | Item::Zeros { offset, len } | Item::Tail { offset, len } => (offset, len),
                    };
                    assert_eq!(offset, at);
                    at += len;
                    assert!(len > 0);
                }
                assert_eq!(at, content.len() as u64);
            });
        }
    }
}
