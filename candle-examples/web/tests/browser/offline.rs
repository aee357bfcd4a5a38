//! The page as an app: installable, and usable without a network.

use anyhow::{ensure, Result};

use crate::driver::{Gpu, Page};
use crate::steps::{ask, drop_model, greedy, load, LISTED, MINUTE};
use crate::tiny;

#[test]
#[ignore = "needs a browser and target/site"]
fn the_page_works_without_a_network_after_the_first_visit() -> Result<()> {
    let mut page = Page::open(Gpu::None, "index.html")?;
    drop_model(
        &page,
        &[("parrot.gguf", tiny::parrot("Parrot", &[" one", " two"])?)],
    )?;
    let icons = page.promised(
        "{ const manifest = await (await fetch(document.querySelector('link[rel=manifest]').href)).json();
           const sizes = await Promise.all(manifest.icons.map(async ({ src, sizes }) => {
             const image = new Image();
             image.src = src;
             await image.decode();
             return sizes === 'any' || sizes === `${image.naturalWidth}x${image.naturalHeight}`;
           }));
           return sizes.length > 1 && sizes.every(Boolean) && manifest.display === 'standalone'; }",
    )?;
    ensure!(icons == true, "{icons}");
    page.promised("{ navigator.serviceWorker.ready.then(() => { globalThis.kept = true; }); }")?;
    page.wait("globalThis.kept", MINUTE)?;
    page.stop_server();
    page.reload()?;
    page.wait(LISTED, MINUTE)?;
    ensure!(
        page.promised("fetch('models.json?none', { cache: 'no-store' }).then((r) => r.ok)")?
            == true
    );
    page.value("(document.getElementById('model').value = [...document.getElementById('model').options].find((o) => o.text.includes('parrot')).value)")?;
    load(&page)?;
    greedy(&page, 4)?;
    ask(&page, "Hi")?;
    ensure!(
        page.text("text")?.contains("one two one two"),
        "{}",
        page.text("text")?
    );
    page.shot("offline");
    Ok(())
}
