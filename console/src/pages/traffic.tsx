// The live log: requests as they end, and the steps of one of them.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, explained } from "../api";
import { dateTime, micros } from "../format";
import { Failure, Field, VirtualRows } from "../parts";
import type { Attributes, LoggedRequest } from "../types";

/** Requests that the page keeps; the oldest is removed first. */
const KEPT = 1000;
const PAINT_MS = 250;
/** The response is open while the page watches; a line of a request is far shorter than this. */
const LINE_MAX = 4 << 20;

interface Filters {
  route: string;
  status: string;
  slow: string;
  address: string;
  where: string;
}

const NONE: Filters = { route: "", status: "", slow: "", address: "", where: "" };

function query(filters: Filters): string {
  const parameters = new URLSearchParams();
  const add = (name: string, value: string) => value.trim() && parameters.append(name, value.trim());
  add("route", filters.route);
  add("status", filters.status);
  add("slow", filters.slow);
  // The text of a condition has no escapes: an address has no quotation mark.
  const address = filters.address.trim().replaceAll('"', "");
  if (address) parameters.append("where", `client_ip == "${address}"`);
  add("where", filters.where);
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

async function* lines(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    if (rest.length > LINE_MAX) throw new Error("a line of the live log is too long");
    for (const part of parts) if (part.trim()) yield part;
  }
}

function isRequest(value: unknown): value is LoggedRequest {
  return typeof value === "object" && value !== null && "steps" in value;
}

interface Watched {
  requests: LoggedRequest[];
  dropped: number;
  error: string | null;
}

/** Watches while `filters` is set; a line is shown at the next repaint. */
function useLog(filters: Filters | null): Watched & { clear: () => void } {
  const [shown, setShown] = useState<Watched>({ requests: [], dropped: 0, error: null });
  const kept = useRef<Watched>({ requests: [], dropped: 0, error: null });
  useEffect(() => {
    if (!filters) return;
    const abort = new AbortController();
    let isDirty = false;
    const timer = window.setInterval(() => {
      if (isDirty) setShown({ ...kept.current });
      isDirty = false;
    }, PAINT_MS);
    const change = (next: Partial<Watched>) => {
      kept.current = { ...kept.current, ...next };
      isDirty = true;
    };
    const follow = async () => {
      change({ error: null });
      const response = await call(`/v1/log${query(filters)}`, { signal: abort.signal });
      for await (const line of lines(response)) {
        const value: unknown = JSON.parse(line);
        if (isRequest(value)) change({ requests: [value, ...kept.current.requests].slice(0, KEPT) });
        else if (typeof value === "object" && value !== null && "dropped" in value) {
          change({ dropped: kept.current.dropped + Number(value.dropped) });
        }
      }
      change({ error: "the live log has ended" });
    };
    follow().catch((error: unknown) => {
      if (!abort.signal.aborted) change({ error: explained(error) });
    });
    return () => {
      abort.abort();
      window.clearInterval(timer);
    };
  }, [filters]);
  const clear = () => {
    kept.current = { requests: [], dropped: 0, error: null };
    setShown(kept.current);
  };
  return { ...shown, clear };
}

function text(attributes: Attributes, name: string): string {
  const value = attributes[name];
  return value === undefined ? "" : String(value);
}

function Pairs({ attributes }: { attributes: Attributes }) {
  return (
    <dl class="pairs">
      {Object.entries(attributes).map(([name, value]) => (
        <>
          <dt key={`${name} name`}>{name}</dt>
          <dd key={name}>{String(value)}</dd>
        </>
      ))}
    </dl>
  );
}

function Steps({ request }: { request: LoggedRequest }) {
  const all = Math.max(request.duration_us, 1);
  return (
    <ol class="steps" aria-label="Steps">
      {request.steps.map((step, index) => {
        // What was before the request, the accept for example, is drawn at its begin.
        const from = Math.min(Math.max(step.at_us, 0) / all, 1) * 100;
        const width = Math.min((step.at_us < 0 ? 0 : step.took_us) / all, 1) * 100;
        return (
          <li key={index} style={{ paddingLeft: `${Math.min(step.depth, 8) * 0.9}rem` }}>
            <div class="line">
              <span>
                <b>{step.name}</b>
                {step.failed && <span class="bad"> failed</span>}
              </span>
              <span class="num soft">{`at ${step.at_us < 0 ? "−" : ""}${micros(Math.abs(step.at_us))}`}</span>
              <span class="num">{micros(step.took_us)}</span>
            </div>
            <div class="bar" aria-hidden="true">
              <i class={step.failed ? "bad" : ""} style={{ left: `${from}%`, width: `${width}%` }} />
            </div>
            {Object.keys(step.attributes).length > 0 && <Pairs attributes={step.attributes} />}
          </li>
        );
      })}
    </ol>
  );
}

function Detail({ request, onClose }: { request: LoggedRequest; onClose: () => void }) {
  const { attributes } = request;
  return (
    <section aria-label="Request">
      <div class="line">
        <h2 class="mono">{`${text(attributes, "http.request.method")} ${text(attributes, "url.path")}`}</h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <p>
        {`${dateTime(request.time)}, ${micros(request.duration_us)}`}
        {request.match === undefined ? "" : `, matches ${request.match}`}
      </p>
      <Steps request={request} />
      {request.steps_dropped > 0 && <p class="soft">{`${request.steps_dropped} more steps were not recorded.`}</p>}
      <h3>Request</h3>
      <Pairs attributes={{ trace_id: request.trace_id, ...attributes }} />
    </section>
  );
}

export function Traffic() {
  const [typed, setTyped] = useState(NONE);
  const [watched, setWatched] = useState<Filters | null>(NONE);
  const [opened, setOpened] = useState<LoggedRequest | null>(null);
  const { requests, dropped, error, clear } = useLog(watched);
  const field = (name: keyof Filters, label: string, placeholder: string) => (
    <Field label={label}>
      <input
        name={name}
        value={typed[name]}
        placeholder={placeholder}
        onInput={(event) => setTyped({ ...typed, [name]: event.currentTarget.value })}
      />
    </Field>
  );
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          clear();
          setWatched({ ...typed });
        }}
      >
        {field("route", "Route", "name")}
        {field("status", "Status", "5xx, 404, 400-499")}
        {field("slow", "At least", "200ms")}
        {field("address", "Client address", "10.0.0.9")}
        {field("where", "Condition", 'method == "POST"')}
        <button type="submit">{watched ? "Apply" : "Watch"}</button>
        <button type="button" disabled={!watched} onClick={() => setWatched(null)}>
          Pause
        </button>
        <button type="button" onClick={clear}>
          Clear
        </button>
      </form>
      <Failure error={error} />
      <p class="soft" role="status">
        {watched ? `Watching: ${requests.length} requests shown` : `Paused: ${requests.length} requests shown`}
        {dropped > 0 && `, ${dropped} dropped`}
      </p>
      {opened && <Detail request={opened} onClose={() => setOpened(null)} />}
      <VirtualRows
        label="Requests"
        rows={requests}
        height={52}
        render={(request) => {
          const status = text(request.attributes, "http.response.status_code");
          const isBad = request.failed || status.startsWith("5");
          return (
            <button type="button" class="row" onClick={() => setOpened(request)}>
              <span class="line">
                <span class="mono">
                  {`${text(request.attributes, "http.request.method")} ${text(request.attributes, "url.path")}`}
                </span>
                <span class={isBad ? "num bad" : "num"}>{status || "–"}</span>
                <span class="num">{micros(request.duration_us)}</span>
              </span>
              <span class="line small">
                <span>{text(request.attributes, "tidegate.route")}</span>
                <span class="num">{text(request.attributes, "client.address")}</span>
                <span class="num">{new Date(request.time).toLocaleTimeString("en-GB")}</span>
              </span>
            </button>
          );
        }}
      />
    </>
  );
}
