//! Runs an op on the device with layouts drawn from the input. A layout that exceeds its storage must be rejected, and a result that
//! is too large must be an error. Everything else must match plain loops over host memory bit for bit.

use std::sync::OnceLock;

use candle_webgpu::{DType, Device, Error, Result, Value, View, BINDING_VAR, MEMORY_VAR};
use half::f16;

use super::draw::{Draw, Layout};

type Work = fn(&mut Case<'_>) -> Option<()>;

const WORK: [Work; 12] = [
    copy, cast, add, choose, fold, select, gather, scatter, copy_into, matmul, pool, argsort,
];

const DTYPES: [DType; 4] = [DType::F32, DType::U8, DType::F16, DType::I64];
/// The dtypes in which the sums of these tests are exact.
const WIDE: [DType; 2] = [DType::F32, DType::I64];
const SIZES: [usize; 12] = [1, 2, 3, 5, 8, 31, 64, 257, 1000, 4096, 9000, 20_001];

/// The most elements that are compared, and a number of elements that exceeds all memory.
const MOST: usize = 1 << 13;
const ABSURD: usize = 1 << 33;

/// Whether an op is small enough to run, or so large that it fails at once.
fn decided(shown: &Layout) -> bool {
    let count = shown.count().unwrap_or(usize::MAX);
    !(MOST + 1..ABSURD).contains(&count)
}

/// A normal device, and one that splits tensors of more than 32 KiB.
fn devices() -> &'static [Device; 2] {
    static DEVICES: OnceLock<[Device; 2]> = OnceLock::new();
    DEVICES.get_or_init(|| {
        std::env::set_var(MEMORY_VAR, "64M");
        let whole = Device::separate(0).expect("an adapter (a software one will do)");
        std::env::set_var(BINDING_VAR, "32768");
        let cut = Device::separate(0).expect("a second device");
        std::env::remove_var(BINDING_VAR);
        std::env::remove_var(MEMORY_VAR);
        [whole, cut]
    })
}

pub fn run(data: &[u8]) {
    let mut draw = Draw(data);
    let device = &devices()[draw.below(2)];
    let work = draw.pick(&WORK);
    // `None`: the input does not describe a valid test.
    let _ = work(&mut Case { device, draw });
}

/// The same elements on the device and on the host: small integers, which every dtype represents.
struct Array {
    dtype: DType,
    host: Vec<i64>,
    value: Value,
}

impl Array {
    /// A view of it, or `None` if the layout exceeds it. The device must agree.
    fn view<'a>(&'a self, l: &'a Layout) -> Option<View<'a>> {
        let layout = (&l.dims[..], &l.strides[..], l.offset);
        let view = View::new("fuzz", &self.value, self.dtype, layout);
        let room = self.host.len();
        assert_eq!(view.is_ok(), l.holds(room), "{l:?} of {room} elements");
        view.ok()
    }

    fn at(&self, places: &[usize]) -> Vec<i64> {
        places.iter().map(|i| self.host[*i]).collect()
    }
}

fn encode(dtype: DType, host: &[i64]) -> Vec<u8> {
    let each = |v: &i64| match dtype {
        DType::U8 => vec![*v as u8],
        DType::U32 => (*v as u32).to_le_bytes().into(),
        DType::F16 => f16::from_f64(*v as f64).to_le_bytes().into(),
        DType::F32 => (*v as f32).to_le_bytes().into(),
        _ => v.to_le_bytes().to_vec(),
    };
    host.iter().flat_map(each).collect()
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<i64> {
    let each = |b: &[u8]| match (dtype, b) {
        (DType::U32, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
        (DType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]) as i64,
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64() as i64,
        (DType::U8, &[a]) => a.into(),
        (_, b) => b.try_into().map_or(i64::MIN, i64::from_le_bytes),
    };
    bytes.chunks(dtype.size()).map(each).collect()
}

struct Case<'a> {
    device: &'a Device,
    draw: Draw<'a>,
}

impl Case<'_> {
    fn array(&mut self, dtype: DType) -> Array {
        let size = self.draw.pick(&SIZES) as i64;
        self.filled(dtype, (0..size).map(|i| i * 7919 % 23).collect())
    }

    fn filled(&self, dtype: DType, host: Vec<i64>) -> Array {
        let value = self.device.upload(&encode(dtype, &host));
        Array {
            dtype,
            host,
            value: value.expect("memory for a few elements"),
        }
    }

    /// An array and a layout of it, with either few enough elements to compare or absurdly many.
    fn operand(&mut self, dtypes: &[DType]) -> Option<(Array, Layout)> {
        let dtype = self.draw.pick(dtypes);
        let x = self.array(dtype);
        let l = Layout::new(&mut self.draw, x.host.len());
        x.view(&l)?;
        let absurd = l.dims.iter().any(|d| *d >= ABSURD);
        (absurd || l.count()? <= MOST).then_some((x, l))
    }

    /// Another operand with the given dims.
    fn beside(&mut self, dtype: DType, dims: &[usize], distinct: bool) -> Option<(Array, Layout)> {
        let x = self.array(dtype);
        let l = Layout::again(dims, &mut self.draw, x.host.len(), distinct)?;
        x.view(&l).map(|_| ())?;
        Some((x, l))
    }

    /// Compares the result of an op. An error is correct for layouts that no kernel supports.
    fn check(
        &self,
        y: Result<Value>,
        dtype: DType,
        shown: &Layout,
        expected: impl FnOnce() -> Vec<i64>,
    ) {
        let small = shown.count().is_some_and(|n| n <= MOST);
        let y = match y {
            Ok(y) if small => y,
            Err(_) if !small => return,
            Err(Error::Invalid { message, .. }) if message.contains("do not merge") => return,
            other => panic!("{shown:?}: {other:?}"),
        };
        let got = self
            .device
            .read(&y, 0, y.bytes())
            .map(|b| decode(dtype, &b));
        let expected = expected();
        match got {
            Ok(got) => assert!(got == expected, "{shown:?}: {got:?}, not {expected:?}"),
            Err(e) => panic!("{shown:?}: {e}"),
        }
    }

    /// Compares the whole array that an op wrote to.
    fn check_all(&self, done: Result<()>, y: &Array, shown: &Layout, expected: Vec<i64>) {
        self.check(done.map(|()| y.value.clone()), y.dtype, shown, || expected);
    }

    /// Ids for a dim of `size`, rarely with one out of range.
    fn ids(&mut self, size: usize) -> Array {
        let beyond = self.draw.below(16) == 15;
        let (dtype, length) = (self.draw.pick(&[DType::U32, DType::U8, DType::I64]), 64);
        let most = if beyond { size + 1 } else { size.max(1) };
        self.filled(
            dtype,
            (0..length)
                .map(|i| (i * 31 % most.min(251)) as i64)
                .collect(),
        )
    }

    /// [`Self::check`] for ids that may be out of range, which the next readback reports.
    fn check_ids(
        &self,
        y: Result<Value>,
        (dtype, ids, size): (DType, &[i64], usize),
        shown: &Layout,
        expected: impl FnOnce() -> Vec<i64>,
    ) {
        // More rows than a kernel can count.
        if size >= ABSURD && y.is_err() {
            return;
        }
        if ids.iter().all(|id| *id < size as i64) {
            return self.check(y, dtype, shown, expected);
        }
        let read = y.and_then(|y| self.device.read(&y, 0, y.bytes()));
        match read {
            Err(Error::IndexOutOfRange { .. }) => {}
            Err(Error::Invalid { message, .. }) if message.contains("do not merge") => {}
            other => panic!("ids {ids:?} of {size}: {other:?}"),
        }
    }
}

fn copy(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let y = case.device.contiguous(x.view(&l)?);
    case.check(y, x.dtype, &l, || x.at(&l.places()));
    Some(())
}

fn cast(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let to = case.draw.pick(&DTYPES);
    let y = case.device.cast(x.view(&l)?, to);
    case.check(y, to, &l, || x.at(&l.places()));
    Some(())
}

fn add(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let (z, r) = case.beside(x.dtype, &l.dims, false)?;
    let y = case.device.binary("badd", x.view(&l)?, z.view(&r)?);
    case.check(y, x.dtype, &l, || {
        let (a, b) = (x.at(&l.places()), z.at(&r.places()));
        a.iter().zip(b).map(|(a, b)| a + b).collect()
    });
    Some(())
}

fn choose(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let (z, r) = case.beside(x.dtype, &l.dims, false)?;
    let (c, k) = case.beside(DType::U8, &l.dims, false)?;
    let y = case
        .device
        .where_cond(c.view(&k)?, x.view(&l)?, z.view(&r)?);
    case.check(y, x.dtype, &l, || {
        let of = [x.at(&l.places()), z.at(&r.places())];
        let places = k.places().into_iter().enumerate();
        places
            .map(|(i, at)| of[usize::from(c.host[at] == 0)][i])
            .collect()
    });
    Some(())
}

fn fold(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&WIDE)?;
    let rank = l.dims.len();
    let op = case.draw.pick(&["sum", "max", "argmax"]);
    let dims = match op {
        "sum" => case.draw.some(rank),
        _ if rank == 0 || l.dims.contains(&0) => return None,
        _ => vec![case.draw.below(rank)],
    };
    let (kept, folded): (Vec<_>, Vec<_>) = (0..rank).partition(|d| !dims.contains(d));
    let of = |order: &[usize], offset| Layout {
        dims: order.iter().map(|d| l.dims[*d]).collect(),
        strides: order.iter().map(|d| l.strides[*d]).collect(),
        offset,
    };
    // An empty operand may have many sums.
    let shown = match l.count() {
        Some(0) => of(&kept, 0),
        _ => l.clone(),
    };
    if !decided(&shown) {
        return None;
    }
    let y = case.device.reduce(op, x.view(&l)?, &dims);
    let dtype = if op == "argmax" { DType::U32 } else { x.dtype };
    case.check(y, dtype, &shown, || {
        let rows = of(&kept, l.offset).places().into_iter();
        let fold = |at| {
            let row = x.at(&of(&folded, at).places());
            let most = row.iter().max();
            match op {
                "sum" => row.iter().sum(),
                "max" => most.copied().unwrap_or(0),
                _ => row.iter().position(|v| Some(v) == most).unwrap_or(0) as i64,
            }
        };
        rows.map(fold).collect()
    });
    Some(())
}

/// The elements of `x` that `ids` select. `at` has their offsets for id 0; an id adds `step`.
fn picked(x: &Array, ids: &[i64], at: &Layout, step: usize) -> Vec<i64> {
    let places = at.places();
    let of = places
        .iter()
        .zip(ids)
        .map(|(at, id)| at + *id as usize * step);
    x.at(&of.collect::<Vec<_>>())
}

fn select(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let d = case.draw.below(l.dims.len().max(1));
    let (size, step) = (*l.dims.get(d)?, l.strides[d]);
    let ids = case.ids(size);
    let length = case.draw.below(12);
    let row = Layout::again(&[length], &mut case.draw, ids.host.len(), false)?;
    let shown = l.with(d, length, 0);
    if shown.count()? > MOST {
        return None;
    }
    let y = case.device.index_select(x.view(&l)?, ids.view(&row)?, d);
    let along = Layout {
        dims: shown.dims.clone(),
        strides: vec![0; shown.dims.len()],
        offset: row.offset,
    };
    let id = ids.at(&along.with(d, length, row.strides[0]).places());
    case.check_ids(y, (x.dtype, &id, size), &shown, || {
        picked(&x, &id, &shown, step)
    });
    Some(())
}

fn gather(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let d = case.draw.below(l.dims.len().max(1));
    let (size, step) = (*l.dims.get(d)?, l.strides[d]);
    let ids = case.ids(size);
    let mut shown = l.with(d, case.draw.below(9), 0);
    let fewer = case.draw.some(l.dims.len());
    for e in fewer.into_iter().filter(|e| *e != d) {
        shown.dims[e] /= 2;
    }
    if shown.count()? > MOST {
        return None;
    }
    let of = Layout::again(&shown.dims, &mut case.draw, ids.host.len(), false)?;
    let y = case.device.gather(x.view(&l)?, ids.view(&of)?, d);
    let id = ids.at(&of.places());
    case.check_ids(y, (x.dtype, &id, size), &shown, || {
        picked(&x, &id, &shown, step)
    });
    Some(())
}

fn scatter(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&WIDE)?;
    let d = case.draw.below(l.dims.len().max(1));
    let size = 1 + case.draw.below(9);
    l.dims
        .get(d)
        .filter(|_| l.count().is_some_and(|n| n <= MOST))?;
    let ids = case.ids(size);
    let of = Layout::again(&l.dims, &mut case.draw, ids.host.len(), false)?;
    let (mut z, to) = case.beside(x.dtype, &l.with(d, size, 0).dims, true)?;
    let add = case.draw.below(2) == 1;
    let views = (z.view(&to)?, ids.view(&of)?, x.view(&l)?);
    let done = match add {
        true => case.device.scatter_add(views.0, views.1, views.2, d),
        false => case.device.scatter_set(views.0, views.1, views.2, d),
    };
    let id = ids.at(&of.places());
    if id.iter().all(|id| *id < size as i64) {
        let along = to.with(d, l.dims[d], 0).places();
        for ((at, id), from) in along.iter().zip(&id).zip(l.places()) {
            let at = at + *id as usize * to.strides[d];
            z.host[at] = x.host[from] + if add { z.host[at] } else { 0 };
        }
    }
    let y = done.map(|()| z.value.clone());
    case.check_ids(y, (x.dtype, &id, size), &l, || z.host.clone());
    Some(())
}

fn copy_into(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let (mut z, to) = case.beside(x.dtype, &l.dims, true)?;
    let done = case.device.copy_into(x.view(&l)?, z.view(&to)?);
    for (from, at) in l.places().into_iter().zip(to.places()) {
        z.host[at] = x.host[from];
    }
    case.check_all(done, &z, &l, z.host.clone());
    Some(())
}

fn matmul(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&[DType::F32])?;
    let outer = l.dims.len().checked_sub(2)?;
    let [m, k] = [l.dims[outer], l.dims[outer + 1]];
    let n = 1 + case.draw.below(20);
    let mut dims = l.dims.clone();
    (dims[outer], dims[outer + 1]) = (k, n);
    let (z, r) = case.beside(DType::F32, &dims, false)?;
    let batch: usize = l.dims[..outer].iter().product();
    let shown = l.with(outer + 1, n, 0);
    // Long sums are split into too many dispatches to wait for.
    if k > MOST || !decided(&shown) || r.count()? > 4 * MOST && shown.count()? <= MOST {
        return None;
    }
    let y = case
        .device
        .matmul(x.view(&l)?, z.view(&r)?, (batch, m, n, k));
    case.check(y, DType::F32, &shown, || {
        let (a, b) = (x.at(&l.places()), z.at(&r.places()));
        let dot = |i: usize| {
            let (row, batch, column) = (i / n, i / (n * m), i % n);
            (0..k)
                .map(|j| a[row * k + j] * b[(batch * k + j) * n + column])
                .sum()
        };
        (0..batch * m * n).map(dot).collect()
    });
    Some(())
}

fn pool(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let [_, _, h, w] = l.dims[..] else {
        return None;
    };
    let taps = [0; 2].map(|_| case.draw.below(5));
    let stride = [0; 2].map(|_| case.draw.pick(&[1, 2, 3, 0, usize::MAX]));
    let steps = |size: usize, i: usize| {
        let room = size.checked_sub(taps[i]).filter(|_| taps[i] > 0)?;
        Some(room.checked_div(stride[i])? + 1)
    };
    let (Some(out_h), Some(out_w)) = (steps(h, 0), steps(w, 1)) else {
        let y = case.device.max_pool2d(x.view(&l)?, taps, stride);
        assert!(y.is_err(), "{l:?} by {taps:?}, {stride:?}");
        return None;
    };
    let step = |d: usize, i: usize| l.strides[d].wrapping_mul(stride[i]);
    let shown = l.with(2, out_h, step(2, 0)).with(3, out_w, step(3, 1));
    if !decided(&shown) {
        return None;
    }
    let y = case.device.max_pool2d(x.view(&l)?, taps, stride);
    case.check(y, x.dtype, &shown, || {
        let window = |at: usize| {
            let taps = Layout {
                dims: taps.to_vec(),
                strides: l.strides[2..].to_vec(),
                offset: at,
            };
            x.at(&taps.places()).into_iter().max().unwrap_or(0)
        };
        shown.places().into_iter().map(window).collect()
    });
    Some(())
}

fn argsort(case: &mut Case<'_>) -> Option<()> {
    let (x, l) = case.operand(&DTYPES)?;
    let length = *l.dims.last()?;
    let up = case.draw.below(2) == 1;
    let y = case.device.argsort(x.view(&l)?, length, up);
    if length == 0 {
        return None;
    }
    case.check(y, DType::U32, &l, || {
        let row = |row: &[i64]| {
            let mut order: Vec<usize> = (0..length).collect();
            match up {
                true => order.sort_by_key(|i| row[*i]),
                false => order.sort_by_key(|i| std::cmp::Reverse(row[*i])),
            }
            order.into_iter().map(|i| i as i64).collect::<Vec<_>>()
        };
        x.at(&l.places()).chunks(length).flat_map(row).collect()
    });
    Some(())
}
