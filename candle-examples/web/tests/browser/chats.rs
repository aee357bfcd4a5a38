//! Conversations: kept, edited, answered again, deleted; the system prompt; a phone's layout.

use anyhow::{ensure, Result};

use crate::driver::{Gpu, Page};
use crate::steps::{answered, ask, drop_model, greedy, LISTED, MINUTE};
use crate::tiny;

/// A list in Markdown, whose last word is the second text.
const WORDS: [&str; 4] = ["- **red**\n", "- *green*\n", "- `blue`\n", "\nbye"];

fn turns(page: &Page) -> Result<u64> {
    let turns = page.value("document.querySelectorAll('.turn').length")?;
    Ok(turns.as_u64().unwrap_or_default())
}

fn chats(page: &Page) -> Result<u64> {
    let chats = page.value("document.querySelectorAll('#chats .grow').length")?;
    Ok(chats.as_u64().unwrap_or_default())
}

/// Ids of the last prompt that were not in the KV cache.
fn prompt(page: &Page) -> Result<u64> {
    let ids = page.value("Number(document.body.dataset.prompt)")?;
    Ok(ids.as_u64().unwrap_or_default())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn chats_are_kept_edited_answered_again_and_deleted() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    drop_model(&page, &[("parrot.gguf", tiny::parrot("Parrot", &WORDS)?)])?;
    greedy(&page, WORDS.len())?;
    ask(&page, "one")?;
    let shape = page.value(
        "[...document.querySelectorAll('.answer > *')].map((e) => e.tagName + e.children.length)",
    )?;
    ensure!(shape == serde_json::json!(["UL3", "P0"]), "{shape}");
    let alone = prompt(&page)?;
    ask(&page, "two")?;
    // Only what is new goes through the model.
    ensure!(
        prompt(&page)? < alone + 20 && turns(&page)? == 2,
        "{} of {alone}",
        prompt(&page)?
    );
    ensure!(chats(&page)? == 1, "{} chats", chats(&page)?);

    answered(&page, || {
        page.click(".turn:last-child .tools button:nth-child(2)")
    })?;
    page.wait(
        "document.querySelector('.turn:last-child .tools').textContent.includes('2 of 2')",
        MINUTE,
    )?;
    page.click("[aria-label='Previous answer']")?;
    page.wait(
        "document.querySelector('.turn:last-child .tools').textContent.includes('1 of 2')",
        MINUTE,
    )?;

    // An edited question begins another chat, and the old one stays.
    page.click(".turn .tools button")?;
    ensure!(page.value("document.getElementById('prompt').value")? == "one" && turns(&page)? == 0);
    ask(&page, "three")?;
    ensure!(chats(&page)? == 2 && turns(&page)? == 1);
    page.shot("chats");

    page.reload()?;
    page.wait(LISTED, MINUTE)?;
    page.wait(
        "document.querySelectorAll('#chats .grow').length === 2",
        MINUTE,
    )?;
    ensure!(
        page.text("text")?.contains("three"),
        "{}",
        page.text("text")?
    );
    page.click("#chats li:last-child .grow")?;
    page.wait("document.querySelectorAll('.turn').length === 2", MINUTE)?;
    page.click("#chats li:last-child button:last-child")?;
    page.wait(
        "document.querySelectorAll('#chats .grow').length === 1",
        MINUTE,
    )?;
    ensure!(turns(&page)? == 0);
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn the_system_prompt_and_the_phones_layout() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    page.phone()?;
    drop_model(&page, &[("parrot.gguf", tiny::parrot("Parrot", &WORDS)?)])?;
    greedy(&page, 2)?;
    ask(&page, "one")?;
    let alone = prompt(&page)?;
    page.click("#new")?;
    page.click("#ask summary")?;
    page.fill("system", "Be brief.")?;
    page.fill("prompt", "one")?;
    answered(&page, || page.click("#go"))?;
    ensure!(prompt(&page)? > alone + 9, "{} of {alone}", prompt(&page)?);
    page.reload()?;
    page.wait(
        "document.getElementById('system').value === 'Be brief.'",
        MINUTE,
    )?;
    for open in [false, true] {
        if open {
            page.click("#menu")?;
        }
        let wide = page
            .value("document.documentElement.scrollWidth > document.documentElement.clientWidth")?;
        ensure!(wide == false, "wider than a phone");
        let small = page.value("[...document.querySelectorAll('button')].filter((b) => b.offsetHeight && b.offsetHeight < 35).map((b) => b.textContent)")?;
        ensure!(
            small == serde_json::json!([]),
            "too small for a finger: {small}"
        );
        page.shot(if open { "phone-menu" } else { "phone" });
    }
    Ok(())
}
