// What visits of the console with Chromium have in common.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [executablePath, admin] = process.argv.slice(2);
export const base = `http://${admin}/console/`;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Exceptions, messages of the console and requests to other servers. */
export const errors = [];

export const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

export async function open(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (error) => errors.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    // Chromium reports statuses, which are seen elsewhere.
    const isStatus = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isStatus) errors.push(`console: ${message.text()}`);
  });
  page.on("request", (sent) => {
    if (!sent.url().startsWith(`http://${admin}/`)) errors.push(`foreign: ${sent.url()}`);
  });
  await page.goto(base);
  return { context, page };
}

export async function logIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

export async function visit(page, [path, title]) {
  await page.goto(`${base}#/${path}`);
  await page.getByRole("heading", { level: 1, name: title }).waitFor();
}

export async function checkAccess(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
  }));
  const broken = found.violations.map((one) =>
    `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  assert.deepEqual(broken, [], `accessibility of ${where}`);
}

export async function checkWidths(page, title) {
  for (const width of [360, 1280, 3840]) {
    await page.setViewportSize({ width, height: width === 360 ? 740 : 1200 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${title} at ${width} px is ${wide} px wide`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}
