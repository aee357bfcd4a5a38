//! The kernels of a profile, as a table.

use crate::device::KernelTime;

/// Prints the kernels that some passes ran, per pass, slowest first.
pub fn print(kernels: &[KernelTime], passes: usize) {
    let passes = passes as f64;
    let all: f64 = kernels.iter().map(|k| k.seconds).sum();
    let count: u64 = kernels.iter().map(|k| k.times).sum();
    println!(
        "{:<8} {:>9} {:>9} {:>6}  kernel",
        "profile", "times", "us", "%"
    );
    let row = |times: u64, seconds: f64, name: &str| {
        let (us, share) = (seconds * 1e6 / passes, 100. * seconds / all);
        let times = times as f64 / passes;
        println!("{:<8} {times:>9.1} {us:>9.1} {share:>6.1}  {name}", "");
    };
    row(count, all, "all");
    for k in kernels {
        row(k.times, k.seconds, &k.kernel);
    }
}
