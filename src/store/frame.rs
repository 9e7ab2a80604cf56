//! One frame: the unit in which logs are written, and the only thing that is believed when they are
//! read.
//!
//! | bytes  | field    | meaning                                                      |
//! |--------|----------|--------------------------------------------------------------|
//! | 0..4   | magic    | `FF 4E 58 46` (0xFF, `NXF`)                                  |
//! | 4      | version  | u8, 1                                                        |
//! | 5      | kind     | u8: what the body is; the owner of the file says             |
//! | 6..8   | reserved | 0                                                            |
//! | 8..12  | length   | u32, bytes of the body                                       |
//! | 12..16 | checksum | u32, CRC-32 (IEEE) over bytes 0..12 and the body             |
//! | 16..   | body     |                                                              |
//!
//! Little endian. A frame is valid when all of it is there, its fields are as above and its
//! checksum agrees; nothing else is ever read as one. The first byte of the magic, 0xFF, cannot
//! occur in UTF-8 text, so no payload can hold a frame of its own that a reader, searching past
//! damage, would take for one of the log.
//!
//! A valid frame of a newer version is recognised by the same 16 bytes, which stay as they are in
//! every version, and is refused by its number.

/// What every frame begins with.
pub const MAGIC: [u8; 4] = [0xFF, b'N', b'X', b'F'];

/// Bytes in front of the body.
pub const HEADER_LEN: usize = 16;

/// The version that this build writes, and the newest that it reads.
pub const VERSION: u8 = 1;

/// Appends one frame to `out`. `write_body` appends its body, which must stay below 4 GiB; every
/// caller has checked its message against a far lower ceiling.
pub fn encode(kind: u8, out: &mut Vec<u8>, write_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind, 0, 0]);
    out.extend_from_slice(&[0; 8]);
    write_body(out);
    let length = (out.len() - start - HEADER_LEN) as u32;
    out[start + 8..start + 12].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&out[start..]);
    out[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32 over a whole frame, leaving out the checksum's own bytes.
fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..12]);
    hasher.update(&frame[HEADER_LEN..]);
    hasher.finalize()
}

/// The length of the whole frame that a header announces; `None` when it is no header. Nothing is
/// verified yet.
pub fn announced_len(header: &[u8; HEADER_LEN]) -> Option<u64> {
    if header[..4] != MAGIC || header[4] == 0 || header[6..8] != [0, 0] {
        return None;
    }
    let body = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    Some(HEADER_LEN as u64 + u64::from(body))
}

/// A frame that has been verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the body is.
    pub kind: u8,
    /// The body.
    pub body: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAFrame {
    /// They do not verify.
    Damaged,
    /// They verify, and are of this newer version.
    Newer(u8),
}

/// Reads the frame that `bytes` holds from its first to its last byte.
///
/// # Errors
/// [`NotAFrame`] when they are anything else.
pub fn decode(bytes: &[u8]) -> Result<Frame<'_>, NotAFrame> {
    let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(NotAFrame::Damaged)?;
    if announced_len(header) != Some(bytes.len() as u64) {
        return Err(NotAFrame::Damaged);
    }
    let sum = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    if sum != checksum(bytes) {
        return Err(NotAFrame::Damaged);
    }
    if header[4] > VERSION {
        return Err(NotAFrame::Newer(header[4]));
    }
    Ok(Frame { kind: header[5], body: &bytes[HEADER_LEN..] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(kind, &mut out, |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn the_bytes_of_a_frame_are_those_of_the_table() {
        let bytes = frame(1, b"abc");
        assert_eq!(bytes[..12], [0xFF, b'N', b'X', b'F', 1, 1, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[12..16], crc32fast::hash(&[&bytes[..12], b"abc"].concat()).to_le_bytes());
        assert_eq!(&bytes[16..], b"abc");
    }

    #[test]
    fn a_newer_version_is_named_and_a_version_of_zero_is_damage() {
        let mut newer = frame(1, b"abc");
        newer[4] = 2;
        let sum = checksum(&newer).to_le_bytes();
        newer[12..16].copy_from_slice(&sum);
        assert_eq!(decode(&newer), Err(NotAFrame::Newer(2)));
        assert_eq!(decode(&[0; 64]), Err(NotAFrame::Damaged));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(kind: u8, body in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes = frame(kind, &body);
            prop_assert_eq!(decode(&bytes), Ok(Frame { kind, body: &body }));
        }

        #[test]
        fn a_frame_with_any_bit_flipped_or_any_byte_missing_is_not_a_frame(
            body in prop::collection::vec(any::<u8>(), 0..60),
            bit: prop::sample::Index, cut: prop::sample::Index,
        ) {
            let bytes = frame(1, &body);
            let mut flipped = bytes.clone();
            let bit = bit.index(bytes.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&flipped).is_err());
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]), Err(NotAFrame::Damaged));
        }

        #[test]
        fn noise_is_not_a_frame(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&noise).is_err());
        }
    }
}
