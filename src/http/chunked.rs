//! Chunked bodies (RFC 9112, 7.1), decoded strictly.
//!
//! Size lines, extensions and the trailer are bounded; every line ends in CR LF; a size is 1 to 16
//! hexadecimal digits. The decoder is fed bytes and says what it wants next, so it has no socket
//! and no clock. Bytes after the body's end are left over, for the next request.

use crate::base::limits::{MAX_CHUNK_EXTENSIONS, MAX_CHUNK_LINE, MAX_TRAILER_BYTES};
use crate::http::error::HttpError;

/// The state of one body's decoding.
#[derive(Debug)]
pub(super) struct Decoder {
    ceiling: u64,
    state: State,
    extensions: usize,
    trailer: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    /// So many bytes of the chunk are still to come.
    Data(u64),
    DataEnd,
    Trailer,
    Done,
}

/// How far a decoder got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes of the input that were used up.
    pub(super) used: usize,
    /// The body is whole.
    pub(super) done: bool,
}

impl Decoder {
    /// A decoder of a body with at most `ceiling` decoded bytes.
    pub(super) fn new(ceiling: u64) -> Decoder {
        Decoder { ceiling, state: State::Size, extensions: 0, trailer: 0 }
    }

    /// Decodes as much of `input` as can be, onto the end of `body`. Unused bytes must be given
    /// again, with more behind them.
    ///
    /// # Errors
    /// 413 at the first size that leads above the ceiling, 400 for broken framing.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<Progress, HttpError> {
        let mut used = 0;
        while self.state != State::Done {
            let step = self.step(&input[used..], body)?;
            if step == 0 {
                break;
            }
            used += step;
        }
        Ok(Progress { used, done: self.state == State::Done })
    }

    /// One step; the number of bytes used, 0 when more are needed.
    fn step(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, HttpError> {
        match self.state {
            State::Size => self.size(input, body.len()),
            State::Data(left) => {
                let len = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                body.extend_from_slice(&input[..len]);
                let left = left - len as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                Ok(len)
            }
            State::DataEnd => {
                let Some(line) = line(input, 2)? else { return Ok(0) };
                if !line.is_empty() {
                    return Err(HttpError::BadBody("a chunk is longer than its size"));
                }
                self.state = State::Size;
                Ok(2)
            }
            State::Trailer => {
                let Some(line) = line(input, MAX_TRAILER_BYTES.saturating_sub(self.trailer))?
                else {
                    return Ok(0);
                };
                let len = line.len() + 2;
                self.trailer += len;
                if line.is_empty() {
                    self.state = State::Done;
                }
                Ok(len)
            }
            State::Done => Ok(0),
        }
    }

    fn size(&mut self, input: &[u8], decoded: usize) -> Result<usize, HttpError> {
        let Some(line) = line(input, MAX_CHUNK_LINE)? else { return Ok(0) };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let extension = line[digits..].trim_ascii_start();
        if digits == 0 || digits > 16 || !(extension.is_empty() || extension[0] == b';') {
            return Err(HttpError::BadBody("a chunk's size is not a hexadecimal number"));
        }
        self.extensions += line.len() - digits;
        if self.extensions > MAX_CHUNK_EXTENSIONS {
            return Err(HttpError::BadBody("the chunk extensions are longer than allowed"));
        }
        // At most 16 digits: it cannot overflow.
        let size = line[..digits].iter().fold(0_u64, |size, digit| {
            size << 4 | u64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        });
        if size > self.ceiling.saturating_sub(decoded as u64) {
            return Err(HttpError::BodyTooLong(self.ceiling));
        }
        self.state = if size == 0 { State::Trailer } else { State::Data(size) };
        Ok(line.len() + 2)
    }
}

/// The line at the start of the input, without its CR LF; `None` when it is not whole yet.
fn line(input: &[u8], max: usize) -> Result<Option<&[u8]>, HttpError> {
    let window = &input[..input.len().min(max)];
    let Some(end) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0)) else {
        if window.len() == max {
            return Err(HttpError::BadBody("a chunk line or the trailer is longer than allowed"));
        }
        return Ok(None);
    };
    match (window[end], input.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(&input[..end])),
        (b'\r', None) => Ok(None),
        _ => Err(HttpError::BadBody("a chunk line does not end in CR LF")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes with everything at once; the body and what is left over.
    fn decode(input: &[u8], ceiling: u64) -> Result<Option<(Vec<u8>, usize)>, HttpError> {
        let mut body = Vec::new();
        let progress = Decoder::new(ceiling).decode(input, &mut body)?;
        Ok(progress.done.then_some((body, input.len() - progress.used)))
    }

    #[test]
    fn a_body_in_chunks_is_put_together_and_the_rest_left_over() {
        let input = b"2\r\n{\"\r\n0003;a=b\r\na\":\r\n2\r\n1}\r\n0\r\nX: y\r\n\r\nGET";
        assert_eq!(decode(input, 7), Ok(Some((b"{\"a\":1}".to_vec(), 3))));
        assert_eq!(decode(b"0\r\n\r\n", 0), Ok(Some((vec![], 0))));
    }

    #[test]
    fn the_ceiling_counts_decoded_bytes() {
        let input = b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n";
        assert!(decode(input, 4).unwrap().is_some());
        assert_eq!(decode(input, 3), Err(HttpError::BodyTooLong(3)));
        assert_eq!(decode(b"FFFFFFFFFFFFFFFF\r\n", 1 << 20), Err(HttpError::BodyTooLong(1 << 20)));
        assert_eq!(decode(b"7fffffffffffffff\r\n", 9), Err(HttpError::BodyTooLong(9)));
    }

    #[test]
    fn broken_framing_is_refused() {
        for bad in [
            &b"-1\r\n"[..],
            b"+1\r\na\r\n",
            b"0x1\r\na\r\n",
            b"\r\n",
            b"g\r\n",
            b"1 1\r\n",
            b"00000000000000001\r\n",
            b"1\na\r\n",
            b"1\r\nab\r\n",
            b"1\r\na\n",
            b"1\rx",
            b"1;a\0\r\n",
            b"0\r\nX: y\n\r\n",
            b"0\n\n",
        ] {
            let refused = decode(bad, 100);
            assert!(matches!(refused, Err(HttpError::BadBody(_))), "{bad:?}: {refused:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let extension = format!("1;{}\r\n", "x".repeat(MAX_CHUNK_LINE));
        assert!(matches!(decode(extension.as_bytes(), 9), Err(HttpError::BadBody(_))));
        let many = format!("1;{}\r\na\r\n", "x".repeat(1000)).repeat(17);
        assert!(matches!(decode(many.as_bytes(), 99), Err(HttpError::BadBody(_))));
        let trailer = format!("0\r\n{}\r\n", "X: y\r\n".repeat(2000));
        assert!(matches!(decode(trailer.as_bytes(), 9), Err(HttpError::BadBody(_))));
    }

    #[test]
    fn an_unfinished_body_is_never_whole() {
        let input = b"2\r\nab\r\n0\r\nX: y\r\n\r\n";
        for len in 0..input.len() {
            assert_eq!(decode(&input[..len], 9), Ok(None), "{len}");
        }
    }

    fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8)
    }

    proptest! {
        #[test]
        fn any_body_split_anywhere_comes_back(
            chunks in chunks(),
            cuts in prop::collection::vec(1..9_usize, 400),
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                input.extend(format!("{:x}\r\n", chunk.len()).bytes());
                input.extend(chunk);
                input.extend(b"\r\n");
            }
            input.extend(b"0\r\n\r\n");
            let mut decoder = Decoder::new(1 << 20);
            let (mut body, mut fed, mut start, mut done) = (Vec::new(), 0, 0, false);
            for cut in cuts {
                fed = input.len().min(fed + cut);
                let progress = decoder.decode(&input[start..fed], &mut body).unwrap();
                start += progress.used;
                done = progress.done;
            }
            prop_assert!(done);
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn arbitrary_bytes_never_pass_the_ceiling(input in prop::collection::vec(prop::sample::select(b"0123af;\r\nx".to_vec()), 0..200)) {
            let mut body = Vec::new();
            let _ = Decoder::new(16).decode(&input, &mut body);
            prop_assert!(body.len() <= 16);
        }
    }
}
