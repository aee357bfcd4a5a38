//! The training text, and random pieces of it.

use candle_core::{Device, Tensor};
use candle_examples::bundle::ALICE;
use candle_examples::fetch::{cache_dir, Fetcher};
use candle_examples::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// The default text: needs no download, and the model learns words within a minute.
const PASSAGE: &str = include_str!("passage.txt");

/// A text as ids: indices into the sorted list of its letters.
pub struct Text {
    letters: Vec<char>,
    ids: Vec<u32>,
}

impl Text {
    pub fn open(source: Option<&str>) -> Result<Self> {
        let path = match source {
            None => return Ok(Self::new(PASSAGE)),
            Some("alice") => Fetcher::new(cache_dir())?.get(&ALICE)?,
            Some(path) => Path::new(path).to_path_buf(),
        };
        let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
        Ok(Self::new(&String::from_utf8_lossy(&bytes)))
    }

    fn new(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        let id = |c: char| letters.binary_search(&c).unwrap_or(0) as u32;
        let ids = text.chars().map(id).collect();
        Self { letters, ids }
    }

    pub fn vocab(&self) -> usize {
        self.letters.len()
    }

    /// A piece needs one letter more than it has inputs.
    pub fn check_context(&self, context: usize) -> Result<()> {
        if context < self.ids.len() {
            return Ok(());
        }
        Err(Error::Unsupported {
            what: format!(
                "a context of {context} letters with a text of {} letters",
                self.ids.len()
            ),
        })
    }

    /// The first letter of the text, with which a sample starts.
    pub fn first(&self) -> Option<u32> {
        self.ids.first().copied()
    }

    pub fn decode(&self, ids: &[u32]) -> String {
        let letters = ids.iter().filter_map(|&id| self.letters.get(id as usize));
        letters.collect()
    }

    /// Inputs and targets (batch, context); each target is the letter after its input.
    pub fn pieces(
        &self,
        [batch, context]: [usize; 2],
        random: &mut Random,
        device: &Device,
    ) -> candle_core::Result<(Tensor, Tensor)> {
        let starts = self.ids.len() - context;
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..batch {
            let start = random.below(starts);
            inputs.extend_from_slice(&self.ids[start..start + context]);
            targets.extend_from_slice(&self.ids[start + 1..start + 1 + context]);
        }
        let tensor = |ids| Tensor::from_vec(ids, (batch, context), device);
        Ok((tensor(inputs)?, tensor(targets)?))
    }
}

/// splitmix64, on the host, so that all devices get the same numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// From -1 to 1.
    pub fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.
    }
}
