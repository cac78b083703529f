// The page Nodes of a fleet: a rejected revision, what each node serves, keyboard, themes and widths.
//
//   node nodes.mjs CHROMIUM ADMIN WEB
//
// ADMIN is the node n1 of n1 and n2, which have rejected the document bad.yaml. Writes "rejected" as
// a message when it has seen that, and prints "done" when it has seen that it is over.
import assert from "node:assert/strict";
import { base, checkAccess, checkWidths, errors, launch, logIn, open, visit } from "./browser.mjs";

async function main() {
  const browser = await launch();
  const { page } = await open(browser);
  await logIn(page, "s3cret-token");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  // By keyboard: the link of the page has the focus, and Enter follows it.
  await page.getByRole("link", { name: "Nodes" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
  const table = page.getByRole("region", { name: "Nodes", exact: true });
  for (const [name, other] of [["n1", "n2"], ["n2", "n1"]]) {
    const row = table.getByRole("row").filter({ has: page.getByRole("cell", { name: new RegExp(`^${name}`) }) });
    await row.getByText("refused").waitFor();
    await row.getByRole("list", { name: `Errors of ${name}` }).getByText(/^bad\.yaml:1:/).waitFor();
    assert.equal(await row.getByText("this server").count(), name === "n1" ? 1 : 0, `${name}, not ${other}`);
  }
  await page.getByText("2 nodes here, 2 with a rejected configuration.").waitFor();
  // A table that scrolls sideways can be reached by keyboard.
  await table.focus();
  assert.ok(await table.evaluate((element) => element === document.activeElement));
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await checkAccess(page, `Nodes (${colorScheme})`);
  }
  await checkWidths(page, "Nodes");
  await page.goto(`${base}#/overview`);
  await visit(page, ["nodes", "Nodes"]);
  console.error("rejected");
  // The test removes the document: the page shows that by itself.
  await table.getByText("ready").nth(1).waitFor();
  assert.equal(await table.getByText("refused").count(), 0);
  assert.deepEqual(errors, []);
  await browser.close();
  console.log("done");
}

main().catch((error) => { console.error(error); process.exit(1); });
