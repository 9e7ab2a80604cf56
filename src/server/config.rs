//! What an operator decides about a server, and which decisions are refused.
//!
//! Plain values: where they come from (flags, environment) is the command line's business.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of one server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The registry's file (`--db`), an absolute path; its directory is the state directory.
    pub registry: PathBuf,
    /// Where to listen (`--listen`).
    pub listen: SocketAddr,
    /// No keys, loopback only, and a sample downstream (`--dev`).
    pub dev: bool,
    /// Threads that serve connections (`--acceptors`).
    pub acceptors: usize,
    /// Connections that may be open at once (`--max-connections`), if the limit on open files lets
    /// them.
    pub max_connections: usize,
    /// Ceiling on one message, in bytes (`--max-message-bytes`).
    pub max_message_bytes: u64,
    /// Queues that may be active at once (`--max-queues`).
    pub max_queues: usize,
    /// How long a stop waits for what is in flight (`--grace`).
    pub grace: Duration,
    /// Whether queues with work start with the server, and not only at their next submission
    /// (`--resume`).
    pub resume_at_start: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are no keys, and it is not for development.
    #[error(
        "without --dev every caller needs a key, and this build cannot make keys yet: \
         start it with --dev, which serves this machine only and accepts every caller"
    )]
    NoKeys,
    /// `--dev` accepts everybody, so nobody else may reach it.
    #[error(
        "--dev accepts every caller, so it listens on a loopback address only, and {0} is none: \
         use --listen 127.0.0.1:{port}, or leave --dev away", port = .0.port()
    )]
    DevBeyondLoopback(SocketAddr),
    /// The state directory cannot be made or written.
    #[error("{0}")]
    StateDirectory(String),
    /// A part of the server cannot be started.
    #[error("cannot start {part}: {why}")]
    Part {
        /// Which part.
        part: &'static str,
        /// Why.
        why: String,
    },
}

impl StartError {
    /// A part that cannot be started.
    pub(super) fn part(part: &'static str, why: impl std::fmt::Display) -> StartError {
        StartError::Part { part, why: why.to_string() }
    }
}

impl ServerConfig {
    /// Refuses what must not be served.
    ///
    /// # Errors
    /// [`StartError::NoKeys`] and [`StartError::DevBeyondLoopback`].
    pub(super) fn check(&self) -> Result<(), StartError> {
        if !self.dev {
            return Err(StartError::NoKeys);
        }
        if !self.listen.ip().is_loopback() {
            return Err(StartError::DevBeyondLoopback(self.listen));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str, dev: bool) -> ServerConfig {
        ServerConfig {
            registry: "registry.db".into(),
            listen: listen.parse().unwrap(),
            dev,
            acceptors: 2,
            max_connections: 10,
            max_message_bytes: 1,
            max_queues: 1,
            grace: Duration::ZERO,
            resume_at_start: true,
        }
    }

    #[test]
    fn dev_serves_loopback_only_and_says_so() {
        for loopback in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:9090"] {
            assert!(config(loopback, true).check().is_ok(), "{loopback}");
        }
        for reachable in ["0.0.0.0:9090", "[::]:9090", "192.0.2.1:9090"] {
            let error = config(reachable, true).check().unwrap_err().to_string();
            assert!(error.contains("--listen 127.0.0.1:9090"), "{error}");
        }
    }

    #[test]
    fn without_keys_only_dev_starts() {
        assert!(matches!(config("127.0.0.1:0", false).check(), Err(StartError::NoKeys)));
    }
}
