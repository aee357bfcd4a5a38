//! A failing graph as a program that shows it.

use std::fmt::Write;

use anyhow::Result;
use candle_core::{DType, Tensor};

use crate::bound::{floats, ints};
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

fn leaf(t: &Tensor) -> Result<String> {
    let (kind, values) = match t.dtype().is_float() {
        true => (
            "f64",
            floats(t)?.into_iter().map(literal).collect::<Vec<_>>(),
        ),
        false => ("i64", ints(t)?.iter().map(i64::to_string).collect()),
    };
    let (values, dims) = (values.join(", "), t.dims());
    let cast = format!("to_dtype(DType::{:?})", t.dtype());
    Ok(format!(
        "Tensor::from_vec::<_, {kind}>(vec![{values}], &{dims:?}[..], &Device::Cpu)?.{cast}?.to_device(d)"
    ))
}

/// The row's text with its operands and parameters in their places.
fn expression(row: &Row, call: &Call) -> String {
    let mut text = row.text.trim_start_matches("|c|").trim().to_owned();
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
        .replace("c.u", &format!("&{:?}[..] as &[usize]", call.u))
        .replace("c.to", &format!("DType::{:?}", call.to))
}

/// A program that prints the failing node as the CPU and as the device compute it.
pub fn program(graph: &Graph, failing: usize) -> Result<String> {
    let mut out = String::from("use candle_core::{DType, Device, Result, Tensor};\n\n");
    out.push_str("fn run(d: &Device) -> Result<Tensor> {\n");
    for (at, node) in graph.nodes.iter().enumerate() {
        let text = match &node.source {
            Source::Leaf(t) => leaf(t)?,
            Source::Op(row, call) => expression(row, call),
        };
        writeln!(out, "    let x{at} = {text}?;")?;
    }
    writeln!(out, "    x{failing}.to_device(&Device::Cpu)\n}}\n")?;
    out.push_str("fn main() -> Result<()> {\n");
    out.push_str("    println!(\"cpu: {}\", run(&Device::Cpu)?);\n");
    out.push_str("    println!(\"webgpu: {}\", run(&Device::new_webgpu(0)?)?);\n    Ok(())\n}\n");
    let used = graph.nodes.iter().any(|n| match &n.source {
        Source::Leaf(_) => true,
        Source::Op(_, call) => call.to != DType::F32,
    });
    Ok(if used {
        out
    } else {
        out.replace("DType, ", "")
    })
}
