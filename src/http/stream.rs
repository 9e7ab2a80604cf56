//! The socket of a connection, behind a trait so that a test can play the client from memory.
//!
//! Home of `rustix` in this folder: std has no way to send without ever blocking on a socket that
//! otherwise blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::SendFlags;

/// Both directions of a connection. Shared: one thread reads while another may write.
pub(super) trait Stream: Send + Sync {
    /// Reads what there is, waiting one tick at most; see [`is_tick`]. 0 is the end.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes some of the bytes, waiting one tick at most.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes what can be written without waiting at all.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Tells the client that nothing more will come.
    fn finish(&self);

    /// Ends both directions, whoever else still holds the connection.
    fn close(&self);
}

/// Whether an error only says that a tick has passed (or that a signal came): the wait may go on.
pub(super) fn is_tick(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Readies an accepted socket: small answers leave at once, and no wait is longer than a tick.
pub(super) fn prepare(socket: &TcpStream, tick: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(tick))?;
    socket.set_write_timeout(Some(tick))
}

impl Stream for TcpStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    // A socket that can no longer be shut down is one whose client has gone: nothing is left to do
    // then.
    fn finish(&self) {
        let _gone = self.shutdown(Shutdown::Write);
    }

    fn close(&self) {
        let _gone = self.shutdown(Shutdown::Both);
    }
}
