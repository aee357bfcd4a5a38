//! Notices ranks that hang. A thread of each rank tells rank 0 that the rank lives, and rank 0 tells the others. A rank that is silent, or
//! whose main thread makes no progress, ends the run. A rank that dies is noticed by mpirun.

use crate::world::{Progress, World};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TAG: mpi::Tag = 1;
const INTERVAL: Duration = Duration::from_millis(500);
/// The message of a rank that ends.
const BYE: &str = "bye";

pub struct Monitor {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Peer {
    rank: usize,
    heard: Instant,
    left: bool,
}

impl Monitor {
    /// Watches the other ranks until [`stop`](Self::stop). All ranks call it together.
    pub fn start(world: &Arc<World>, timeout: Duration) -> Self {
        let own = world.duplicate();
        let (ended, seen) = (Arc::new(AtomicBool::new(false)), world.clone());
        let flag = ended.clone();
        let thread = std::thread::spawn(move || watch(&own, &seen.progress, timeout, &flag));
        Self { ended, thread }
    }

    /// Tells the others that this rank ends, and waits until they end, too.
    pub fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn watch(world: &World, progress: &Progress, timeout: Duration, ended: &AtomicBool) {
    let ranks = match world.rank {
        0 => 1..world.size,
        _ => 0..1,
    };
    let mut peers: Vec<Peer> = ranks
        .map(|rank| Peer {
            rank,
            heard: Instant::now(),
            left: false,
        })
        .collect();
    let mut said_bye = false;
    let mut buffer = Vec::new();
    loop {
        let (phase, age) = progress.age();
        let ends = ended.load(Ordering::Relaxed);
        if !said_bye {
            let message = match ends {
                true => BYE.to_string(),
                false => format!("{} {phase}", age.as_millis()),
            };
            for peer in &peers {
                world.send(peer.rank, TAG, message.as_bytes());
            }
            said_bye = ends;
        }
        for peer in &mut peers {
            while !peer.left
                && world
                    .try_receive(Some(peer.rank), TAG, &mut buffer)
                    .is_some()
            {
                peer.heard = Instant::now();
                let text = String::from_utf8_lossy(&buffer);
                peer.left = text == BYE;
                if let Some(why) = stalled(&text, timeout) {
                    fail(world, peer.rank, &why);
                }
            }
            if !peer.left && peer.heard.elapsed() > timeout {
                let seconds = timeout.as_secs();
                let why = format!(
                    "no sign of life for {seconds} s: it is stopped, or its host is unreachable"
                );
                fail(world, peer.rank, &why);
            }
        }
        if said_bye && peers.iter().all(|peer| peer.left) {
            return;
        }
        // Short steps, so that the end is not late.
        let start = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            if start.elapsed() >= INTERVAL || ended.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// Why a rank with this message ends the run, if it does.
fn stalled(message: &str, timeout: Duration) -> Option<String> {
    let (age, phase) = message.split_once(' ')?;
    let age = Duration::from_millis(age.parse().ok()?);
    let seconds = age.as_secs();
    (age > timeout).then(|| format!("no progress for {seconds} s (last step: {phase})"))
}

fn fail(world: &World, rank: usize, why: &str) -> ! {
    eprintln!("error: {}: {why}", world.name(rank));
    world.abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_without_progress_is_told_from_one_that_works_or_leaves() {
        let timeout = Duration::from_secs(20);
        let why = stalled("21500 computing", timeout);
        assert_eq!(
            why.as_deref(),
            Some("no progress for 21 s (last step: computing)")
        );
        for message in ["19000 computing", "0 waiting for work", BYE, ""] {
            assert_eq!(stalled(message, timeout), None, "{message}");
        }
    }
}
