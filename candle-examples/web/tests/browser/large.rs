//! A model file larger than WebAssembly's memory.

use std::io::Cursor;

use anyhow::{ensure, Context, Result};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use candle_core::quantized::gguf_file::Content;

use crate::driver::{Gpu, Page};
use crate::steps::{ask, greedy, load, LISTED, MINUTE};
use crate::tiny;

/// So far behind the others is the data of one tensor. Between them is a hole, which takes no space on the disk.
const FAR: u64 = 5 << 30;

const TENSOR: &str = "output.weight";

#[test]
#[ignore = "needs a browser and target/site"]
fn a_file_beyond_4_gib_is_read() -> Result<()> {
    let mut bytes = tiny::parrot("Large", &[" one", " two"])?;
    let content = Content::read(&mut Cursor::new(&bytes))?;
    let tensor = content.tensor_infos.get(TENSOR).context(TENSOR)?;
    let start = content.tensor_data_offset + tensor.offset;
    let range = start as usize..start as usize + tensor.shape.elem_count() * 4;
    let data = bytes[range.clone()].to_vec();
    bytes[range].fill(0);
    // In the header: the name with its length, the number of dims, two dims, the dtype, the offset.
    let name = [&(TENSOR.len() as u64).to_le_bytes(), TENSOR.as_bytes()].concat();
    let found = bytes.windows(name.len()).position(|part| part == name);
    let offset = found.context("no such tensor")? + name.len() + 4 + 2 * 8 + 4;
    bytes[offset..offset + 8].copy_from_slice(&(tensor.offset + FAR).to_le_bytes());

    let page = Page::open(Gpu::None, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    let (head, tail) = (
        BASE64_STANDARD.encode(&bytes),
        BASE64_STANDARD.encode(&data),
    );
    let position = start + FAR;
    let written = page.promised(&format!(
        "{{ const {{ quota }} = await navigator.storage.estimate();
            if (quota < 2 * {FAR}) return 'no room';
            const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
            const top = await navigator.storage.getDirectory();
            const root = await top.getDirectoryHandle('candle-models', {{ create: true }});
            const folder = await root.getDirectoryHandle('large', {{ create: true }});
            const write = async (name, ...parts) => {{
              const file = await (await folder.getFileHandle(name, {{ create: true }})).createWritable();
              for (const part of parts) await file.write(part);
              await file.close();
            }};
            const size = {position} + {};
            await write('0', bytes('{head}'), {{ type: 'truncate', size }}, {{ type: 'write', position: {position}, data: bytes('{tail}') }});
            await write('model.json', JSON.stringify({{ name: 'large.gguf', added: 1, files: [{{ name: 'large.gguf', bytes: size }}] }}));
            return 'written'; }}",
        data.len()
    ))?;
    if written == "no room" {
        eprintln!("the browser has no room for a file of 5 GiB");
        return Ok(());
    }
    ensure!(written == "written", "{written}");
    page.reload()?;
    page.wait(
        "document.querySelector('#model option[value=large]')",
        MINUTE,
    )?;
    page.value("(document.getElementById('model').value = 'large')")?;
    load(&page)?;
    let kept = page.text("kept")?;
    ensure!(kept.contains("large.gguf (5.0 GiB)"), "{kept}");
    greedy(&page, 4)?;
    ask(&page, "Hi")?;
    ensure!(
        page.text("text")?.contains("one two one two"),
        "{}",
        page.text("text")?
    );
    Ok(())
}
