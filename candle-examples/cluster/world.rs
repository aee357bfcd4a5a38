//! The ranks of a run and the messages between them. Waits poll: a waiting rank yields its core to the ranks that compute, and its monitor
//! sees that it is alive.

use anyhow::{Context, Result};
use mpi::datatype::Equivalence;
use mpi::request::scope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::Tag;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// What the main thread does, and since when.
pub struct Progress {
    main: ThreadId,
    last: Mutex<Step>,
}

#[derive(Clone, Copy)]
struct Step {
    since: Instant,
    phase: &'static str,
    /// Whether it may take any time.
    long: bool,
}

impl Progress {
    /// Follows the calling thread.
    pub fn new() -> Self {
        Self {
            main: std::thread::current().id(),
            last: Mutex::new(Step {
                since: Instant::now(),
                phase: "start",
                long: false,
            }),
        }
    }

    /// Tells the monitor that work goes on. Other threads than the followed one have no effect: they must not hide that it hangs.
    pub fn tick(&self, phase: &'static str) {
        self.set(phase, false);
    }

    /// Begins a step that may take any time, such as a download; the next tick ends it.
    pub fn long(&self, phase: &'static str) {
        self.set(phase, true);
    }

    fn set(&self, phase: &'static str, long: bool) {
        if std::thread::current().id() == self.main {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Step {
                since: Instant::now(),
                phase,
                long,
            };
        }
    }

    /// The phase, and the time since the last tick.
    pub fn age(&self) -> (&'static str, Duration) {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.long {
            true => (last.phase, Duration::ZERO),
            false => (last.phase, last.since.elapsed()),
        }
    }
}

/// The ranks, as one of them sees them.
pub struct World {
    comm: SimpleCommunicator,
    pub rank: usize,
    pub size: usize,
    /// Position among the ranks of this node, and their number.
    pub local: (usize, usize),
    /// The node of each rank.
    pub hosts: Vec<String>,
    pub progress: Progress,
}

// SAFETY: MPI is initialised with MPI_THREAD_MULTIPLE, under which any thread may use a communicator. A collective is called by one thread
// of a rank only.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// A received message.
pub struct Message {
    pub from: usize,
    pub bytes: Vec<u8>,
}

/// Spins for a moment, which keeps the latency low, then sleeps, which leaves the core to others.
struct Pause {
    since: Instant,
}

impl Pause {
    fn new() -> Self {
        Self {
            since: Instant::now(),
        }
    }

    fn wait(&self) {
        match self.since.elapsed().as_micros() {
            0..=300 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(40)),
        }
    }
}

impl World {
    pub fn new(comm: SimpleCommunicator) -> Result<Self> {
        let (rank, size) = (comm.rank() as usize, comm.size() as usize);
        let node = comm.split_shared(comm.rank());
        let local = (node.rank() as usize, node.size() as usize);
        let host = mpi::environment::processor_name().context("the name of this host")?;
        let mut world = Self {
            comm,
            rank,
            size,
            local,
            hosts: Vec::new(),
            progress: Progress::new(),
        };
        let hosts = world.exchange(host.as_bytes(), "start");
        let hosts = hosts.iter().map(|host| String::from_utf8_lossy(host));
        world.hosts = hosts.map(|host| host.into_owned()).collect();
        Ok(world)
    }

    /// `rank 1 on host`, for messages.
    pub fn name(&self, rank: usize) -> String {
        let host = self.hosts.get(rank).map_or("an unknown host", |host| host);
        format!("rank {rank} on {host}")
    }

    /// A communicator of its own, whose messages do not meet others.
    pub fn duplicate(&self) -> Self {
        Self {
            comm: self.comm.duplicate(),
            rank: self.rank,
            size: self.size,
            local: self.local,
            hosts: self.hosts.clone(),
            progress: Progress::new(),
        }
    }

    /// Ends all ranks.
    pub fn abort(&self) -> ! {
        // mpirun has to forward what was printed before it ends the run.
        std::thread::sleep(Duration::from_millis(200));
        // Where mpirun cannot be reached, MPI may wait for it.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(5));
            std::process::exit(1);
        });
        self.comm.abort(1)
    }

    /// Sends and returns when `data` may change.
    pub fn send<T: Equivalence>(&self, to: usize, tag: Tag, data: &[T])
    where
        [T]: mpi::datatype::Buffer,
    {
        scope(|scope| {
            let process = self.comm.process_at_rank(to as i32);
            let mut request = process.immediate_send_with_tag(scope, data, tag);
            let pause = Pause::new();
            while let Err(pending) = request.test() {
                request = pending;
                pause.wait();
            }
        });
    }

    /// Receives the next message with this tag, from one rank or from any, into `buffer`. Returns the sender.
    pub fn receive(
        &self,
        from: Option<usize>,
        tag: Tag,
        buffer: &mut Vec<u8>,
        phase: &'static str,
    ) -> usize {
        let pause = Pause::new();
        loop {
            if let Some(sender) = self.try_receive(from, tag, buffer) {
                self.progress.tick(phase);
                return sender;
            }
            self.progress.tick(phase);
            pause.wait();
        }
    }

    /// Receives a message with this tag if one has arrived.
    pub fn try_receive(
        &self,
        from: Option<usize>,
        tag: Tag,
        buffer: &mut Vec<u8>,
    ) -> Option<usize> {
        let found = match from {
            Some(from) => {
                let process = self.comm.process_at_rank(from as i32);
                process.immediate_matched_probe_with_tag(tag)
            }
            None => {
                let any = self.comm.any_process();
                any.immediate_matched_probe_with_tag(tag)
            }
        };
        let (message, status) = found?;
        let bytes = status.count(u8::equivalent_datatype());
        buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
        message.matched_receive_into(&mut buffer[..]);
        usize::try_from(status.source_rank()).ok()
    }

    /// [`receive`](Self::receive) into a buffer of its own.
    pub fn message(&self, from: Option<usize>, tag: Tag, phase: &'static str) -> Message {
        let mut bytes = Vec::new();
        let from = self.receive(from, tag, &mut bytes, phase);
        Message { from, bytes }
    }

    /// Collects `mine` of all ranks in `all`, which has room for them, in the order of ranks.
    pub fn all_gather(&self, mine: &[u8], all: &mut [u8], phase: &'static str) {
        scope(|scope| {
            let mut request = self.comm.immediate_all_gather_into(scope, mine, all);
            let pause = Pause::new();
            while let Err(pending) = request.test() {
                request = pending;
                self.progress.tick(phase);
                pause.wait();
            }
        });
        self.progress.tick(phase);
    }

    /// The bytes of every rank, which may differ in length.
    pub fn exchange(&self, mine: &[u8], phase: &'static str) -> Vec<Vec<u8>> {
        let mut lengths = vec![0; 8 * self.size];
        self.all_gather(&(mine.len() as u64).to_le_bytes(), &mut lengths, phase);
        let length = |bytes: &[u8]| bytes.iter().rev().fold(0usize, |n, b| n << 8 | *b as usize);
        let lengths: Vec<usize> = lengths.chunks_exact(8).map(length).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0).max(1);
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0; longest * self.size];
        self.all_gather(&padded, &mut all, phase);
        let parts = all.chunks_exact(longest).zip(lengths);
        parts
            .map(|(part, length)| part[..length].to_vec())
            .collect()
    }

    /// Waits for all ranks.
    pub fn barrier(&self, phase: &'static str) {
        self.exchange(&[], phase);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_main_thread_makes_progress() {
        let progress = Progress::new();
        std::thread::scope(|scope| {
            scope.spawn(|| progress.tick("another thread"));
        });
        assert_eq!(progress.age().0, "start");
        progress.tick("computing");
        std::thread::sleep(Duration::from_millis(5));
        let (phase, age) = progress.age();
        assert!(phase == "computing" && age >= Duration::from_millis(5));
        progress.long("loading");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(progress.age(), ("loading", Duration::ZERO));
    }
}
