//! Ranks that die, hang, lack a file or run something else: all ranks end soon, with an error that names the rank and its host.

use crate::*;
use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

/// The limit for all ranks to end.
const LIMIT: Duration = Duration::from_secs(30);

/// The process of a rank started by this mpirun.
fn process(mpirun: &Child, rank: usize) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|pid: &u32| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}"));
            let status = read("status").unwrap_or_default();
            let parent = format!("PPid:\t{}\n", mpirun.id());
            let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
            let has = |text: &[u8], part: &str| {
                text.windows(part.len())
                    .any(|part_of| part_of == part.as_bytes())
            };
            let variables = read("environ").unwrap_or_default();
            let mut variables = variables.split(|byte| *byte == 0);
            has(&status, &parent) && variables.any(|v| v == variable.as_bytes())
        })
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Waits until `ready`, sends a signal to a rank, and returns what mpirun printed when all ranks have ended.
fn interrupt(mut command: Command, ready: impl Fn() -> bool, rank: usize, name: &str) -> String {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while !ready() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() && start.elapsed() < 2 * LIMIT, "{ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = process(&child, rank).unwrap();
    signal(pid, name);
    let start = Instant::now();
    let mut stderr = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("ranks are still running after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = reader.join().unwrap();
    assert!(!status.success(), "{text}");
    text
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().to_string()
}

const PROMPTS: usize = 30;

/// A job in `dir` that takes some seconds.
fn job(dir: &Path, mode: &str) -> (Vec<String>, PathBuf) {
    let model = tiny::model(dir);
    let prompts = prompts(dir, PROMPTS);
    let output = dir.join(format!("{mode}.jsonl"));
    let args = ["--parallel", mode, "--device", "cpu", "--tokens", "24"];
    let files = [
        "--model",
        text(&model),
        "--input",
        text(&prompts),
        "--output",
        text(&output),
    ];
    let args = args.iter().chain(&files).map(|arg| arg.to_string());
    (args.collect(), output)
}

fn start(args: &[String], more: &[&str]) -> Command {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    cluster(2, &[&args, more].concat())
}

/// A killed rank loses no written row, and --resume computes only the rest, with the same results.
#[test]
fn a_job_goes_on_after_a_rank_was_killed() {
    let _alone = alone();
    let whole = tempfile::tempdir().unwrap();
    let (args, output) = job(whole.path(), "data");
    assert!(start(&args, &[]).output().unwrap().status.success());
    let expected = parse(&std::fs::read_to_string(&output).unwrap());
    assert_eq!(expected.len(), PROMPTS);
    let dir = tempfile::tempdir().unwrap();
    for (mode, rank) in [("data", 1), ("data", 0), ("pipeline", 1), ("tensor", 1)] {
        let (args, output) = job(dir.path(), mode);
        let early = dir.path().join(format!("{mode}.jsonl.early"));
        let _ = std::fs::remove_file(&output);
        let text = interrupt(start(&args, &[]), || lines(&output) >= 3, rank, "-KILL");
        let names = [format!("rank {rank}"), host(), "signal 9".to_string()];
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
        let kept = std::fs::read_to_string(&output).unwrap();
        assert!(
            (3..PROMPTS).contains(&lines(&output)),
            "{} rows",
            lines(&output)
        );
        let again = start(&args, &[]).output().unwrap();
        assert!(stderr(&again).contains("--resume"), "{}", stderr(&again));
        let resumed = start(&args, &["--resume"]).output().unwrap();
        assert!(resumed.status.success(), "{}", stderr(&resumed));
        let finished = std::fs::read_to_string(&output).unwrap();
        let whole = kept.rfind('\n').map_or(0, |end| end + 1);
        assert_eq!(finished[..whole], kept[..whole], "rows were written twice");
        let finished = parse(&finished);
        for key in ["id", "ids", "text"] {
            assert_eq!(each(&finished, key), each(&expected, key), "{mode}: {key}");
        }
        assert!(!early.exists());
    }
}

#[test]
fn a_rank_that_hangs_ends_all() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    for (mode, rank) in [("data", 1), ("pipeline", 0), ("tensor", 1)] {
        let (args, output) = job(dir.path(), mode);
        let _ = std::fs::remove_file(&output);
        let job = start(&args, &["--timeout", "5"]);
        let text = interrupt(job, || lines(&output) >= 1, rank, "-STOP");
        let name = format!("error: rank {rank} on {}: no sign of life for 5 s", host());
        assert!(text.contains(&name), "{text}");
    }
}

/// Rank 1 gets other arguments than rank 0.
fn pair(first: &[&str], second: &[&str]) -> String {
    let mut command = mpirun();
    command.args(["-n", "1", CLUSTER]).args(first);
    command.args([":", "-n", "1", CLUSTER]).args(second);
    let start = Instant::now();
    let output = command.output().unwrap();
    assert!(!output.status.success() && start.elapsed() < LIMIT);
    let text = stderr(&output);
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn ranks_that_cannot_run_together_are_named() {
    let _alone = alone();
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let model = tiny::model(one.path());
    let other = tiny::model(two.path());
    let mut bytes = std::fs::read(&other).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&other, bytes).unwrap();
    let missing = one.path().join("nowhere/model.bin");
    let name = format!("error: rank 1 on {}: ", host());
    for mode in ["data", "pipeline"] {
        let args = |model| {
            vec![
                "--device",
                "cpu",
                "--parallel",
                mode,
                "--model",
                model,
                "words",
            ]
        };
        let good = args(text(&model));
        let text = pair(&good, &args(text(&missing)));
        assert!(text.contains(&name) && text.contains("nowhere"), "{text}");
        let text = pair(&good, &args(crate::text(&other)));
        assert!(text.contains(&format!("{name}a model with hash")), "{text}");
        let text = pair(&good, &[&good[..], &["--tokens", "7"]].concat());
        assert!(text.contains(&format!("{name}options")), "{text}");
        if cfg!(feature = "webgpu") {
            let webgpu = ["--device", "webgpu", "--adapter", "99"];
            let text = pair(&good, &[&webgpu[..], &good[2..]].concat());
            assert!(
                text.contains(&name) && text.contains("matches no adapter"),
                "{text}"
            );
        }
    }
}

#[test]
fn errors_are_messages_and_no_panics() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    let files = ["--device", "cpu", "--model", text(&model)];
    for (args, says) in [
        (&["--input", "nowhere.jsonl"][..], "nowhere.jsonl"),
        (
            &["--parallel", "pipeline", "words"],
            "2 layers leave none for one of 3 ranks",
        ),
        (
            &["--parallel", "pipeline", "--layers", "2", "words"],
            "2 layers leave none",
        ),
        (
            &["--parallel", "tensor", "--task", "embed", "words"],
            "use --parallel data",
        ),
        (&[], "no prompts"),
    ] {
        let output = cluster(3, &[&files, args].concat()).output().unwrap();
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(says), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}
