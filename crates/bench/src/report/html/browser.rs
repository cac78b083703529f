//! The page in a real browser, wide and on a phone, light and dark: nothing overflows, all text has
//! enough contrast, and the bars are visible.
//!
//! The page is in a frame of the device's width; a script of the surrounding page measures it.
//! Skipped with a message without Chromium. `TIDEGATE_SCREENSHOTS=DIR` stores screenshots.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::sample;
use super::{escape, render};

const NAMES: [&str; 4] =
    ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];
/// A browser that hangs is killed by timeout(1).
const TIMEOUT: &str = "60";
/// The contrast that WCAG 2.2 requires of text (1.4.3), and about the smallest size that is
/// readable on a phone.
const CONTRAST_MIN: f64 = 4.5;
const TEXT_PX_MIN: f64 = 9.0;
const PHONE_PX: u32 = 390;
const DESK_PX: u32 = 1280;

const PROBE: &str = r#"<script>
addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument;
  const view = frame.contentWindow, root = page.documentElement;
  const scheme = view.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  page.querySelectorAll("details").forEach(details => details.open = true);
  const numbers = text => (text.match(/[\d.]+/g) || []).map(Number);
  const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(view.getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = { scheme, texts: 0, worst: 99, worst_text: "", smallest: 99, smallest_text: "" };
  for (const element of page.body.querySelectorAll("*")) {
    const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
    if (!own.length || element.tagName === "title") continue;
    const style = view.getComputedStyle(element), drawn = element.namespaceURI.endsWith("svg");
    const a = light(numbers(drawn ? style.fill : style.color)), b = light(behind(element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const scale = drawn ? element.ownerSVGElement.getBoundingClientRect().width / 360 : 1;
    const size = parseFloat(style.fontSize) * scale;
    found.texts += 1;
    if (contrast < found.worst) [found.worst, found.worst_text] = [contrast, own[0].data];
    if (size < found.smallest) [found.smallest, found.smallest_text] = [size, own[0].data];
  }
  const outside = [...page.querySelectorAll("section, .tile, .bar, svg, figure, h1, h2, p")];
  const right = element => element.getBoundingClientRect().right;
  found.width = root.clientWidth;
  found.scroll_width = root.scrollWidth;
  found.outside = outside.filter(it => right(it) > root.clientWidth + 0.5).length;
  const inside = (it, of) => it.getBoundingClientRect().right <= of.getBoundingClientRect().right;
  const fills = [...page.querySelectorAll(".fill")];
  found.bars = fills.filter(fill => fill.getBoundingClientRect().width > 20).length;
  found.long_bars = fills.filter(fill => !inside(fill, fill.parentElement)).length;
  found.page = light(behind(page.body));
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>"#;

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<_> = std::env::split_paths(&path).collect();
    let named = |name: &str| {
        directories.iter().map(|directory| directory.join(name)).find(|it| it.exists())
    };
    NAMES.iter().find_map(|name| named(name))
}

/// Runs the browser on `file`; what it prints.
fn browse(browser: &Path, directory: &Path, arguments: &[String], file: &Path) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=5", TIMEOUT])
        .arg(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--no-first-run"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .expect("timeout(1) starts");
    assert!(output.status.success(), "the browser ended with {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The page in a frame `width` wide, and what the probe found there.
fn look(
    browser: &Path,
    directory: &Path,
    name: &str,
    page: &str,
    width: u32,
    scheme: &str,
) -> Value {
    let mut around = format!("<!doctype html><meta charset=\"utf-8\">{PROBE}");
    let style = format!("width:{width}px;height:9000px;border:0;color-scheme:{scheme}");
    let _ = write!(
        around,
        "<body style=\"margin:0\"><iframe style=\"{style}\" srcdoc=\"{}\"></iframe>",
        escape(page)
    );
    let file = directory.join(format!("{name}-{scheme}-{width}.html"));
    std::fs::write(&file, around).expect("a page");
    if let Some(pictures) = std::env::var_os("TIDEGATE_SCREENSHOTS") {
        let picture = Path::new(&pictures).join(format!("{name}-{scheme}-{width}.png"));
        let size = format!("--window-size={},9000", width.max(500));
        let to = format!("--screenshot={}", picture.display());
        browse(browser, directory, &[size, to], &file);
    }
    let dumped = browse(browser, directory, &["--dump-dom".to_owned()], &file);
    let found = dumped.split("<pre id=\"found\">").nth(1).expect("the probe has run");
    let found = found.split("</pre>").next().expect("the end");
    serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        .expect("JSON")
}

#[test]
fn the_page_can_be_read_everywhere() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium to look at report.html with (apt-get install chromium)");
        return;
    };
    let directory = std::env::temp_dir().join(format!("tidegate-report-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // Bars that are long enough to be seen: those of a server that is 500 times another are not.
    let pages = [("usual", sample::data(), 24.0), ("crowded", sample::crowded(), 24.0)];
    let pages = pages.map(|(name, data, bars)| (name, render(&data), bars));
    let ways = [(DESK_PX, "light"), (DESK_PX, "dark"), (PHONE_PX, "light"), (PHONE_PX, "dark")];
    for ((name, page, bars), (width, scheme)) in
        pages.iter().flat_map(|page| ways.iter().map(move |way| (page, way)))
    {
        let (width, scheme) = (*width, *scheme);
        let found = look(&browser, &directory, name, page, width, scheme);
        let number = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
        let context = format!("{name}, {scheme}, {width} px: {found}");
        assert_eq!(found["scheme"], scheme, "{context}");
        assert_eq!(number("page") > 0.5, scheme == "light", "the page's own colour: {context}");
        assert!(number("texts") > 400.0, "{context}");
        assert!(number("worst") >= CONTRAST_MIN, "too little contrast: {context}");
        assert!(number("smallest") >= TEXT_PX_MIN, "too small: {context}");
        assert!(number("scroll_width") <= f64::from(width), "scrolls sideways: {context}");
        assert_eq!(number("outside"), 0.0, "sticks out: {context}");
        assert!(number("bars") >= *bars, "{context}");
        assert_eq!(number("long_bars"), 0.0, "{context}");
    }
    std::fs::remove_dir_all(&directory).expect("nothing is left behind");
}
