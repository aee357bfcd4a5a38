//! A file stored by the browser, read in pieces: the wasm heap never contains more of it than one tensor.

use std::io::{self, Read, Seek, SeekFrom};

use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use web_sys::{Blob, FileReaderSync};

/// Bytes fetched at a time for small reads.
const PIECE: u64 = 1 << 20;

pub struct BlobReader {
    blob: Blob,
    reader: FileReaderSync,
    size: u64,
    at: u64,
    /// The bytes fetched last, and their offset.
    piece: Vec<u8>,
    start: u64,
}

fn failed(error: JsValue) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

impl BlobReader {
    /// Works only in a worker, which may read synchronously.
    pub fn new(blob: Blob) -> io::Result<Self> {
        Ok(Self {
            reader: FileReaderSync::new().map_err(failed)?,
            size: blob.size() as u64,
            blob,
            at: 0,
            piece: Vec::new(),
            start: 0,
        })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    fn fetch(&self, from: u64, bytes: u64) -> io::Result<Uint8Array> {
        let to = (from + bytes).min(self.size);
        let slice = self.blob.slice_with_f64_and_f64(from as f64, to as f64);
        let slice = slice.map_err(failed)?;
        let buffer = self.reader.read_as_array_buffer(&slice).map_err(failed)?;
        Ok(Uint8Array::new(&buffer))
    }
}

impl Read for BlobReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.at);
        let wanted = left.min(out.len() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let held = self.start..self.start + self.piece.len() as u64;
        if !held.contains(&self.at) {
            if wanted >= PIECE {
                // Reads a tensor directly into its destination.
                let wanted = wanted as usize;
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

impl Seek for BlobReader {
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
