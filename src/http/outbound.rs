//! The way out to a client: a socket, or what stands in for it when a connection is played from
//! memory.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustix::net::SendFlags;

/// Where answers go. No call ever blocks.
pub(super) trait Outbound: Send + Sync {
    /// Writes what can be written at once.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Tells the client that nothing more will come.
    fn finish(&self);

    /// Ends both directions, whoever else still holds the connection.
    fn close(&self);
}

impl Outbound for Arc<TcpStream> {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&**self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
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
