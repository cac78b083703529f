// Caches: what they hold, their top responses, why a URL is a miss, purges.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, inPath, json, may, post } from "../api";
import { bytes, count, share, span, total } from "../format";
import { Confirm, Failure, Field, Table, useAction, useLoaded } from "../parts";
import type { Cache, CacheEntry, PurgePreview, TopEntries } from "../types";

const EVERY_MS = 3000;
const TOP_EVERY_MS = 10_000;
const TOP = 10;
const ORDERS = [
  { by: "by_hits", label: "Most hits" },
  { by: "by_memory", label: "Most memory" },
] as const;
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

/** A URL that was chosen in the list of the top responses; another choice is another object. */
interface Chosen {
  url: string;
}

/** A number that an entry may not have. */
function known(n: number | null, shown: (n: number) => string): string {
  return n === null ? "–" : shown(n);
}

interface TopProps {
  cache: string;
  /** Changes when something was purged. */
  turn: number;
  onLookUp: (chosen: Chosen) => void;
  onPurge: (chosen: Chosen) => void;
}

function TopRow({ entry, onLookUp, onPurge }: { entry: CacheEntry } & Omit<TopProps, "cache" | "turn">) {
  return (
    <tr>
      <td class="wide">
        {entry.url} {entry.coding && <span class="tag soft">{entry.coding}</span>}
      </td>
      <td>{count(entry.hits)}</td>
      <td>{bytes(entry.memory_bytes)}</td>
      <td>{known(entry.bytes, bytes)}</td>
      <td>{known(entry.age_s, span)}</td>
      <td>{known(entry.fresh_s, span)}</td>
      <td>
        {entry.masked ? (
          <span class="soft">its query has a secret</span>
        ) : (
          <>
            <button type="button" aria-label={`Look up ${entry.url}`} onClick={() => onLookUp({ url: entry.url })}>
              Look up
            </button>{" "}
            {may("purge") && (
              <button type="button" aria-label={`Purge … ${entry.url}`} onClick={() => onPurge({ url: entry.url })}>
                Purge …
              </button>
            )}
          </>
        )}
      </td>
    </tr>
  );
}

function Top({ cache, turn, ...actions }: TopProps) {
  const load = () => json<TopEntries>(path(cache, `/top?limit=${TOP}`));
  const { value, error } = useLoaded(load, TOP_EVERY_MS, [cache, turn]);
  return (
    <>
      <Failure error={error} />
      {ORDERS.filter(({ by }) => value !== null && value[by].length > 0).map(({ by, label }) => (
        <div key={by}>
          <h3>{label}</h3>
          <Table
            label={`${label} in ${cache}`}
            head={["URL", "Hits", "Memory", "Content", "Age", "Fresh for", "Actions"]}
          >
            {value?.[by].map((entry, index) => <TopRow key={index} entry={entry} {...actions} />)}
          </Table>
        </div>
      ))}
    </>
  );
}

function LookUp({ cache, chosen }: { cache: string; chosen: Chosen | null }) {
  const [url, setUrl] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const [text, setText] = useState<string | null>(null);
  const [page, setPage] = useState<Page | null>(null);
  const action = useAction();
  const explain = (url: string) =>
    action.run(async () => {
      setPage(null);
      const query = new URLSearchParams({ url });
      const response = await call(path(cache, `/explain?${query}`), { headers: { Accept: "text/plain" } });
      setText(await response.text());
    });
  useEffect(() => {
    if (!chosen) return;
    setUrl(chosen.url);
    explain(chosen.url);
    form.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
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
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          explain(url);
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
          <Table label={`Responses stored in ${cache}`} head={["URL", "Status", "Size", "Hits", "Age", "Fresh for", "Tags"]}>
            {page.entries.map((entry, index) => (
              <tr key={index}>
                <td>{entry.url}</td>
                <td>{entry.status ?? entry.kind}</td>
                <td>{known(entry.bytes, bytes)}</td>
                <td>{count(entry.hits)}</td>
                <td>{known(entry.age_s, span)}</td>
                <td>{known(entry.fresh_s, span)}</td>
                <td>{count(entry.tags)}</td>
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

function Preview({ preview, isSoft }: { preview: PurgePreview; isSoft: boolean }) {
  const { responses, urls } = preview;
  if (responses === 0) {
    return <p>No stored response is found now; a purge also stops responses that are being fetched.</p>;
  }
  const number = `${preview.is_upper_bound ? "At most " : ""}${count(responses)}`;
  return (
    <>
      <p>{`${number} stored responses ${isSoft ? "become stale" : "are removed"}:`}</p>
      <ul class="list">
        {urls.map((url) => (
          <li key={url}>{url}</li>
        ))}
        {urls.length < responses && <li class="soft">and others, or other variants of these</li>}
      </ul>
    </>
  );
}

interface PurgeFormProps {
  cache: Cache;
  chosen: Chosen | null;
  onPurged: () => void;
}

function PurgeForm({ cache, chosen, onPurged }: PurgeFormProps) {
  const [kind, setKind] = useState<Purge>("url");
  const [what, setWhat] = useState("");
  const [isSoft, setSoft] = useState(false);
  const [preview, setPreview] = useState<PurgePreview | null>(null);
  const action = useAction();
  /** The purge as the API has it. */
  const body = (kind: Purge, what: string) => {
    const value = kind === "all" ? true : kind === "tags" || kind === "groups" ? words(what) : what;
    return { [kind]: value, soft: isSoft };
  };
  const ask = (kind: Purge, what: string) =>
    action.run(async () => {
      setPreview(await post<PurgePreview>(path(cache.name, "/preview"), body(kind, what)));
    });
  useEffect(() => {
    if (!chosen) return;
    setKind("url");
    setWhat(chosen.url);
    ask("url", chosen.url);
  }, [chosen]);
  const purge = () =>
    action.run(async () => {
      const { purged } = await post<{ purged: number }>(path(cache.name, "/purge"), body(kind, what));
      onPurged();
      return `${purged} responses ${isSoft ? "are stale now" : "were removed"}.`;
    });
  return (
    <>
      <h3>Purge</h3>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask(kind, what);
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
        {preview && <Preview preview={preview} isSoft={isSoft} />}
      </Confirm>
    </>
  );
}

/** What can be done with the responses of a cache, and its top ones. */
function Contents({ cache, onPurged }: { cache: Cache; onPurged: () => void }) {
  const [lookedUp, setLookedUp] = useState<Chosen | null>(null);
  const [purged, setPurged] = useState<Chosen | null>(null);
  const [turn, setTurn] = useState(0);
  const changed = () => {
    setTurn((n) => n + 1);
    onPurged();
  };
  return (
    <>
      <Top cache={cache.name} turn={turn} onLookUp={setLookedUp} onPurge={setPurged} />
      <LookUp cache={cache.name} chosen={lookedUp} />
      {may("purge") && <PurgeForm cache={cache} chosen={purged} onPurged={changed} />}
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
            <Contents cache={cache} onPurged={reload} />
          </section>
        );
      })}
    </>
  );
}
