// Caches: what they hold, why a URL is a miss, purges.
import { useState } from "preact/hooks";
import { call, inPath, json, may, post } from "../api";
import { bytes, count, share, span, total } from "../format";
import { Confirm, Failure, Field, Table, useAction, useLoaded } from "../parts";
import type { Cache, CacheEntry } from "../types";

const EVERY_MS = 3000;
const SHOWN = 100;
const PURGES = [
  { kind: "url", label: "URL, with all variants" },
  { kind: "prefix", label: "URLs with this prefix" },
  { kind: "tags", label: "Tags" },
  { kind: "groups", label: "Groups" },
  { kind: "all", label: "Everything" },
] as const;
type Purge = (typeof PURGES)[number]["kind"];

function path(cache: string, rest: string): string {
  return `/v1/caches/${inPath(cache)}${rest}`;
}

interface Page {
  entries: CacheEntry[];
  next: number | null;
}

function LookUp({ cache }: { cache: string }) {
  const [url, setUrl] = useState("");
  const [text, setText] = useState<string | null>(null);
  const [page, setPage] = useState<Page | null>(null);
  const action = useAction();
  const explain = () =>
    action.run(async () => {
      setPage(null);
      const query = new URLSearchParams({ url });
      const response = await call(path(cache, `/explain?${query}`), { headers: { Accept: "text/plain" } });
      setText(await response.text());
    });
  const list = (after: number | null) =>
    action.run(async () => {
      setText(null);
      const query = new URLSearchParams({ prefix: url, limit: String(SHOWN) });
      if (after !== null) query.set("after", String(after));
      setPage(await json<Page>(path(cache, `/entries?${query}`)));
    });
  return (
    <>
      <h3>Look up</h3>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          explain();
        }}
      >
        <label class="field wide">
          <span>URL</span>
          <input value={url} placeholder="http://shop.example.com/" onInput={(event) => setUrl(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={action.isBusy || !url}>
          Hit or miss, and why
        </button>
        <button type="button" disabled={action.isBusy} onClick={() => list(null)}>
          List stored responses
        </button>
      </form>
      {action.note}
      {text !== null && <pre tabIndex={0}>{text}</pre>}
      {page && (
        <>
          <Table label={`Responses stored in ${cache}`} head={["URL", "Status", "Size", "Age", "Fresh for", "Tags"]}>
            {page.entries.map((entry, index) => (
              <tr key={index}>
                <td>{entry.url}</td>
                <td>{entry.status}</td>
                <td>{bytes(entry.bytes)}</td>
                <td>{span(entry.age_s)}</td>
                <td>{span(entry.fresh_s)}</td>
                <td>{(entry.tags ?? []).join(", ")}</td>
              </tr>
            ))}
          </Table>
          {page.entries.length === 0 && <p class="soft">No stored response has a URL that begins so.</p>}
          {page.next !== null && (
            <button type="button" onClick={() => list(page.next)}>
              More
            </button>
          )}
        </>
      )}
    </>
  );
}

/** The words of a list, separated by commas or spaces. */
function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function PurgeForm({ cache, onPurged }: { cache: Cache; onPurged: () => void }) {
  const [kind, setKind] = useState<Purge>("url");
  const [what, setWhat] = useState("");
  const [isSoft, setSoft] = useState(false);
  const [preview, setPreview] = useState<string[] | null>(null);
  const action = useAction();
  const ask = () =>
    action.run(async () => {
      if (kind === "tags" || kind === "groups") {
        setPreview([`responses with ${kind} ${words(what).join(", ")}; the server finds them`]);
        return;
      }
      const query = new URLSearchParams({ prefix: kind === "all" ? "" : what, limit: String(SHOWN) });
      const page = await json<Page>(path(cache.name, `/entries?${query}`));
      const urls = page.entries.map((entry) => entry.url).filter((url) => kind !== "url" || url === what);
      setPreview(page.next === null ? urls : [...urls, "… and perhaps more"]);
    });
  const purge = () =>
    action.run(async () => {
      const value = kind === "all" ? true : kind === "tags" || kind === "groups" ? words(what) : what;
      const body: Record<string, unknown> = { [kind]: value };
      if (isSoft) body["soft"] = true;
      const { purged } = await post<{ purged: number }>(path(cache.name, "/purge"), body);
      onPurged();
      return `${purged} responses ${isSoft ? "are stale now" : "were removed"}.`;
    });
  return (
    <>
      <h3>Purge</h3>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <Field label="What">
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Purge)}>
            {PURGES.map((one) => (
              <option key={one.kind} value={one.kind}>
                {one.label}
              </option>
            ))}
          </select>
        </Field>
        {kind !== "all" && (
          <label class="field wide">
            <span>{PURGES.find((one) => one.kind === kind)?.label}</span>
            <input name="purge" required value={what} onInput={(event) => setWhat(event.currentTarget.value)} />
          </label>
        )}
        <label>
          <input type="checkbox" checked={isSoft} onChange={(event) => setSoft(event.currentTarget.checked)} /> Only make
          stale
        </label>
        <button type="submit" class="danger" disabled={action.isBusy}>
          Purge …
        </button>
      </form>
      {action.note}
      <Confirm
        title={`Purge ${cache.name}?`}
        confirm={isSoft ? "Make stale" : "Purge"}
        isOpen={preview !== null}
        onConfirm={purge}
        onClose={() => setPreview(null)}
      >
        {preview?.length === 0 && <p>No stored response is found now; a purge also stops responses that are being fetched.</p>}
        <ul class="list">{preview?.map((url, index) => <li key={index}>{url}</li>)}</ul>
      </Confirm>
    </>
  );
}

export function Caches() {
  const { value, error, reload } = useLoaded(() => json<{ caches: Cache[] }>("/v1/caches"), EVERY_MS);
  return (
    <>
      <Failure error={error} />
      {value?.caches.length === 0 && <p class="soft">The configuration has no caches.</p>}
      {value?.caches.map((cache) => {
        const hits = total(cache.hits) + total(cache.stale);
        const looked = hits + total(cache.misses);
        const figures: [string, string][] = [
          ["Hit ratio", share(looked > 0 ? hits / looked : null)],
          ["Hits", count(hits)],
          ["Misses", count(total(cache.misses))],
          ["Passes", count(total(cache.passes))],
          ["Coalesced", count(cache.coalesced)],
          ["Responses", count(cache.objects)],
          ["Memory", `${bytes(cache.bytes)} of ${bytes(cache.memory_bytes)}`],
        ];
        if (cache.disk) figures.push(["Disk", `${bytes(cache.disk.bytes)} of ${bytes(cache.disk.size_bytes)}`]);
        return (
          <section key={cache.name} aria-label={`Cache ${cache.name}`}>
            <h2>{cache.name}</h2>
            <p class="soft">{`Routes: ${cache.routes.join(", ")}`}</p>
            {cache.disk?.failed && <Failure error={`The disk is not used: ${cache.disk.failed}`} />}
            <dl class="figures">
              {figures.map(([name, text]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
            <LookUp cache={cache.name} />
            {may("purge") && <PurgeForm cache={cache} onPurged={reload} />}
          </section>
        );
      })}
    </>
  );
}
