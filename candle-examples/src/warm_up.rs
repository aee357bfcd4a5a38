//! Runs that are not measured.

use std::time::{Duration, Instant};

/// The clock of an NVIDIA H200 falls to a sixth while it is idle for some seconds, as while weights are made or pipelines are compiled, and
/// rises within 0.4 s of work.
const WARM_UP: Duration = Duration::from_millis(500);

/// Runs `run` that many times, and on until half a second has passed since the first one, which compiles pipelines and fills memory pools.
/// Does nothing for zero.
pub fn warm_up<E>(times: u32, mut run: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    if times == 0 {
        return Ok(());
    }
    run()?;
    let start = Instant::now();
    let mut done = 1;
    while done < times || start.elapsed() < WARM_UP {
        run()?;
        done += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warms_up_by_runs_and_by_time() {
        let count = |times, each| {
            let mut runs = 0;
            let run = || {
                std::thread::sleep(each);
                runs += 1;
                Ok::<(), ()>(())
            };
            warm_up(times, run).map(|()| runs)
        };
        assert_eq!(count(0, Duration::ZERO), Ok(0));
        assert_eq!(count(1, WARM_UP), Ok(2));
        assert_eq!(count(3, WARM_UP), Ok(3));
        assert_eq!(warm_up(2, || Err("failed")), Err("failed"));
    }
}
