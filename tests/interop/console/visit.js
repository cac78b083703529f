// Visits every page of the console with Chromium, as an operator, as a reader and as an attacker.
//
//   node visit.mjs CHROMIUM ADMIN GATEWAY [PICTURES]   prints "done"
import assert from "node:assert/strict";
import { request } from "node:http";
import { base, checkAccess, checkWidths, errors, launch, logIn, open, visit } from "./browser.mjs";

const [, admin, gateway, pictures] = process.argv.slice(2);
const MARKUP = "<img/src=x/onerror=window.attacked=1>";
const PATH_MARKUP = "<img src=x onerror=window.attacked=1>";
const PAGES = [
  ["overview", "Overview"], ["traffic", "Traffic"], ["routes", "Routes"],
  ["upstreams", "Upstreams"], ["caches", "Caches"], ["limits", "Limits"], ["programs", "Programs"],
  ["consumers", "Consumers"], ["nodes", "Nodes"], ["configuration", "Configuration"],
  ["benchmarks", "Benchmarks"],
];

// A request whose parts are not what a browser would send.
function send(path, headers = {}) {
  const [host, port] = gateway.split(":");
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, path, headers: { host: "shop.example", ...headers } });
    sent.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject);
    sent.end();
  });
}

async function everyPage(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const one of PAGES) {
      await visit(page, one);
      await page.getByText("Loading …").waitFor({ state: "detached" });
      assert.equal(await page.getByText(/\bNaN\b/).count(), 0, `figures of ${one[1]}`);
      await checkAccess(page, `${one[1]} (${colorScheme})`);
      if (colorScheme === "light") await checkWidths(page, one[1]);
      if (pictures) await page.screenshot({ path: `${pictures}/${one[0]}-${colorScheme}.png`, fullPage: true });
    }
  }
}

async function traffic(page) {
  await visit(page, ["traffic", "Traffic"]);
  await page.getByLabel("Status").fill("4xx");
  await page.getByRole("button", { name: "Apply" }).click();
  const row = page.getByRole("button", { name: /nowhere/ });
  // The log begins when the server has the request for it: so requests are sent until one is shown.
  for (;;) {
    const path = `/nowhere/${encodeURIComponent(PATH_MARKUP)}?q=${encodeURIComponent(MARKUP)}`;
    assert.equal(await send(path, { "user-agent": MARKUP, "x-forwarded-for": MARKUP }), 404);
    assert.equal(await send("/api/ok"), 200);
    if (await row.first().waitFor({ timeout: 1000 }).then(() => true, () => false)) break;
  }
  assert.equal(await page.getByRole("button", { name: /api\/ok/ }).count(), 0, "filtered");
  await row.first().click();
  const request = page.getByRole("region", { name: "Request", exact: true });
  await request.getByText(MARKUP).first().waitFor();
  await request.getByRole("list", { name: "Steps" }).getByText("accept").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
}

async function routes(page) {
  await visit(page, ["routes", "Routes"]);
  await page.getByText(/^\d+ of \d+ routes/).waitFor();
  const rows = () => page.getByRole("region", { name: "Routes" }).locator("li").count();
  assert.ok(await rows() < 80, "only visible rows are in the document");
  await page.getByRole("searchbox").fill("many-199");
  await page.getByText(/^1 of/).waitFor();
  await page.getByLabel("URL").fill("http://shop.example/api/x");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("region", { name: "Explain" }).locator("pre").getByText(/api/).first().waitFor();
  await page.getByLabel("Header fields").fill(`x-markup: ${MARKUP}`);
  await page.getByRole("button", { name: "Send" }).click();
  const response = page.getByRole("region", { name: "Response", exact: true });
  await response.getByText(/^200 from web/).waitFor();
  await response.locator("pre").getByText("ok").waitFor();
  await checkAccess(page, "a response");
  await page.getByLabel("URL").fill("not a URL");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("is neither a path nor an http URL").waitFor();
}

async function limits(page) {
  assert.equal(await send("/limited"), 200);
  assert.equal(await send("/limited"), 429);
  await visit(page, ["limits", "Limits"]);
  const limit = page.getByRole("region", { name: "Limits of traffic" }).first();
  await limit.getByRole("cell", { name: "rate", exact: true }).waitFor();
  await limit.getByRole("cell", { name: "1", exact: true }).waitFor();
  const breakers = page.getByRole("region", { name: "Circuit breakers" }).first();
  await breakers.getByText("closed").waitFor();
}

async function upstreams(page) {
  await visit(page, ["upstreams", "Upstreams"]);
  await page.getByRole("button", { name: /^Drain / }).first().click();
  await page.getByText("gets no further requests until the next reload").waitFor();
  await page.getByText("Health history of shop").click();
  const history = page.getByRole("region", { name: "Health history of shop" });
  await history.getByRole("cell", { name: "by the admin API" }).waitFor();
  await checkAccess(page, "a health history");
  await page.getByRole("button", { name: /^Resume / }).first().click();
  await page.getByText("gets requests again until the next reload").waitFor();
  await history.getByRole("cell", { name: "the drain has ended" }).waitFor();
}

// The circuit breaker of a route that leads to an upstream.
async function breakers(page) {
  assert.equal(await send("/volatile"), 200);
  await visit(page, ["upstreams", "Upstreams"]);
  const breakers = page.getByRole("region", { name: "Circuit breakers of volatile" });
  await breakers.getByRole("cell", { name: MARKUP }).waitFor();
  await breakers.getByRole("cell", { name: "volatile", exact: true }).waitFor();
  await breakers.getByRole("cell", { name: "the start", exact: true }).waitFor();
  await breakers.getByRole("cell", { name: "0 % of 1 in 3,600 s" }).first().waitFor();
  assert.equal(await send("/volatile?break"), 503);
  await breakers.getByRole("cell", { name: "open", exact: true }).waitFor();
  await breakers.getByRole("cell", { name: "50 % of 2 in 3,600 s" }).waitFor();
  await breakers.getByRole("cell", { name: "the start", exact: true }).waitFor({ state: "detached" });
  await checkAccess(page, "circuit breakers");
  await checkWidths(page, "circuit breakers");
}

// A server fails its health checks, and returns.
async function health(page) {
  await visit(page, ["upstreams", "Upstreams"]);
  const section = page.getByRole("region", { name: "Upstream volatile" });
  const address = (await section.getByRole("cell").first().innerText()).trim().split(/\s/)[0];
  const tell = (path) => fetch(`http://${address}${path}`).then((response) => response.text());
  await section.getByRole("cell", { name: "healthy", exact: true }).waitFor();
  await tell("/fail");
  await section.getByRole("cell", { name: "unhealthy", exact: true }).waitFor();
  await section.getByRole("cell", { name: /unhealthy: the response was 500$/ }).waitFor();
  await visit(page, ["overview", "Overview"]);
  await page.getByRole("region", { name: "Attention" }).getByText(`volatile: ${address} is unhealthy`).waitFor();
  await visit(page, ["upstreams", "Upstreams"]);
  await tell("/recover");
  await section.getByRole("cell", { name: "healthy", exact: true }).waitFor();
  // The history is the server's: another page has it as well.
  await page.reload();
  await page.getByText("Health history of volatile").click();
  const history = page.getByRole("region", { name: "Health history of volatile" });
  await history.getByRole("cell", { name: "its checks succeed" }).first().waitFor();
  await history.getByRole("cell", { name: "the response was 500" }).first().waitFor();
  await visit(page, ["overview", "Overview"]);
  const events = page.getByRole("region", { name: "Events" });
  await events.getByText(`volatile ${address} is unhealthy: the response was 500`).first().waitFor();
  await events.getByText("the server has started").waitFor();
}

async function caches(page) {
  const url = "http://shop.example/cached/a";
  const stored = [
    ...Array(3).fill("/cached/a"), `/cached/${encodeURIComponent(PATH_MARKUP)}`,
    `/cached/b?token=s3cret&x=${encodeURIComponent(MARKUP)}`,
  ];
  for (const path of stored) assert.equal(await send(path), 200);
  await visit(page, ["caches", "Caches"]);
  const mostHits = page.getByRole("region", { name: "Most hits in pages" });
  await mostHits.getByRole("cell", { name: url, exact: true }).waitFor();
  await mostHits.getByRole("cell", { name: "2", exact: true }).waitFor();
  const mostMemory = page.getByRole("region", { name: "Most memory in pages" });
  await mostMemory.getByText("token=***").waitFor();
  assert.equal(await page.getByText("s3cret").count(), 0);
  await checkAccess(page, "the top responses");
  await checkWidths(page, "the top responses");
  await mostHits.getByRole("button", { name: `Look up ${url}`, exact: true }).click();
  await page.locator("pre").getByText(/hit/i).first().waitFor();
  assert.equal(await page.getByLabel("URL", { exact: true }).inputValue(), url);
  await page.getByRole("button", { name: "List stored responses" }).click();
  const listed = page.getByRole("region", { name: "Responses stored in pages" });
  await listed.getByRole("cell", { name: url, exact: true }).waitFor();
  await page.getByRole("button", { name: "Hit or miss, and why" }).click();
  await page.locator("pre").getByText(/hit/i).first().waitFor();
  await page.locator("input[name=purge]").fill(`http://shop.example${stored[4]}`);
  await page.getByRole("button", { name: "Purge …", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("token=***").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await mostHits.getByRole("button", { name: `Purge … ${url}`, exact: true }).click();
  await dialog.getByText(url).waitFor();
  await dialog.getByRole("button", { name: "Purge" }).click();
  await page.getByText("1 responses were removed.").waitFor();
  await mostHits.waitFor({ state: "detached" });
  await page.getByLabel("What").selectOption("tags");
  await page.locator("input[name=purge]").fill("cached");
  await page.getByRole("button", { name: "Purge …", exact: true }).click();
  await dialog.getByText("2 stored responses are removed:").waitFor();
  await dialog.getByText("token=***").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
}

async function programs(page) {
  assert.equal(await send("/lua"), 200);
  await visit(page, ["programs", "Programs"]);
  const lua = page.getByRole("region", { name: "Lua programs" }).first();
  await lua.getByRole("cell", { name: /^[\d.]+ [KM]iB$/ }).first().waitFor();
  await page.getByRole("region", { name: "Lua files" }).getByText("route lua").waitFor();
  const failing = `/lua?fail=${encodeURIComponent(MARKUP)}`;
  assert.equal(await send(failing), 500);
  assert.equal(await send(failing), 500);
  const error = page.getByText(/route lua, worker \d.* \(2 times\): .*page\.lua:\d: failed: /);
  await error.click();
  await page.locator("pre").getByText(/stack traceback/).waitFor();
  await checkAccess(page, "Lua programs");
  await checkWidths(page, "Lua programs");
  await page.getByRole("button", { name: "Restart Lua programs" }).click();
  await page.getByText(/^\d+ new Lua VMs serve/).waitFor();
  assert.equal(await send("/lua"), 200);
}

// What requests of an application raise, in place of a server with Python.
async function applications(page) {
  const record = {
    at: "2026-11-20T10:00:01.000Z", first: "2026-11-20T10:00:00.000Z", times: 2, worker: 1, route: null,
    request: `GET /${MARKUP.repeat(9)}`, file: null, message: `ValueError: ${MARKUP}\n${PATH_MARKUP}`,
    traceback: `Traceback (most recent call last):\n  ${PATH_MARKUP}`, trace_id: null,
  };
  const failure = { ...record, at: "2026-11-20T10:00:02.000Z", times: 1, request: null, message: "it has ended", traceback: "" };
  const app = {
    name: "<b>shop</b>", target: "shop:app", ready: 1, leaving: 0, workers: [], failures: [failure], errors: [record],
    tasks: { waiting: 0, running: 0, done: 0, failed: 0, retried: 0 },
  };
  await page.route("**/v1/apps", (route) => route.fulfill({ json: { apps: [app] } }));
  await visit(page, ["overview", "Overview"]);
  await visit(page, ["programs", "Programs"]);
  const section = page.getByRole("region", { name: "Application <b>shop</b>" });
  await section.getByText(/worker 1: it has ended$/).waitFor();
  const text = await section.innerText();
  assert.ok(text.indexOf("it has ended") < text.indexOf("ValueError"), "the latest first");
  await section.getByText(`${record.request}, worker 1 (2 times): ValueError: ${MARKUP}`).click();
  const stack = section.locator("pre");
  await stack.getByText("Traceback (most recent call last)").waitFor();
  assert.ok((await stack.innerText()).startsWith(`${PATH_MARKUP}\nTraceback`));
  await checkAccess(page, "errors of an application");
  await checkWidths(page, "errors of an application");
  await page.unroute("**/v1/apps");
}

async function configuration(page) {
  await visit(page, ["configuration", "Configuration"]);
  const editor = page.locator("textarea.editor");
  const text = await editor.inputValue();
  await editor.fill(text.replace("handler: { respond", "handlre: { respond"));
  await page.getByRole("button", { name: "Check" }).click();
  const wrong = page.getByRole("list", { name: "Errors" }).locator("li.wrong").first();
  await wrong.getByText(/handlre: \{ respond/).waitFor();
  await wrong.getByText(/did you mean "handler"/).waitFor();
  const changed = text.replace("name: plain", "name: renamed");
  assert.notEqual(changed, text);
  await editor.fill(changed);
  await page.getByRole("button", { name: "Apply …" }).click();
  const dialog = page.getByRole("dialog").filter({ visible: true });
  await dialog.getByText('route "renamed" added').waitFor();
  await dialog.getByRole("button", { name: "Apply" }).click();
  await page.getByText(/is in use: /).waitFor();
  await page.getByRole("button", { name: /^Roll back to / }).first().click();
  await page.getByRole("dialog").filter({ visible: true }).getByRole("button", { name: "Roll back" }).click();
  await page.getByText(/is in use again/).waitFor();
  await page.waitForFunction((was) => document.querySelector("textarea.editor")?.value === was, text);
}

// Suggestions from the schema, and a filter from its form.
async function assistance(page) {
  await visit(page, ["configuration", "Configuration"]);
  const editor = page.locator("textarea.editor");
  await page.getByText("Suggestions appear while you type a word").waitFor();
  await editor.focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("\nlog:\n  lev");
  const suggestions = page.getByRole("listbox", { name: "Suggestions" });
  await suggestions.getByRole("option", { name: /^level / }).waitFor();
  await checkAccess(page, "suggestions");
  await page.keyboard.press("ArrowDown");
  // What is typed before the page is drawn again comes after what was chosen.
  await page.evaluate(() => {
    const { requestAnimationFrame } = window;
    const late = [];
    window.requestAnimationFrame = (draw) => late.push(draw);
    window.drawLate = () => {
      window.requestAnimationFrame = requestAnimationFrame;
      late.forEach((draw) => draw(performance.now()));
    };
  });
  await page.keyboard.press("Enter");
  await page.keyboard.type("w");
  await page.evaluate(() => window.drawLate());
  await page.keyboard.type("ar");
  await suggestions.getByRole("option", { name: /^warn / }).click();
  await page.waitForFunction(() => document.querySelector("textarea.editor").value.endsWith("\nlog:\n  level: warn"));
  await page.keyboard.type("\n# ");
  await suggestions.waitFor({ state: "hidden" });
  await page.getByText("Write a filter with a form").click();
  const form = page.getByRole("form", { name: "Filter" });
  await form.getByRole("combobox").first().selectOption("compress");
  await form.getByLabel("min_size").fill("2KiB");
  await form.getByLabel(/^codings/).fill("br\ngzip");
  await checkAccess(page, "the form of a filter");
  await form.getByRole("button", { name: "Insert at the caret" }).click();
  await page.waitForFunction(() =>
    document.querySelector("textarea.editor").value.endsWith("# - compress: { codings: [br, gzip], min_size: \"2KiB\" }"));
  await page.getByRole("button", { name: "Discard changes" }).click();
}

async function events(page) {
  await visit(page, ["overview", "Overview"]);
  await page.getByRole("region", { name: "Events" }).getByText(/^configuration .* is in use$/).first().waitFor();
}

async function consumers(page) {
  await visit(page, ["consumers", "Consumers"]);
  await page.getByRole("button", { name: MARKUP }).click();
  await page.getByRole("heading", { level: 3, name: MARKUP }).waitFor();
}

// A server whose configuration is a file says how several share one.
async function nodes(page) {
  await visit(page, ["nodes", "Nodes"]);
  const alone = page.getByRole("region", { name: "No fleet" });
  await alone.getByText("tidegate up etcd://").waitFor();
}

async function benchmarks(page) {
  await visit(page, ["benchmarks", "Benchmarks"]);
  const run = (us) => ({
    name: "data.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify({
      version: 1, date: "2026-11-20", complete: true,
      machine: { cpu: "x", cores: 2, kernel: "6" },
      records: [{
        server: MARKUP, scenario: "hello", connections: 1, workers: 1, cpu_us_per_request: us,
        requests_per_second: 1000, latency_ms: { p50: 1, p99: 2 }, rss_bytes: 1024, errors: 0,
        disturbed: null,
      }],
    })),
  });
  await page.getByLabel("data.json").setInputFiles(run(11));
  await page.getByLabel("Compared with").setInputFiles(run(10));
  await page.getByText("11.00 µs (+10.0 %)").waitFor();
}

async function theme(page) {
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByLabel("Theme").selectOption("dark");
  const isShown = (color) => page.waitForFunction(
    (wanted) => getComputedStyle(document.body).backgroundColor === wanted, color);
  await isShown("rgb(14, 23, 28)");
  await page.getByLabel("Theme").selectOption("light");
  await isShown("rgb(246, 248, 249)");
}

async function reader(browser) {
  const { context, page } = await open(browser);
  await logIn(page, "only-looks");
  await visit(page, ["upstreams", "Upstreams"]);
  await page.getByRole("table").first().waitFor();
  assert.equal(await page.getByRole("button", { name: /^Drain / }).count(), 0);
  await visit(page, ["caches", "Caches"]);
  await page.getByRole("button", { name: "List stored responses" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Purge/ }).count(), 0);
  await visit(page, ["configuration", "Configuration"]);
  await page.getByText("Secrets are masked").waitFor();
  assert.equal(await page.getByRole("button", { name: "Check" }).count(), 0);
  assert.equal(await page.getByText("Write a filter with a form").count(), 0);
  await visit(page, ["routes", "Routes"]);
  await page.getByRole("button", { name: "Explain" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Send" }).count(), 0);
  await visit(page, ["programs", "Programs"]);
  await page.getByRole("region", { name: "Lua files" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Restart/ }).count(), 0);
  // What the page does not offer, the server refuses as well.
  const refused = await page.evaluate(async () => {
    const { proof } = JSON.parse(localStorage.getItem("tidegate-session"));
    const headers = { "Tidegate-Session": proof };
    const statuses = ["/v1/reload", "/v1/send", "/v1/config/check", "/v1/lua/restart"].map(async (path) =>
      (await fetch(path, { method: "POST", headers, body: "{}" })).status);
    return Promise.all(statuses);
  });
  assert.deepEqual(refused, [403, 403, 403, 403]);
  await context.close();
}

// A page of another port of the same host, in the browser of an operator that has logged in.
async function foreignPage(context) {
  const page = await context.newPage();
  const statuses = [];
  page.on("response", (response) => {
    if (response.url().includes("/v1/")) statuses.push(response.status());
  });
  await page.goto(`http://${gateway}/page`);
  await page.evaluate(async (to) => {
    const options = { credentials: "include", mode: "no-cors" };
    await fetch(`http://${to}/v1/reload`, { ...options, method: "POST" }).catch(() => undefined);
    await fetch(`http://${to}/v1/routes`, options).catch(() => undefined);
  }, admin);
  assert.deepEqual(statuses, [403, 403], "requests of another origin");
  await page.close();
}

// A name that another page has resolve to this server (DNS rebinding).
async function rebinding() {
  const [host, port] = admin.split(":");
  for (const path of ["/console/", "/console/console.js", "/v1/session", "/v1/routes", "/metrics"]) {
    const status = await new Promise((resolve, reject) => {
      const sent = request({ host, port, path, headers: { host: "evil.example" } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on("error", reject);
      sent.end();
    });
    assert.ok(status === 421 || status === 401, `${path} of another host: ${status}`);
  }
}

// A session that ends on the server ends on the page.
async function expired(browser) {
  const { context, page } = await open(browser);
  await logIn(page, "open-sesame");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.evaluate(async () => {
    const { proof } = JSON.parse(localStorage.getItem("tidegate-session"));
    await fetch("/v1/session", { method: "DELETE", headers: { "Tidegate-Session": proof } });
  });
  await page.getByLabel("Token").waitFor();
  await context.close();
}

async function main() {
  const browser = await launch();
  const { context, page } = await open(browser);
  await checkAccess(page, "the login");
  await checkWidths(page, "the login");
  await logIn(page, "wrong");
  await page.getByRole("alert").getByText("this is not the admin token").waitFor();
  await logIn(page, "open-sesame");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await everyPage(page);
  const steps = [
    traffic, routes, upstreams, breakers, health, caches, programs, applications, limits, configuration, assistance, events, consumers, nodes,
    benchmarks, theme,
  ];
  for (const step of steps) {
    await step(page);
  }
  await foreignPage(context);
  await reader(browser);
  await rebinding();
  await expired(browser);
  assert.equal(await page.evaluate(() => window.attacked), undefined, "markup was run");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(async () => (await fetch("/v1/routes")).status), 401);
  // A link with a token logs in, and does not stay in the address.
  await page.goto("about:blank");
  await page.goto(`${base}#token=open-sesame`);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.ok(!page.url().includes("open-sesame"));
  assert.deepEqual(errors, []);
  await browser.close();
  console.log("done");
}

main().catch((error) => { console.error(error); process.exit(1); });
