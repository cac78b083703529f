// All routes in the order in which they are tried, and what would happen to a request.
import { useMemo, useState } from "preact/hooks";
import { call, json, may, post } from "../api";
import { count, micros, total } from "../format";
import { Failure, Field, Table, useAction, useLoaded, VirtualRows } from "../parts";
import type { Route, SentResponse } from "../types";

const EVERY_MS = 5000;

function Sent({ sent }: { sent: SentResponse }) {
  return (
    <section aria-label="Response">
      <h3>{`${sent.status} from ${sent.listener} in ${micros(sent.duration_us)}`}</h3>
      <Table label="Fields of the response" head={["Field", "Value"]}>
        {sent.headers.map(([name, value], index) => (
          <tr key={index}>
            <td>{name}</td>
            <td>{value}</td>
          </tr>
        ))}
      </Table>
      {sent.body !== "" && <pre tabIndex={0}>{sent.body}</pre>}
      {sent.is_cut && <p class="soft">Only the beginning of the content is shown.</p>}
      <Failure error={sent.failed} />
    </section>
  );
}

function Explain() {
  const [method, setMethod] = useState("GET");
  const [url, setUrl] = useState("");
  const [client, setClient] = useState("");
  const [listener, setListener] = useState("");
  const [fields, setFields] = useState("");
  const [content, setContent] = useState("");
  const [text, setText] = useState<string | null>(null);
  const [sent, setSent] = useState<SentResponse | null>(null);
  const action = useAction();
  /** The request as the API has it. */
  const request = () => {
    setText(null);
    setSent(null);
    const headers: Record<string, string[]> = {};
    for (const line of fields.split("\n").filter((one) => one.trim())) {
      const at = line.indexOf(":");
      if (at < 1) throw new Error(`"${line}": expected "name: value"`);
      const name = line.slice(0, at).trim();
      headers[name] = [...(headers[name] ?? []), line.slice(at + 1).trim()];
    }
    const body: Record<string, unknown> = { method, url, headers };
    if (client.trim()) body["client_ip"] = client.trim();
    if (listener.trim()) body["listener"] = listener.trim();
    return body;
  };
  const explain = () =>
    action.run(async () => {
      const body = request();
      const response = await call("/v1/explain", {
        method: "POST",
        body: JSON.stringify(body),
        headers: { Accept: "text/plain" },
      });
      setText(await response.text());
    });
  const send = () =>
    action.run(async () => {
      const body = request();
      if (content) body["body"] = content;
      setSent(await post<SentResponse>("/v1/send", body));
    });
  return (
    <section aria-label="Explain">
      <h2>Compose a request</h2>
      <p class="soft">Explain shows which route it would take and why; Send sends it to a listener of this server.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          explain();
        }}
      >
        <Field label="Method">
          <input value={method} size={8} onInput={(event) => setMethod(event.currentTarget.value)} />
        </Field>
        <label class="field wide">
          <span>URL</span>
          <input
            name="url"
            required
            value={url}
            placeholder="http://shop.example.com/cart"
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
        </label>
        <Field label="Client address">
          <input value={client} onInput={(event) => setClient(event.currentTarget.value)} />
        </Field>
        <Field label="Listener">
          <input value={listener} onInput={(event) => setListener(event.currentTarget.value)} />
        </Field>
        <label class="field wide">
          <span>Header fields, one a line</span>
          <textarea
            rows={2}
            value={fields}
            placeholder="accept-language: de"
            onInput={(event) => setFields(event.currentTarget.value)}
          />
        </label>
        <label class="field wide">
          <span>Content, if it is sent</span>
          <textarea rows={2} value={content} onInput={(event) => setContent(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={action.isBusy}>
          Explain
        </button>
        {may("write") && (
          <button type="button" disabled={action.isBusy || !url} onClick={send}>
            Send
          </button>
        )}
      </form>
      {action.note}
      {text !== null && <pre tabIndex={0}>{text}</pre>}
      {sent && <Sent sent={sent} />}
    </section>
  );
}

export function Routes() {
  const { value, error, reload } = useLoaded(() => json<{ routes: Route[] }>("/v1/routes"), EVERY_MS);
  const [search, setSearch] = useState("");
  const routes = value?.routes ?? [];
  const found = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const numbered = routes.map((route, index) => ({ route, index }));
    if (words.length === 0) return numbered;
    return numbered.filter(({ route }) => {
      const text = `${route.name} ${route.match} ${route.handler} ${route.filters.join(" ")}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [value, search]);
  return (
    <>
      <Explain />
      <form onSubmit={(event) => event.preventDefault()}>
        <label class="field wide">
          <span>Search names, matches, filters and handlers</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <button type="button" onClick={reload}>
          Refresh
        </button>
      </form>
      <Failure error={error} />
      <p class="soft" role="status">
        {`${found.length} of ${routes.length} routes, in the order in which they are tried`}
      </p>
      <VirtualRows
        label="Routes"
        rows={found}
        height={74}
        render={({ route, index }) => (
          <>
            <div class="line">
              <span>
                <span class="soft num">{`${index + 1}. `}</span>
                <b>{route.name}</b>
              </span>
              <span class="num">{`${count(total(route.requests))} requests`}</span>
              <span class={route.requests["5xx"] ? "num bad" : "num"}>{`${count(route.requests["5xx"] ?? 0)} 5xx`}</span>
            </div>
            <div class="line small">
              <span title={route.match}>{route.match}</span>
              <span class="num">
                {route.latency_below_us === null ? "" : `p99 below ${micros(route.latency_below_us.p99)}`}
              </span>
            </div>
            <div class="line small">
              <span>{[...route.filters, route.handler].join(" → ")}</span>
            </div>
          </>
        )}
      />
    </>
  );
}
