//! Compilers run in processes of their own, since drivers crash: a worker reads the number of a shader from stdin and answers with a line.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::compiler::{Compiler, Outcome, Target};
use crate::found::Found;
use crate::shader::Shader;

/// A compiler that takes longer has not returned.
const LIMIT: Duration = Duration::from_secs(120);

/// What a worker says before its first answer: `ready` and the compiler's name.
const READY: &str = "ready\t";

/// Serves a parent process until stdin ends.
pub fn serve(target: &Target, shaders: &[Shader]) -> Result<()> {
    let compiler = Compiler::open(target)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}{}", compiler.name())?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        let at: usize = line?.parse().context("not a number")?;
        let shader = shaders.get(at).context("no such shader")?;
        let compiled = match target.suits(shader) {
            true => compiler.compile(shader),
            false => Ok(None),
        };
        let outcome = match compiled {
            Ok(Some(statistics)) => Outcome::Compiled(statistics),
            Ok(None) => Outcome::NotApplicable,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        writeln!(out, "{outcome}")?;
        out.flush()?;
    }
    Ok(())
}

struct Worker {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    name: String,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a worker")?;
        let requests = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut worker = Worker {
            child,
            requests,
            answers,
            name: String::new(),
        };
        let first = worker.answers.recv_timeout(LIMIT);
        let first = first.ok().context("the compiler cannot be opened")?;
        let name = first.strip_prefix(READY);
        worker.name = name
            .with_context(|| format!("a worker said {first:?}"))?
            .to_owned();
        Ok(worker)
    }

    /// None if the process ended or did not answer; it is of no use then.
    fn compile(&mut self, at: usize) -> Result<Option<Outcome>> {
        if writeln!(self.requests, "{at}").is_err() {
            return Ok(None);
        }
        match self.answers.recv_timeout(LIMIT) {
            Ok(line) => line.parse().map(Some),
            Err(_) => Ok(None),
        }
    }

    fn end(mut self) -> String {
        match self.answers.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) => return format!("no answer in {} s", LIMIT.as_secs()),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {}
        }
        self.child
            .wait()
            .map_or_else(|e| e.to_string(), |status| status.to_string())
    }
}

/// What the threads of [`compile_all`] have done.
struct Progress {
    compiler: String,
    outcomes: Vec<Option<Outcome>>,
    found: Found,
    /// When progress was last printed.
    said: Instant,
}

/// Compiles all shaders on all cores, for `seconds` at most. Returns the compiler's name and the outcomes, in order.
pub fn compile_all(
    target: &Target,
    dir: &Path,
    shaders: &[(usize, Shader)],
    found: Found,
    seconds: Option<u64>,
) -> Result<(String, Vec<Option<Outcome>>)> {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let progress = Mutex::new(Progress {
        compiler: String::new(),
        outcomes: vec![None; shaders.len()],
        found,
        said: start,
    });
    let late = || seconds.is_some_and(|most| start.elapsed().as_secs() >= most);
    let run = || -> Result<()> {
        let mut idle = None;
        loop {
            let mut worker = match idle.take() {
                Some(worker) => worker,
                None => Worker::start(&mut target.command(dir)?)?,
            };
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((number, shader)) = shaders.get(at).filter(|_| !late()) else {
                return Ok(());
            };
            let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
            let earlier = lock().found.get(shader, &worker.name)?;
            let answer = match &earlier {
                Some(_) => earlier.clone(),
                None => worker.compile(*number)?,
            };
            let mut progress = lock();
            progress.compiler.clone_from(&worker.name);
            let outcome = match answer {
                Some(outcome) => {
                    idle = Some(worker);
                    outcome
                }
                None => Outcome::Crashed(worker.end()),
            };
            if earlier.is_none() {
                let compiler = progress.compiler.clone();
                progress.found.add(shader, &compiler, &outcome)?;
            }
            progress.outcomes[at] = Some(outcome);
            if progress.said.elapsed() > Duration::from_secs(10) {
                progress.said = Instant::now();
                let seconds = start.elapsed().as_secs();
                eprintln!("  {target}: {} of {} in {seconds} s", at + 1, shaders.len());
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut results = workers.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread panicked"),
        });
        results.try_for_each(|result| result)
    })?;
    let done = progress
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let seconds = start.elapsed().as_secs();
    let reached = done.outcomes.iter().flatten().count();
    if seconds > 10 {
        eprintln!(
            "  {target}: ended at {reached} of {} in {seconds} s",
            shaders.len()
        );
    }
    Ok((done.compiler, done.outcomes))
}
