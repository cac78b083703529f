// Upstreams and their servers: health, load, draining, weights, circuit breakers.
import { useState } from "preact/hooks";
import { inPath, json, may, post } from "../api";
import { count, dateTime, micros, share, some, span } from "../format";
import { Failure, Note, Table, useAction, useLoaded } from "../parts";
import type { Action } from "../parts";
import type { Breaker, HealthChange, Server, Upstream } from "../types";

const EVERY_MS = 2000;

interface RowProps {
  upstream: Upstream;
  server: Server;
  action: Action;
  onChange: () => void;
}

function Row({ upstream, server, action, onChange }: RowProps) {
  const [weight, setWeight] = useState<string | null>(null);
  const change = (what: { drain?: boolean; weight?: number }, done: string) =>
    action.run(async () => {
      await post(`/v1/upstreams/${inPath(upstream.name)}/servers`, { server: server.address, ...what });
      setWeight(null);
      onChange();
      return `${server.address} ${done} until the next reload.`;
    });
  const isDraining = server.state === "draining";
  const lastChange = server.last_change;
  return (
    <tr>
      <td>
        {server.address}
        {server.server !== server.address && <div class="soft">{server.server}</div>}
        {server.backup && <span class="tag soft">backup</span>} {server.changed && <span class="tag soft">changed</span>}
      </td>
      <td class={server.healthy ? "good" : "bad"}>
        {server.state}
        {server.ejected_for_ms > 0 && <div class="soft">{`for ${span(Math.ceil(server.ejected_for_ms / 1000))}`}</div>}
      </td>
      <td>{server.in_flight}</td>
      <td>{server.connections}</td>
      <td>{micros(server.latency_us)}</td>
      <td>
        {may("write") ? (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              change({ weight: Number(weight ?? server.weight) }, `has the weight ${weight ?? server.weight}`);
            }}
          >
            <input
              type="number"
              min={1}
              max={1000}
              aria-label={`Weight of ${server.address}`}
              value={weight ?? server.weight}
              onInput={(event) => setWeight(event.currentTarget.value)}
            />
            {weight !== null && (
              <button type="submit" disabled={action.isBusy}>
                Set
              </button>
            )}
          </form>
        ) : (
          server.weight
        )}
      </td>
      <td>{server.last_error ?? ""}</td>
      <td>{lastChange && `${dateTime(lastChange.at)} ${lastChange.state}: ${lastChange.why}`}</td>
      <td>
        {may("write") && server.state !== "removed" && (
          <button
            type="button"
            disabled={action.isBusy}
            aria-label={`${isDraining ? "Resume" : "Drain"} ${server.address}`}
            onClick={() => change({ drain: !isDraining }, isDraining ? "gets requests again" : "gets no further requests")}
          >
            {isDraining ? "Resume" : "Drain"}
          </button>
        )}
      </td>
    </tr>
  );
}

/** A share of the results that a breaker counts. */
function shareOf(part: number, breaker: Breaker): string {
  if (breaker.requests === 0) return "–";
  return `${share(part / breaker.requests)} of ${count(breaker.requests)} in ${micros(breaker.window_ms * 1000)}`;
}

function Breakers({ upstream }: { upstream: Upstream }) {
  if (upstream.breakers.length === 0) return null;
  return (
    <Table
      label={`Circuit breakers of ${upstream.name}`}
      head={["Circuit breaker", "Routes", "State", "Since", "Failed", "Slow"]}
    >
      {upstream.breakers.map((breaker) => (
        <tr key={breaker.name}>
          <td>{breaker.name}</td>
          <td class="wide">{some(breaker.routes, breaker.uses)}</td>
          <td>
            <span class={breaker.state === "closed" ? "tag good" : "tag bad"}>{breaker.state.replace("_", " ")}</span>
          </td>
          <td>{breaker.since === null ? "the start" : dateTime(breaker.since)}</td>
          <td>{shareOf(breaker.failed, breaker)}</td>
          <td>{shareOf(breaker.slow, breaker)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** The last changes of the health of its servers, while they are shown. */
function History({ upstream }: { upstream: Upstream }) {
  const path = `/v1/upstreams/${inPath(upstream.name)}/history`;
  const { value, error } = useLoaded(() => json<{ changes: (HealthChange & { server: string })[] }>(path), EVERY_MS, [
    upstream.name,
  ]);
  return (
    <>
      <Failure error={error} />
      {value?.changes.length === 0 && <p class="soft">No server has changed its health.</p>}
      {value !== null && value.changes.length > 0 && (
        <Table label={`Health history of ${upstream.name}`} head={["Time", "Server", "State", "Why"]}>
          {value.changes.map((change, index) => (
            <tr key={index}>
              <td>{dateTime(change.at)}</td>
              <td>{change.server}</td>
              <td class={change.state === "healthy" ? "good" : "bad"}>{change.state}</td>
              <td class="wide">{change.why}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function HistoryOf({ upstream }: { upstream: Upstream }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{`Health history of ${upstream.name}`}</summary>
      {isOpen && <History upstream={upstream} />}
    </details>
  );
}

export function Upstreams() {
  const { value, error, reload } = useLoaded(() => json<{ upstreams: Upstream[] }>("/v1/upstreams"), EVERY_MS);
  const [search, setSearch] = useState("");
  const action = useAction();
  const wanted = search.trim().toLowerCase();
  const found = (value?.upstreams ?? []).filter(
    (one) => one.name.toLowerCase().includes(wanted) || one.servers.some((server) => server.address.includes(wanted)),
  );
  return (
    <>
      <Failure error={error} />
      {action.note}
      <form onSubmit={(event) => event.preventDefault()}>
        <label class="field wide">
          <span>Search upstreams and addresses</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
      </form>
      {value?.upstreams.length === 0 && <p class="soft">The configuration has no upstreams.</p>}
      {found.map((upstream) => (
        <section key={upstream.name} aria-label={`Upstream ${upstream.name}`}>
          <h2>{upstream.name}</h2>
          <p class="soft">{`${upstream.healthy} of ${upstream.servers.length} servers healthy, ${upstream.balance}`}</p>
          {upstream.panic && (
            <Note kind="bad">So few servers are healthy that all are used.</Note>
          )}
          {upstream.discovery && (
            <p class="soft">
              {`Servers from ${upstream.discovery.source}`}
              {upstream.discovery.error !== null && <span class="bad">{`: ${upstream.discovery.error}`}</span>}
            </p>
          )}
          <Table
            label={`Servers of ${upstream.name}`}
            head={["Server", "State", "In flight", "Connections", "Latency", "Weight", "Last error", "Last change", "Action"]}
          >
            {upstream.servers.map((server) => (
              <Row key={server.address} upstream={upstream} server={server} action={action} onChange={reload} />
            ))}
          </Table>
          <Breakers upstream={upstream} />
          <HistoryOf upstream={upstream} />
        </section>
      ))}
    </>
  );
}
