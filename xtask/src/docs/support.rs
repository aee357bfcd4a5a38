//! README's table of what works, condensed from docs/SUPPORT.md.

use anyhow::{ensure, Context, Result};

use super::markdown;

/// A table of docs/SUPPORT.md: its section, its dtypes, and each row's ops with the dtypes that WebGPU supports.
struct Table<'a> {
    section: &'a str,
    dtypes: Vec<&'a str>,
    rows: Vec<(&'a str, Vec<&'a str>)>,
}

/// README's table of ops. Ops with the same dtypes share a row.
pub fn table(page: &str) -> Result<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let mut add = |dtypes: String, ops| match groups.iter_mut().find(|g| g.0 == dtypes) {
        Some((_, all)) => all.push(ops),
        None => groups.push((dtypes, vec![ops])),
    };
    let tables = tables(page)?;
    let section = |name: &'static str| {
        let found = tables.iter().find(|table| table.section.starts_with(name));
        found.with_context(|| format!("docs/SUPPORT.md has no section `{name}`"))
    };
    let casts = section("Casts")?;
    let whole = casts.rows.iter().all(|(_, on)| *on == casts.dtypes);
    ensure!(
        whole,
        "docs/SUPPORT.md lacks a cast; README's table assumes all"
    );
    for table in [section("Ops, by")?, section("candle-nn")?] {
        for (ops, on) in &table.rows {
            add(describe(on, &table.dtypes, "dtypes"), ops);
        }
    }
    let dtypes = describe(&casts.dtypes, &casts.dtypes, "dtypes");
    add(dtypes, "casts between any two");
    let quant = section("Quantized")?;
    for (ops, on) in &quant.rows {
        add(describe(on, &quant.dtypes, "quantized dtypes"), ops);
    }
    groups.sort_by_key(|(_, ops)| std::cmp::Reverse(ops.len()));
    let rows = groups
        .into_iter()
        .map(|(dtypes, ops)| vec![dtypes, ops.join("; ")]);
    let heading = ["dtypes", "ops"].map(String::from);
    Ok(markdown(&heading, &rows.collect::<Vec<_>>()))
}

fn describe(on: &[&str], all: &[&str], what: &str) -> String {
    if on == all {
        return format!("all {} {what}: {}", all.len(), all.join(", "));
    }
    on.join(", ")
}

fn tables(page: &str) -> Result<Vec<Table<'_>>> {
    let mut tables = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let mut lines = text.lines().filter(|line| line.starts_with('|'));
        let heading = lines
            .next()
            .with_context(|| format!("`{title}` has no table"))?;
        let dtypes: Vec<&str> = cells(heading).skip(1).collect();
        let rows = lines.skip(1).map(|line| {
            let mut row = cells(line);
            let ops = row.next().unwrap_or_default();
            let on = row
                .zip(&dtypes)
                .filter(|(cell, _)| cell.contains(['W', 'w']));
            (ops, on.map(|(_, dtype)| *dtype).collect())
        });
        tables.push(Table {
            section: title,
            rows: rows.collect(),
            dtypes,
        });
    }
    Ok(tables)
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim().trim_matches('|').split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T\n\n## Ops, by dtype\n\n| | u8 | f32 |\n|---|---|---|\n| copy | `WC` | `WC` |\n| exp | `-C` | `WC` |\n\
        \n## candle-nn\n\n| | u8 | f32 |\n|---|---|---|\n| softmax | `--` | `WC` |\n\n## Casts\n\n| | u8 | f32 |\n|---|---|---|\n\
        | from u8 | `W` | `W` |\n\n## Quantized\n\n| | q4_0 |\n|---|---|\n| matmul | `W` |\n";

    #[test]
    fn ops_of_equal_dtypes_share_a_row() {
        let table = table(PAGE).expect("complete");
        assert!(table.contains("| all 2 dtypes: u8, f32 | copy; casts between any two |"));
        assert!(table.contains("| f32 | exp; softmax |"));
        assert!(table.contains("| all 1 quantized dtypes: q4_0 | matmul |"));
        assert!(super::table(&PAGE.replace("`W` | `W`", "`W` | `-`")).is_err());
    }
}
