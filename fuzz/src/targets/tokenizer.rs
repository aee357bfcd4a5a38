//! llama2.c's tokenizer.bin. The end of the file is also the text to encode.

use std::path::Path;

use candle_examples::tokenizer::Tokenizer;

pub fn run(data: &[u8]) {
    let Ok(tokenizer) = Tokenizer::llama2c(Path::new("tokenizer.bin"), data) else {
        return;
    };
    let end = &data[data.len().saturating_sub(64)..];
    let text = String::from_utf8_lossy(end);
    let ids = tokenizer.encode(&text).expect("bytes are tokens");
    let _ = tokenizer.decode(&ids);
    let all: Vec<u32> = (0..600).collect();
    let _ = tokenizer.decode(&all);
}
