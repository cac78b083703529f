//! External load generators: wrk, h2load, openssl s_time and redis-benchmark.
//!
//! Owns their command lines and parses their output. Promises a [`LoadOutcome`] like that of the
//! built-in generator, as far as the tool reports it, and that the tool has exited on return. The
//! tools differ as follows:
//! - all count from their start to their end, connecting included; a warm-up is a separate run
//!   (wrk's and openssl's in whole seconds; redis-benchmark's also determines its number of
//!   requests);
//! - wrk checks no length and no body, counts a status above 399 as wrong whatever is expected,
//!   measures latencies in microseconds, and adds latencies that a steady client would have seen
//!   wherever one is above twice the mean, so there are more of them than requests;
//! - h2load checks the status only and reports no percentiles; in a closed loop the rate determines
//!   the mean latency;
//! - openssl s_time makes one connection at a time, checks no response, and reports only how many
//!   there were;
//! - redis-benchmark sends a number of requests, measures latencies to 1 part in 1000 or 8 µs, and
//!   stops at the first error.

mod h2load;
mod openssl;
mod process;
mod redis_benchmark;
mod wrk;

use std::io;
use std::path::{Path, PathBuf};

use super::{LoadOutcome, LoadPlan, Mode, Moment, Target, Traffic};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Wrk,
    H2load,
    /// `openssl s_time`.
    Openssl,
    RedisBenchmark,
}

impl Tool {
    pub const ALL: [Tool; 4] = [Tool::Wrk, Tool::H2load, Tool::Openssl, Tool::RedisBenchmark];

    pub fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Openssl => "openssl",
            Self::RedisBenchmark => "redis-benchmark",
        }
    }

    /// The package of Debian that has it.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::H2load => "nghttp2-client",
            Self::Openssl => "openssl",
            Self::RedisBenchmark => "redis-tools",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Returns the path of the program, if it is installed.
    pub fn program(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(self.name()))
            .find(|p| p.is_file())
    }

    /// Checks that the tool supports this load; the error is the reason why not.
    pub fn can(self, target: &Target, plan: &LoadPlan) -> io::Result<()> {
        let refuse = |why: &str| {
            let name = self.name();
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("{name} {why}")))
        };
        match (self, &target.traffic) {
            _ if plan.mode != Mode::Closed => refuse("has no fixed rate"),
            (Self::Openssl, Traffic::Http { keep_alive: false, .. }) if target.tls.is_some() => {
                match plan.connections {
                    1 => Ok(()),
                    _ => refuse("makes one connection at a time"),
                }
            }
            (Self::Openssl, _) => refuse("only makes handshakes of TLS"),
            _ if target.tls.is_some() => refuse("is not used over TLS"),
            (Self::H2load, Traffic::Http2 { .. }) => Ok(()),
            (Self::H2load, _) => refuse("is only used for HTTP/2"),
            (Self::Wrk, Traffic::Http { .. }) => match &target.address {
                super::Address::Tcp(_) => Ok(()),
                super::Address::Unix(_) => refuse("does not load Unix sockets"),
            },
            (Self::RedisBenchmark, Traffic::Resp { .. }) => Ok(()),
            (Self::Wrk, Traffic::Resp { .. }) => refuse("does not speak RESP"),
            (Self::RedisBenchmark, Traffic::Http { .. }) => refuse("does not speak HTTP"),
            (_, Traffic::Http2 { .. }) => refuse("does not speak HTTP/2"),
            (_, Traffic::WebSocket { .. }) => refuse("does not speak WebSocket"),
        }
    }

    /// The same as [`super::run_with`], done by the tool.
    pub fn run_with(
        self,
        program: &Path,
        target: &Target,
        plan: &LoadPlan,
        mut at: impl FnMut(Moment),
    ) -> io::Result<LoadOutcome> {
        self.can(target, plan)?;
        match self {
            Self::Wrk => wrk::run(program, target, plan, &mut at),
            Self::H2load => h2load::run(program, target, plan, &mut at),
            Self::Openssl => openssl::run(program, target, plan, &mut at),
            Self::RedisBenchmark => redis_benchmark::run(program, target, plan, &mut at),
        }
    }
}

/// Fills the histogram from values in rising order with the number of latencies up to each.
fn record_cumulated(outcome: &mut LoadOutcome, values: impl IntoIterator<Item = (u64, u64)>) {
    let mut before = 0;
    for (value_ns, count) in values {
        if let Some(more) = count.checked_sub(before).filter(|&more| more > 0) {
            outcome.latency.saturating_record_n(value_ns, more);
            before = count;
        }
    }
}

#[cfg(test)]
mod tests;
