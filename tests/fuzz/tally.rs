//! Counts of what was drawn, and their printing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::graph::{Expect, Node, Source, Step};
use crate::input::ALL;
use crate::op::OPS;

const EVERY: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Tally {
    pub cases: usize,
    pub failures: usize,
    /// By op and dtype of the first operand.
    drawn: BTreeMap<(&'static str, &'static str), usize>,
    refused: usize,
    told: Duration,
}

impl Tally {
    pub fn count(&mut self, node: &Node, step: &Step) {
        let Source::Op(row, _) = &node.source else {
            return;
        };
        // The dtype of `where_cond` is that of its second operand.
        let of = usize::from(row.name == "where_cond");
        let Some(x) = step.inputs.get(of) else {
            return;
        };
        match node.expect {
            Expect::Value => {
                *self
                    .drawn
                    .entry((row.name, x.dtype().as_str()))
                    .or_default() += 1
            }
            Expect::Error | Expect::Panic(_) => self.refused += 1,
        }
    }

    fn line(&self, elapsed: Duration) -> String {
        let (seconds, ops) = (elapsed.as_secs_f64(), self.drawn.values().sum::<usize>());
        format!(
            "{seconds:.0} s: {} graphs ({:.1}/s), {ops} ops compared, {} op x dtype, {} bad calls refused, {} failed",
            self.cases,
            self.cases as f64 / seconds.max(1e-3),
            self.drawn.len(),
            self.refused,
            self.failures,
        )
    }

    pub fn progress(&mut self, elapsed: Duration) {
        if elapsed >= self.told + EVERY {
            self.told = elapsed;
            println!("{}", self.line(elapsed));
        }
    }

    /// How often each op was drawn for each dtype; `-` where a row does not draw it.
    pub fn print(&self, elapsed: Duration) {
        print!("\n{:26}", "");
        for dtype in ALL {
            print!("{:>8}", dtype.as_str());
        }
        println!();
        for row in OPS.iter() {
            print!("{:26}", row.name);
            for dtype in ALL {
                match self.drawn.get(&(row.name, dtype.as_str())) {
                    None if !row.dtypes.contains(&dtype) => print!("{:>8}", "-"),
                    n => print!("{:>8}", n.copied().unwrap_or(0)),
                }
            }
            println!();
        }
        println!("{}", self.line(elapsed));
    }
}
