//! A failing graph as a program that reproduces the failure.

use std::fmt::Write;

use anyhow::Result;
use candle_core::Tensor;

use crate::bound::{floats, ints};
use crate::check::Kind;
use crate::graph::{Call, Graph, Source};
use crate::op::Row;

fn literal(v: f64) -> String {
    match v {
        v if v.is_nan() => "f64::NAN".into(),
        v if v.is_infinite() && v > 0. => "f64::INFINITY".into(),
        v if v.is_infinite() => "f64::NEG_INFINITY".into(),
        v => format!("{v:?}"),
    }
}

fn sizes(list: &[usize]) -> String {
    match list {
        [] => "&[0usize; 0][..]".into(),
        [first, rest @ ..] => {
            let rest: String = rest.iter().map(|n| format!(", {n}")).collect();
            format!("&[{first}usize{rest}][..]")
        }
    }
}

fn leaf(t: &Tensor) -> Result<String> {
    let (kind, values) = match t.dtype().is_float() {
        true => (
            "f64",
            floats(t)?.into_iter().map(literal).collect::<Vec<_>>(),
        ),
        false => ("i64", ints(t)?.iter().map(i64::to_string).collect()),
    };
    let (values, dims) = (values.join(", "), sizes(t.dims()));
    let cast = format!("to_dtype(DType::{:?})", t.dtype());
    Ok(format!(
        "Tensor::from_vec::<_, {kind}>(vec![{values}], {dims}, &Device::Cpu)?.{cast}?.to_device(d)"
    ))
}

/// The row's text with its operands and parameters filled in.
fn expression(row: &Row, call: &Call) -> String {
    let text = row.text.trim_start_matches("|c|");
    // Long texts have several lines.
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (i, arg) in call.args.iter().enumerate() {
        text = text.replace(&format!("c.x[{i}]"), &format!("x{arg}"));
    }
    for (i, u) in call.u.iter().enumerate() {
        text = text.replace(&format!("c.u[{i}]"), &u.to_string());
    }
    for (i, f) in call.f.iter().enumerate() {
        text = text.replace(&format!("c.f[{i}]"), &format!("({}f64)", literal(*f)));
    }
    let all: Vec<String> = call.args.iter().map(|a| format!("x{a}.clone()")).collect();
    text.replace("c.x", &format!("&[{}]", all.join(", ")))
        .replace("c.u", &sizes(&call.u))
        .replace("c.to", &format!("DType::{:?}", call.to))
}

/// The gradients of a weighted sum of the failing node; its operands are variables.
fn gradients(graph: &Graph, failing: usize) -> String {
    let mut out = format!(
        "    let n = x{failing}.elem_count();
    let w: Vec<f64> = (0..n).map(|i| (i % 7) as f64 * 0.5 - 1.5).collect();
    let w = Tensor::from_vec(w, x{failing}.shape(), &Device::Cpu)?.to_dtype(x{failing}.dtype())?.to_device(d)?;
    let grads = (x{failing} * w)?.sum_all()?.backward()?;
"
    );
    for a in graph.args(failing) {
        out += &format!("    println!(\"gradient of x{a}: {{:?}}\", grads.get(&x{a}).map(Tensor::to_string));\n");
    }
    out + &format!("    x{}.to_device(&Device::Cpu)\n", graph.args(failing)[0])
}

const MAIN: &str = "}

fn main() -> Result<()> {
    for d in [Device::Cpu, Device::new_webgpu(0)?] {
        match run(&d) {
            Ok(x) => println!(\"{x}\"),
            Err(e) => println!(\"error: {e}\"),
        }
    }
    Ok(())
}
";

/// A program that prints the failing node as the CPU and as the device compute it.
pub fn program(graph: &Graph, failing: usize, kind: Kind) -> Result<String> {
    let mut out = String::from("use candle_core::{DType, Device, Result, Tensor};\n\n");
    out.push_str("fn run(d: &Device) -> Result<Tensor> {\n");
    for (at, node) in graph.nodes.iter().enumerate() {
        let text = match &node.source {
            Source::Leaf(t) if kind == Kind::Gradient && t.dtype().is_float() => {
                format!(
                    "candle_core::Var::from_tensor(&{}?)?.into_inner()",
                    leaf(t)?
                )
            }
            Source::Leaf(t) => leaf(t)? + "?",
            Source::Op(row, call) => expression(row, call) + "?",
        };
        writeln!(out, "    let x{at} = {text};")?;
    }
    match kind {
        Kind::Gradient => out.push_str(&gradients(graph, failing)),
        _ => writeln!(out, "    x{failing}.to_device(&Device::Cpu)")?,
    }
    out.push_str(MAIN);
    Ok(out)
}
