//! CPU cores: which are available, and which threads run on which.
//!
//! Owns the split of a pinned run: the first cores for servers, the others for the load generator.
//! Promises that a server's child processes inherit its cores, and that the thread that runs a
//! benchmark returns to its own cores.

use std::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of cores.
#[derive(Clone, Copy)]
pub(crate) struct Cores(CpuSet);

impl Cores {
    /// Returns the cores that the calling thread may run on.
    pub(crate) fn allowed() -> io::Result<Self> {
        Ok(Self(sched_getaffinity(None)?))
    }

    fn of(numbers: &[usize]) -> Self {
        let mut set = CpuSet::new();
        numbers.iter().for_each(|&number| set.set(number));
        Self(set)
    }

    pub(crate) fn numbers(&self) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|&number| self.0.is_set(number)).collect()
    }

    /// The first so many for servers, the others for the load; `None` when none would be left.
    pub(crate) fn split(&self, servers: usize) -> Option<(Self, Self)> {
        let numbers = self.numbers();
        let (first, rest) = numbers.split_at_checked(servers)?;
        (!first.is_empty() && !rest.is_empty()).then(|| (Self::of(first), Self::of(rest)))
    }

    /// The first so many, or all.
    pub(crate) fn first(&self, count: usize) -> Self {
        let numbers = self.numbers();
        Self::of(&numbers[..count.min(numbers.len())])
    }

    /// Pins the calling thread, and what it starts, to these cores. May be called after fork.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }
}

impl fmt::Debug for Cores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.numbers()).finish()
    }
}

/// `0`, `0-3`, `0, 2-3`
impl fmt::Display for Cores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers();
        let runs = numbers.chunk_by(|a, b| a + 1 == *b);
        let said = runs.map(|run| match (run.first(), run.last()) {
            (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
            (first, _) => first.map(ToString::to_string).unwrap_or_default(),
        });
        out.write_str(&said.collect::<Vec<_>>().join(", "))
    }
}

/// The calling thread runs elsewhere until this is dropped.
#[derive(Debug)]
pub(crate) struct Moved {
    before: Cores,
}

impl Moved {
    pub(crate) fn to(cores: &Cores) -> io::Result<Self> {
        let before = Cores::allowed()?;
        cores.enter()?;
        Ok(Self { before })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // The cores were ours a moment ago; if they were taken away there is nothing to do.
        let _ = self.before.enter();
    }
}

#[cfg(test)]
mod tests {
    use super::{Cores, Moved};

    #[test]
    fn servers_have_the_first_cores_and_the_load_the_rest() {
        let cores = Cores::of(&[1, 2, 3, 6]);
        let (servers, load) = cores.split(2).unwrap();
        assert_eq!((servers.to_string(), load.to_string()), ("1-2".into(), "3, 6".into()));
        assert_eq!(cores.first(1).numbers(), [1]);
        assert!(cores.split(4).is_none() && cores.split(5).is_none() && cores.split(0).is_none());
    }

    #[test]
    fn a_moved_thread_comes_back() {
        let all = Cores::allowed().unwrap().numbers();
        let last = *all.last().unwrap();
        let moved = Moved::to(&Cores::of(&[last])).unwrap();
        let here = std::thread::spawn(|| Cores::allowed().unwrap().numbers()).join().unwrap();
        assert_eq!(here, [last], "a thread that it starts is there as well");
        drop(moved);
        assert_eq!(Cores::allowed().unwrap().numbers(), all);
    }
}
