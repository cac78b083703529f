// Upstreams and their servers: health, load, draining, weights.
import { useState } from "preact/hooks";
import { inPath, json, may, post } from "../api";
import { clock, micros } from "../format";
import { Failure, Note, Table, useAction, useLoaded } from "../parts";
import type { Action } from "../parts";
import type { Server, Upstream } from "../types";
import { useLive } from "./overview";

const EVERY_MS = 2000;
const RECENT = 5;

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
  return (
    <tr>
      <td>
        {server.address}
        {server.server !== server.address && <div class="soft">{server.server}</div>}
        {server.backup && <span class="tag soft">backup</span>} {server.changed && <span class="tag soft">changed</span>}
      </td>
      <td class={server.healthy ? "good" : "bad"}>{server.state}</td>
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

/** Changes of health that this page has seen, the latest first. */
function Recent({ upstream }: { upstream: Upstream }) {
  const { marks } = useLive();
  const own = marks.filter((mark) => mark.text.startsWith(`${upstream.name} `)).toReversed().slice(0, RECENT);
  if (own.length === 0) return null;
  return (
    <ul class="list" aria-label={`Recent changes of ${upstream.name}`}>
      {own.map((mark) => (
        <li key={`${mark.at} ${mark.text}`}>
          <span class="num soft">{clock(mark.at * 1000)}</span> <span class={mark.kind}>{mark.text}</span>
        </li>
      ))}
    </ul>
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
            head={["Server", "State", "In flight", "Connections", "Latency", "Weight", "Last error", "Change"]}
          >
            {upstream.servers.map((server) => (
              <Row key={server.address} upstream={upstream} server={server} action={action} onChange={reload} />
            ))}
          </Table>
          <Recent upstream={upstream} />
        </section>
      ))}
    </>
  );
}
