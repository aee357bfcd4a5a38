//! Draws layouts from the bytes of an input: either as Candle's narrow, transpose and repeat produce them, or with arbitrary numbers.

/// The remaining bytes of an input, followed by zeros.
pub struct Draw<'a>(pub &'a [u8]);

/// Boundary values.
const WILD: [usize; 20] = [
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    64,
    100,
    257,
    4096,
    65_536,
    1 << 31,
    1 << 32,
    1 << 33,
    1 << 62,
    usize::MAX / 2,
    usize::MAX,
];

impl Draw<'_> {
    fn byte(&mut self) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        match n {
            0..=256 => self.byte() % n,
            _ => (self.byte() << 8 | self.byte()) % n,
        }
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A subset of the numbers below `n`.
    pub fn some(&mut self, n: usize) -> Vec<usize> {
        let bits = self.byte();
        (0..n).filter(|i| bits >> (i % 8) & 1 == 1).collect()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl Layout {
    /// A layout for memory of `room` elements, which it may exceed.
    pub fn new(draw: &mut Draw<'_>, room: usize) -> Self {
        match draw.below(4) {
            0 => Self::wild(draw),
            _ => Self::derived(draw, room),
        }
    }

    fn wild(draw: &mut Draw<'_>) -> Self {
        let rank = draw.below(11);
        let mut numbers = |_| draw.pick(&WILD);
        let dims = (0..rank).map(&mut numbers).collect();
        let strides = (0..rank).map(&mut numbers).collect();
        Layout {
            dims,
            strides,
            offset: numbers(0),
        }
    }

    fn derived(draw: &mut Draw<'_>, room: usize) -> Self {
        let (mut dims, mut size) = (Vec::new(), 1);
        for _ in 0..draw.below(6) {
            let dim = match draw.below(8) {
                0 => draw.pick(&[0, 32, 63, 64, 100, 256, 257, 1000, 9000]),
                _ => 1 + draw.below(9),
            };
            if size * dim <= room {
                size *= dim;
                dims.push(dim);
            }
        }
        let mut layout = Self::ordered(&dims, 0..dims.len());
        if draw.below(2) == 1 {
            layout.offset = draw.below(room - size + 1);
        }
        for _ in 0..draw.below(6) {
            layout.change(draw);
        }
        layout
    }

    /// A layout without gaps. The first dim of `order` is the outermost.
    fn ordered(dims: &[usize], order: impl DoubleEndedIterator<Item = usize>) -> Self {
        let (mut strides, mut step) = (vec![1; dims.len()], 1);
        for d in order.rev() {
            strides[d] = step;
            step *= dims[d];
        }
        Layout {
            dims: dims.to_vec(),
            strides,
            offset: 0,
        }
    }

    fn change(&mut self, draw: &mut Draw<'_>) {
        let rank = self.dims.len();
        let how = draw.below(6);
        // A new dim: either broadcast, or of size 1, whose stride has no effect.
        if rank == 0 || how < 2 {
            let at = draw.below(rank + 1);
            let (dim, stride) = match how {
                0 => (draw.pick(&[0, 2, 3, 4, 64, 1 << 33]), 0),
                _ => (1, draw.pick(&WILD)),
            };
            self.dims.insert(at, dim);
            self.strides.insert(at, stride);
            return;
        }
        let d = draw.below(rank);
        match how {
            2 => {
                let e = draw.below(rank);
                self.dims.swap(d, e);
                self.strides.swap(d, e);
            }
            3 if self.dims[d] > 0 => {
                let from = draw.below(self.dims[d]);
                self.dims[d] = 1 + draw.below(self.dims[d] - from);
                self.offset += from * self.strides[d];
            }
            4 => {
                let by = 2 + draw.below(3);
                self.dims[d] = self.dims[d].div_ceil(by);
                self.strides[d] = self.strides[d].wrapping_mul(by);
            }
            _ => self.strides[d] = 0,
        }
    }

    /// Another layout of these dims, in memory of `room` elements. If `distinct`, no element occurs twice.
    pub fn again(dims: &[usize], draw: &mut Draw<'_>, room: usize, distinct: bool) -> Option<Self> {
        let rank = dims.len();
        let turn = draw.below(rank + 1);
        let order: Vec<usize> = (0..rank).map(|d| (d + turn) % rank).collect();
        let repeated = match distinct {
            true => Vec::new(),
            false => draw.some(rank),
        };
        let (mut strides, mut step) = (vec![0; rank], 1usize + draw.below(2));
        for d in order.into_iter().rev() {
            let wide = step.checked_mul(dims[d]).filter(|n| *n <= room);
            if repeated.contains(&d) || wide.is_none() && !distinct {
                continue;
            }
            strides[d] = step;
            step = wide?;
        }
        Some(Layout {
            dims: dims.to_vec(),
            strides,
            offset: draw.below(room.saturating_sub(step).clamp(1, 1000)),
        })
    }

    /// The number of elements, unless it overflows.
    pub fn count(&self) -> Option<usize> {
        let mut sizes = self.dims.iter();
        sizes.try_fold(1usize, |n, d| n.checked_mul(*d))
    }

    /// Whether all elements are within `room`, computed without overflow.
    pub fn holds(&self, room: usize) -> bool {
        let sizes = self.dims.iter().map(|d| (*d).max(1) as u128);
        let counted = sizes.fold(1u128, u128::saturating_mul) <= usize::MAX as u128;
        let steps = self.dims.iter().zip(&self.strides);
        let last = steps.fold(self.offset as u128, |at, (d, s)| {
            at.saturating_add((*d as u128).saturating_sub(1) * *s as u128)
        });
        counted && (self.dims.contains(&0) || last < room as u128)
    }

    /// The offsets of its elements, in order.
    pub fn places(&self) -> Vec<usize> {
        if self.dims.contains(&0) {
            return Vec::new();
        }
        let mut places = vec![self.offset];
        for (&dim, &stride) in self.dims.iter().zip(&self.strides) {
            let along = |at: &usize| {
                let at = *at;
                (0..dim).map(move |i| at.wrapping_add(i.wrapping_mul(stride)))
            };
            places = places.iter().flat_map(along).collect();
        }
        places
    }

    /// The same layout with another size and stride of dim `d`.
    pub fn with(&self, d: usize, dim: usize, stride: usize) -> Self {
        let mut other = self.clone();
        (other.dims[d], other.strides[d]) = (dim, stride);
        other
    }
}
