//! Files that JavaScript reads, in pieces: the wasm heap never contains more of a file than one tensor.

use std::io::{self, Read, Seek, SeekFrom};

use js_sys::Uint8Array;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen]
extern "C" {
    /// A file. `read(from, to)` returns those of its bytes at once, so a page must read in a worker.
    pub type JsFile;

    #[wasm_bindgen(method, getter, structural)]
    fn size(this: &JsFile) -> f64;

    #[wasm_bindgen(method, structural, catch)]
    fn read(this: &JsFile, from: f64, to: f64) -> Result<Uint8Array, JsValue>;

    /// The files of a model: those with weights, and others by name.
    pub type JsFiles;

    #[wasm_bindgen(method, getter, structural)]
    pub fn weights(this: &JsFiles) -> Vec<JsFile>;

    #[wasm_bindgen(method, structural)]
    pub fn file(this: &JsFiles, name: &str) -> Option<JsFile>;
}

/// Bytes read at a time for small reads.
const PIECE: u64 = 1 << 20;

/// Larger reads are split into parts of this size, so that JavaScript never holds a whole large tensor.
const MOST: usize = 64 << 20;

pub struct Reader {
    file: JsFile,
    size: u64,
    at: u64,
    /// The bytes read last, and their offset.
    piece: Vec<u8>,
    start: u64,
}

impl Reader {
    pub fn new(file: JsFile) -> Self {
        Self {
            size: file.size() as u64,
            file,
            at: 0,
            piece: Vec::new(),
            start: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The whole file, which must be small.
    pub fn all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn fetch(&self, from: u64, bytes: u64) -> io::Result<Uint8Array> {
        let to = (from + bytes).min(self.size);
        let failed = |error: JsValue| {
            let message = error.dyn_ref::<js_sys::Error>().map(|e| e.message());
            let message = message.map_or_else(|| format!("{error:?}"), String::from);
            io::Error::other(format!("bytes {from} to {to} cannot be read: {message}"))
        };
        let read = self.file.read(from as f64, to as f64).map_err(failed)?;
        match u64::from(read.length()) == to - from {
            true => Ok(read),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.at);
        let wanted = left.min(out.len() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let held = self.start..self.start + self.piece.len() as u64;
        if !held.contains(&self.at) {
            if wanted >= PIECE {
                // Reads directly into the destination.
                let wanted = (wanted as usize).min(MOST);
                self.fetch(self.at, wanted as u64)?
                    .copy_to(&mut out[..wanted]);
                self.at += wanted as u64;
                return Ok(wanted);
            }
            self.piece = self.fetch(self.at, PIECE)?.to_vec();
            self.start = self.at;
        }
        let from = (self.at - self.start) as usize;
        let count = (wanted as usize).min(self.piece.len() - from);
        out[..count].copy_from_slice(&self.piece[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
