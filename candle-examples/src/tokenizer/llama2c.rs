//! llama2.c's `tokenizer.bin`: the pieces of a SentencePiece BPE model with their scores.
//!
//! Format: u32 length of the longest piece, then for each id f32 score, u32 length, bytes. Ids 0, 1 and 2 are unknown,
//! begin and end; id `b + 3` is the byte `b`; spaces are plain spaces.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

pub const BOS: u32 = 1;
pub const EOS: u32 = 2;
const BYTES: u32 = 3;
const PIECES: u32 = BYTES + 256;

pub struct Vocabulary {
    pieces: Vec<(f32, Vec<u8>)>,
    ids: HashMap<Vec<u8>, u32>,
}

impl Vocabulary {
    /// Parses the file's bytes; the error says what is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let mut take = |n: usize| {
            let (head, tail) = rest.split_at_checked(n)?;
            rest = tail;
            Some(head)
        };
        let word = |b: &[u8]| <[u8; 4]>::try_from(b).ok();
        let longest = take(4).and_then(word).map(u32::from_le_bytes);
        let longest = longest.ok_or("it is shorter than its header")? as usize;
        let mut pieces = Vec::new();
        while let Some(score) = take(4).and_then(word).map(f32::from_le_bytes) {
            let length = take(4).and_then(word).map(u32::from_le_bytes);
            let length = length.map(|n| n as usize).filter(|n| *n <= longest.max(16));
            let piece = length.and_then(&mut take);
            let piece = piece.ok_or_else(|| format!("token {} is truncated", pieces.len()))?;
            pieces.push((score, piece.to_vec()));
        }
        if !rest.is_empty() {
            return Err(format!("{} extra bytes at its end", rest.len()));
        }
        if pieces.len() < PIECES as usize {
            let found = pieces.len();
            return Err(format!("it has {found} tokens, fewer than there are bytes"));
        }
        // Control and byte tokens are never formed from text.
        let text = (0u32..).zip(&pieces).skip(PIECES as usize);
        let ids = text.map(|(id, (_, piece))| (piece.clone(), id)).collect();
        Ok(Self { pieces, ids })
    }

    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// BOS, then the text after one space, merged greedily: the neighbouring pair with the best score first.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return vec![BOS];
        }
        let mut nodes: Vec<Node> = Vec::new();
        let mut buffer = [0; 4];
        for c in std::iter::once(' ').chain(text.chars()) {
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            match self.ids.get(bytes) {
                Some(&id) => nodes.push(Node::new(id, nodes.len())),
                None => {
                    for &byte in bytes {
                        nodes.push(Node::new(u32::from(byte) + BYTES, nodes.len()));
                    }
                }
            }
        }
        if let Some(last) = nodes.last_mut() {
            last.next = None;
        }
        let mut pairs: BinaryHeap<Pair> = (0..nodes.len())
            .filter_map(|left| self.pair(&nodes, left))
            .collect();
        while let Some(pair) = pairs.pop() {
            let (left, right) = (pair.left, pair.right);
            // The nodes may have been merged since this pair was queued.
            let current = nodes[left].live
                && nodes[left].next == Some(right)
                && (nodes[left].id, nodes[right].id) == pair.ids;
            if !current {
                continue;
            }
            nodes[right].live = false;
            let next = nodes[right].next;
            nodes[left].id = pair.merged;
            nodes[left].next = next;
            if let Some(next) = next {
                nodes[next].previous = Some(left);
            }
            pairs.extend(self.pair(&nodes, left));
            pairs.extend(nodes[left].previous.and_then(|p| self.pair(&nodes, p)));
        }
        let tokens = nodes.iter().filter(|node| node.live).map(|node| node.id);
        std::iter::once(BOS).chain(tokens).collect()
    }

    /// The bytes of `ids`. After a leading BOS, removes the space that `encode` adds.
    pub fn decode(&self, ids: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, &id) in ids.iter().enumerate() {
            let piece = self.pieces.get(id as usize).map(|(_, piece)| &piece[..]);
            match (id, piece) {
                (0..BYTES, _) | (_, None) => {}
                (BYTES..PIECES, _) => bytes.push((id - BYTES) as u8),
                (_, Some(piece)) if i > 0 && ids[i - 1] == BOS => {
                    bytes.extend_from_slice(piece.strip_prefix(b" ").unwrap_or(piece));
                }
                (_, Some(piece)) => bytes.extend_from_slice(piece),
            }
        }
        bytes
    }

    /// The piece that the node at `left` and its successor form, if any.
    fn pair(&self, nodes: &[Node], left: usize) -> Option<Pair> {
        let right = nodes[left].next?;
        let ids = (nodes[left].id, nodes[right].id);
        // Byte tokens are fallbacks and never merge.
        if ids.0 < PIECES || ids.1 < PIECES {
            return None;
        }
        let joined = [self.bytes(ids.0), self.bytes(ids.1)].concat();
        let merged = *self.ids.get(&joined)?;
        let score = self.pieces[merged as usize].0;
        Some(Pair {
            score,
            left,
            right,
            ids,
            merged,
        })
    }

    fn bytes(&self, id: u32) -> &[u8] {
        &self.pieces[id as usize].1
    }
}

/// A token of the text, in a doubly linked list of indices.
struct Node {
    id: u32,
    previous: Option<usize>,
    next: Option<usize>,
    live: bool,
}

impl Node {
    fn new(id: u32, index: usize) -> Self {
        Self {
            id,
            previous: index.checked_sub(1),
            next: Some(index + 1),
            live: true,
        }
    }
}

struct Pair {
    score: f32,
    left: usize,
    right: usize,
    ids: (u32, u32),
    merged: u32,
}

/// Best score first, then leftmost.
impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let score = self.score.total_cmp(&other.score);
        score.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A tokenizer.bin with the control and byte tokens, then `pieces`.
    pub fn file(pieces: &[(&str, f32)]) -> Vec<u8> {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        let mut push = |piece: &[u8], score: f32| {
            bytes.extend(score.to_le_bytes());
            bytes.extend((piece.len() as u32).to_le_bytes());
            bytes.extend(piece);
        };
        for control in ["<unk>", "\n<s>\n", "\n</s>\n"] {
            push(control.as_bytes(), 0.0);
        }
        for byte in 0..=255u8 {
            push(format!("<0x{byte:02X}>").as_bytes(), 0.0);
        }
        for (piece, score) in pieces {
            push(piece.as_bytes(), *score);
        }
        bytes
    }

    fn vocabulary() -> Vocabulary {
        let pieces = [
            (" ", -9.0),
            ("a", -9.0),
            ("b", -9.0),
            ("ab", -2.0),
            (" a", -1.0),
            ("abab", -3.0),
        ];
        Vocabulary::parse(&file(&pieces)).expect("a valid file")
    }

    #[test]
    fn the_best_pair_merges_first() {
        let v = vocabulary();
        // " a" (-1) beats "ab" (-2), so the first b stays alone.
        assert_eq!(v.encode("ab"), [BOS, 263, 261]);
        assert_eq!(v.encode("bab"), [BOS, 259, 261, 262]);
        assert_eq!(v.encode("babab"), [BOS, 259, 261, 264]);
    }

    #[test]
    fn unknown_characters_fall_back_to_bytes_and_come_back() {
        let v = vocabulary();
        let ids = v.encode("\u{e9}");
        assert_eq!(ids, [BOS, 259, 0xc3 + 3, 0xa9 + 3]);
        for text in ["", "ab", " ab", "a\u{e9}b\nabab", "<0x41>", "<s>"] {
            assert_eq!(v.decode(&v.encode(text)), text.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn a_long_text_takes_no_quadratic_time() {
        let text = "ab".repeat(200_000);
        assert_eq!(
            vocabulary().decode(&vocabulary().encode(&text)),
            text.as_bytes()
        );
    }

    #[test]
    fn damage_is_told() {
        let whole = file(&[("a", 0.0)]);
        for length in [0, 3, 7, 100, whole.len() - 1] {
            assert!(Vocabulary::parse(&whole[..length]).is_err(), "{length}");
        }
        assert!(Vocabulary::parse(b"GGUF and something else").is_err());
        assert!(Vocabulary::parse(&whole).is_ok());
    }
}
