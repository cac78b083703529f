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
const PATHS = ["api/hello", "api/items/7", "api/orders?page=2", "lua/world", "nowhere", ""];

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
}

const write = (page, name) => page.screenshot({ path: `${directory}/${name}.png` });

async function pictures(page) {
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // A minute of charts.
  await page.waitForTimeout(60_000);
  await write(page, "overview");
  await open(page, "traffic", "Traffic");
  await page.getByRole("button", { name: /api\/hello/ }).first().click();
  await page.getByRole("list", { name: "Steps" }).waitFor();
  await write(page, "traffic");
  await open(page, "routes", "Routes");
  await page.getByLabel("URL").fill("http://shop.example/api/hello");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("region", { name: "Response", exact: true }).waitFor();
  await write(page, "routes");
  await open(page, "configuration", "Configuration");
  await page.locator("textarea.editor").focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\nlog:\n  access: { format: json, pa");
  await page.getByRole("listbox", { name: "Suggestions" }).waitFor();
  await page.emulateMedia({ colorScheme: "dark" });
  await write(page, "configuration");
}

const viewport = { width: 1200, height: 800 };
const context = await browser.newContext({ viewport, colorScheme: "light" });
const requests = traffic();
try {
  await pictures(await context.newPage());
} finally {
  isOver = true;
  await requests;
  await browser.close();
}
