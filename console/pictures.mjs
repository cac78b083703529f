// Writes the pictures of the console for the guide, from a running `tidegate demo`.
//
//   node pictures.mjs CHROMIUM LINK GATEWAY DIRECTORY
//
// LINK is the link to the console that the demo prints, GATEWAY the URL of its gateway. Needs the
// package playwright-core.
import { chromium } from "playwright-core";

const [executablePath, link, gateway, directory] = process.argv.slice(2);
if (!directory) {
  console.error("usage: node pictures.mjs CHROMIUM LINK GATEWAY DIRECTORY");
  process.exit(2);
}
const base = link.split("#")[0];
const PATHS = [
  "api/hello", "api/items/7", "api/orders?page=2", "lua/world", "cached/hello", "limited", "nowhere", "",
];
const WIDE = { width: 1000, height: 660 };
const PHONE = { width: 360, height: 720 };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let isOver = false;

/** Requests for the charts, until the pictures are there. */
async function traffic() {
  while (!isOver) {
    const send = (path) => fetch(`${gateway}${path}`).then((got) => got.text());
    await Promise.all(PATHS.map((path) => send(path).catch(() => "")));
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

async function open(page, path, title) {
  await page.goto(`${base}#/${path}`);
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
  await page.getByText("Loading …").waitFor({ state: "detached" });
  await page.evaluate(() => scrollTo(0, 0));
}

const write = (page, name) => page.screenshot({ path: `${directory}/${name}.png` });

async function pictures(page) {
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // A minute of charts.
  await page.waitForTimeout(60_000);
  await write(page, "overview");
  await page.setViewportSize(PHONE);
  await page.emulateMedia({ colorScheme: "dark" });
  await write(page, "phone");
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "light" });
  await open(page, "traffic", "Traffic");
  await page.getByRole("button", { name: /api\/hello/ }).first().click();
  await page.getByRole("list", { name: "Steps" }).waitFor();
  await write(page, "traffic");
  await open(page, "routes", "Routes");
  await page.getByLabel("URL").fill("http://shop.example/api/hello");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("region", { name: "Response", exact: true }).waitFor();
  await write(page, "routes");
  await open(page, "caches", "Caches");
  await page.getByLabel("URL", { exact: true }).fill(`${gateway}cached/hello`);
  await page.getByRole("button", { name: "Hit or miss, and why" }).click();
  await page.locator("pre").getByText(/hit/i).first().waitFor();
  await write(page, "caches");
  await open(page, "limits", "Limits");
  await write(page, "limits");
  await open(page, "configuration", "Configuration");
  await page.locator("textarea.editor").focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\nmetrics:\n  otlp: { url: \"http://127.0.0.1:4317\", pro");
  await page.getByRole("listbox", { name: "Suggestions" }).waitFor();
  await page.emulateMedia({ colorScheme: "dark" });
  await write(page, "configuration");
}

const context = await browser.newContext({ viewport: WIDE, colorScheme: "light" });
const requests = traffic();
try {
  await pictures(await context.newPage());
} finally {
  isOver = true;
  await requests;
  await browser.close();
}
