//! Names of files and words of models that try to become HTML or scripts.

use anyhow::{ensure, Result};
use candle_web::server::POLICY;
use serde_json::{json, Value};

use crate::driver::{site, Gpu, Page};
use crate::steps::{ask, drop_model, greedy, LISTED, MINUTE};
use crate::tiny;

const NAME: &str = "<img src=x onerror='globalThis.hacked=1'>";

const WORDS: [&str; 9] = [
    "<script>globalThis.hacked=1</script>\n\n",
    "<img src=x onerror=\"globalThis.hacked=1\">\n\n",
    "[link](javascript:globalThis.hacked=1) [link](JAVAscript:alert(1)) [link](data:text/html,<script>1</script>)\n\n",
    "![picture](https://localhost:1/pixel.png) <javascript:globalThis.hacked=1>\n\n",
    "# <svg onload=globalThis.hacked=1>\n\n",
    "```\"><script>globalThis.hacked=1</script>\n</code></pre><iframe srcdoc='<script>parent.hacked=1</script>'>\n```\n\n",
    "| <b onclick=globalThis.hacked=1> | b |\n|---|---|\n| `<i>` | **[x](vbscript:1)** |\n\n",
    "> <base href=//localhost:1> <meta http-equiv=refresh content='0;url=//localhost:1'>\n\n",
    "<a href=https://example.com/ onclick=globalThis.hacked=1>a</a> **bold** [good](https://example.com/a \"x\\\" onclick=1\")\n\n",
];

/// Tags that Markdown makes, and their attributes.
const HARMLESS: &str = "[...document.querySelectorAll('#text *')].filter((e) => \
     ![...'DIV P A STRONG EM DEL CODE PRE BR HR UL OL LI BLOCKQUOTE TABLE THEAD TBODY TR TH TD H3 H4 H5 H6 BUTTON SPAN'.split(' ')].includes(e.tagName) \
     || e.getAttributeNames().some((name) => !['class', 'href', 'rel', 'target', 'start', 'type', 'aria-label', 'data-language'].includes(name)) \
     || (e.href && !/^https?:/.test(e.href))).map((e) => e.outerHTML)";

fn harmless(page: &Page) -> Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(300));
    let hacked = page.value("globalThis.hacked ?? null")?;
    ensure!(hacked == Value::Null, "a script ran");
    let bad = page.value(HARMLESS)?;
    ensure!(bad == json!([]), "{bad}");
    let others = page.value("document.querySelectorAll('img, svg:not(#chart svg), iframe, base, object, main script, aside script').length")?;
    ensure!(others == 0, "{others} foreign elements");
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn a_file_and_a_models_words_cannot_run_script() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    let file = format!("../{NAME}.gguf");
    drop_model(&page, &[(&file, tiny::parrot(NAME, &WORDS)?)])?;
    greedy(&page, 2 * WORDS.len())?;
    ask(&page, NAME)?;
    harmless(&page)?;
    let text = page.text("text")?;
    for word in [
        "<script>globalThis.hacked=1</script>",
        "<svg onload",
        NAME,
        "[link](javascript:",
    ] {
        ensure!(text.contains(word), "{word} is missing in {text}");
    }
    ensure!(
        page.value(
            "document.querySelectorAll('.answer a[href=\"https://example.com/a\"]').length > 0"
        )? == true
    );
    page.click("#about summary")?;
    ensure!(
        page.text("facts")?.contains(NAME),
        "{}",
        page.text("facts")?
    );
    page.shot("hostile");

    // The same from the browser's storage.
    page.reload()?;
    page.wait(LISTED, MINUTE)?;
    page.wait("document.querySelectorAll('.answer').length === 1", MINUTE)?;
    harmless(&page)?;
    ensure!(page.text("kept")?.contains(NAME), "{}", page.text("kept")?);
    ensure!(
        page.text("chats")?.contains(&NAME[..20]),
        "{}",
        page.text("chats")?
    );
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn the_policies_forbid_html_and_inline_scripts() -> Result<()> {
    for name in ["index", "bench", "caps", "test", "example"] {
        let text = std::fs::read_to_string(site().join(name).with_extension("html"))?;
        ensure!(
            text.contains(POLICY),
            "{name}.html has another policy than the server"
        );
    }
    let page = Page::open(Gpu::None, "index.html")?;
    page.wait(LISTED, MINUTE)?;
    for script in [
        "document.body.innerHTML = '<b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>')",
        "document.createElement('script').text = 'globalThis.hacked = 1'",
        "new Worker('https://example.com/a.js')",
        "(await import('./pkg/lib/trusted.js')).worker('https://example.com/a.js')",
    ] {
        let result = page.promised(&format!("{{ {script}; return 'ran'; }}"))?;
        ensure!(result != "ran", "{script} ran");
    }
    page.value("document.body.append(Object.assign(document.createElement('img'), { src: 'x', id: 'image' }))")?;
    page.value("document.getElementById('image').setAttribute('onerror', 'globalThis.hacked = 1')")
        .ok();
    std::thread::sleep(std::time::Duration::from_millis(300));
    ensure!(
        page.value("globalThis.hacked ?? null")? == Value::Null,
        "an inline handler ran"
    );
    Ok(())
}

/// Markdown, and the tags that it becomes.
const TEXTS: [(&str, &str); 15] = [
    ("a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>"),
    ("# A\n\n###### B", "<h3>A</h3><h6>B</h6>"),
    ("- a\n- b\n  - c\n\nd", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><p>d</p>"),
    ("3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>"),
    ("```rust\na < b\n", "<pre><code data-language=\"rust\">a &lt; b\n</code></pre>"),
    ("> a\n> b", "<blockquote><p>a<br>b</p></blockquote>"),
    ("| a | b |\n|---|---|\n| c | d |", "<div class=\"scroll\"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c</td><td>d</td></tr></tbody></table></div>"),
    ("2 * 3 * 4, a_b_c, 5 < 6", "<p>2 * 3 * 4, a_b_c, 5 &lt; 6</p>"),
    ("\\*a\\* ** **", "<p>*a* ** **</p>"),
    ("[a](https://x.org/)", "<p><a href=\"https://x.org/\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">a</a></p>"),
    ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
    ("[a]( JaVaScRiPt:alert(1) )", "<p>[a]( JaVaScRiPt:alert(1) )</p>"),
    ("[a](java\\script:1) [b](//x) [c](file:///etc/passwd)", "<p>[a](java\\script:1) [b](//x) [c](file:///etc/passwd)</p>"),
    ("<script>1</script>", "<p>&lt;script&gt;1&lt;/script&gt;</p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
];

#[test]
#[ignore = "needs a browser and target/site"]
fn markdown_becomes_these_tags_and_no_others() -> Result<()> {
    let page = Page::open(Gpu::None, "caps.html")?;
    let html = |text: &str| {
        let call = format!(
            "{{ const {{ markdown }} = await import('./markdown.js'); const box = document.createElement('div'); \
             box.append(...markdown({})); return box.innerHTML; }}",
            json!(text)
        );
        page.promised(&call)
    };
    for (text, expected) in TEXTS {
        ensure!(html(text)? == expected, "{text:?} becomes {}", html(text)?);
    }
    // Neither deep nor long texts take long.
    for text in [
        "> ".repeat(20_000),
        "*".repeat(20_000),
        "[".repeat(20_000),
        "- ".repeat(20_000),
        "`a ``".repeat(5_000),
        "**a".repeat(5_000),
    ] {
        let start = std::time::Instant::now();
        html(&text)?;
        ensure!(
            start.elapsed() < std::time::Duration::from_secs(30),
            "{} takes {:?}",
            &text[..8],
            start.elapsed()
        );
    }
    Ok(())
}
