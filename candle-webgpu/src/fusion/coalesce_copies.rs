//! Consecutive copies at equal distances become one. The recorder joins them ([`crate::recorder::copy_run`]); when their batch is executed,
//! [`dispatch_joined`](crate::kernel::copy::dispatch_joined) selects the kernel.

use crate::fusion::rule::{Apply, Enabled, Exact, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "coalesce_copies",
    about: "consecutive copies at equal distances: one copy",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[],
    apply: Apply::Recording,
};
