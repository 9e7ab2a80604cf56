//! The thread that writes the log's lines.
//!
//! Whoever logs hands a line over and goes on: a queue's thread never waits for whoever reads
//! standard error. Lines that find [`MAX_LOG_LINES`] before them are left out, and the next line
//! that is written says how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use crate::base::limits::{LOG_FINISH_DEADLINE, MAX_LOG_LINES};

/// Bytes that are gathered before they are written.
const GATHERED: usize = 64 << 10;

/// How long more lines are waited for before the first is written.
const GATHER_TIME: Duration = Duration::from_millis(2);

/// How long the end of the process waits before it asks again whether there is room for its mark.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// The way to the thread.
#[derive(Clone)]
pub(super) struct LogWriter {
    lines: SyncSender<Line>,
    left_out: Arc<AtomicU64>,
}

enum Line {
    Text(String),
    /// Told when everything before it is written.
    Mark(SyncSender<()>),
}

impl LogWriter {
    /// Starts the thread; it ends when nobody can hand it a line any more.
    pub(super) fn start(out: Box<dyn Write + Send>) -> io::Result<LogWriter> {
        let (lines, waiting) = sync_channel(MAX_LOG_LINES);
        let left_out = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left_out);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_lines(out, &waiting, &counted))?;
        Ok(LogWriter { lines, left_out })
    }

    /// Hands a whole line over, its line feed included.
    pub(super) fn put(&self, line: String) {
        if self.lines.try_send(Line::Text(line)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, but not for ever.
    pub(super) fn finish(&self) {
        let until = Instant::now() + LOG_FINISH_DEADLINE;
        let (done, written) = sync_channel(1);
        let mut mark = Line::Mark(done);
        while let Err(TrySendError::Full(back)) = self.lines.try_send(mark) {
            if Instant::now() >= until {
                return;
            }
            mark = back;
            // Nothing comes while the mark is here: this only lets time pass.
            let _ = written.recv_timeout(FULL_PAUSE);
        }
        // Past the deadline nobody reads standard error.
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn write_lines(mut out: Box<dyn Write + Send>, waiting: &Receiver<Line>, left_out: &AtomicU64) {
    let mut gathered = Vec::new();
    for first in waiting {
        let mut marks = Vec::new();
        // A moment for others to come: a thread that is woken for each line costs more than it
        // writes.
        if matches!(first, Line::Text(_)) {
            std::thread::park_timeout(GATHER_TIME);
        }
        for line in std::iter::once(first).chain(waiting.try_iter()) {
            match line {
                Line::Text(text) => gathered.extend_from_slice(text.as_bytes()),
                Line::Mark(done) => marks.push(done),
            }
            if gathered.len() >= GATHERED {
                break;
            }
        }
        let missing = left_out.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let text = format!("{missing} log lines were left out: they came faster than read\n");
            gathered.extend_from_slice(text.as_bytes());
        }
        // Who cannot write to standard error cannot say so either.
        let _ = out.write_all(&gathered).and_then(|()| out.flush());
        gathered.clear();
        for done in marks {
            let _ = done.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    /// Writes into memory, once it is let.
    struct Slow {
        written: Arc<Mutex<Vec<u8>>>,
        begun: mpsc::Sender<()>,
        let_on: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.begun.send(());
            let _ = self.let_on.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_those_left_out_are_counted() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (begun, has_begun) = mpsc::channel();
        let (let_go, let_on) = mpsc::channel();
        let slow = Slow { written: Arc::clone(&written), begun, let_on };
        let writer = LogWriter::start(Box::new(slow)).unwrap();
        writer.put("first\n".to_owned());
        has_begun.recv().unwrap();
        // The thread is at its first line: from here on nothing is read, and nobody waits.
        for _ in 0..MAX_LOG_LINES + 3 {
            writer.put("x\n".to_owned());
        }
        drop(let_go);
        writer.finish();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("first\nx\n"), "{}", &text[..20]);
        assert!(text.contains("3 log lines were left out"));
    }
}
