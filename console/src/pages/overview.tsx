// The server at a glance: figures, five minutes of charts, and what needs attention.
import { useEffect, useState } from "preact/hooks";
import { call, json, may } from "../api";
import { Chart } from "../chart";
import { bytes, clock, count, dateTime, rate, share, span } from "../format";
import { watcher } from "../live";
import type { Sample } from "../live";
import { Failure, Note, useAction } from "../parts";
import type { Summary } from "../types";

const CERTIFICATE_WARNING_S = 14 * 86400;
const LEVELS = ["error", "warn", "info", "debug"];

export function useLive() {
  const [live, setLive] = useState(watcher.state);
  useEffect(() => {
    setLive(watcher.state);
    return watcher.subscribe(() => setLive(watcher.state));
  }, []);
  return live;
}

function Attention({ summary }: { summary: Summary }) {
  const expiring = summary.certificates.filter((one) => one.expires_in_s < CERTIFICATE_WARNING_S);
  const reload = summary.last_reload;
  const { servers, troubles } = summary;
  const out = servers.all - servers.healthy;
  const isFine = out === 0 && troubles.length === 0 && expiring.length === 0 && (reload?.ok ?? true);
  return (
    <section aria-label="Attention">
      <h2>Attention</h2>
      {isFine && <Note kind="good">Nothing needs attention.</Note>}
      {troubles.map((trouble) => (
        <Note key={trouble} kind="bad">
          {trouble}
        </Note>
      ))}
      {reload && !reload.ok && (
        <Note kind="bad">
          {`The configuration of ${dateTime(reload.at)} was rejected; version ${summary.config_version} still serves.\n`}
          {reload.errors.join("\n")}
        </Note>
      )}
      {servers.out.map((server) => (
        <Note key={`${server.upstream} ${server.address}`} kind="bad">
          {`${server.upstream}: ${server.address} is ${server.state}`}
          {server.last_error === null ? "" : `: ${server.last_error}`}
        </Note>
      ))}
      {out > servers.out.length && <Note kind="bad">{`and ${out - servers.out.length} more servers are out of rotation`}</Note>}
      {expiring.map((one) => (
        <Note key={`${one.listener} ${one.subject}`} kind="bad">
          {`The certificate ${one.subject} of ${one.listener} `}
          {one.expires_in_s < 0 ? "has expired." : `expires in ${span(one.expires_in_s)}.`}
        </Note>
      ))}
    </section>
  );
}

function LogLevel() {
  const [level, setLevel] = useState<string | null>(null);
  const action = useAction();
  useEffect(() => {
    json<{ level: string }>("/v1/log-level").then(
      (found) => setLevel(found.level),
      () => undefined,
    );
  }, []);
  const change = (to: string) =>
    action.run(async () => {
      await call("/v1/log-level", { method: "PUT", body: JSON.stringify({ level: to }) });
      setLevel(to);
      return `The log level is ${to} until the next reload.`;
    });
  return (
    <>
      <label class="field">
        <span>Log level</span>
        <select
          value={level ?? ""}
          disabled={!may("write") || action.isBusy || level === null}
          onChange={(event) => change(event.currentTarget.value)}
        >
          {LEVELS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {action.note}
    </>
  );
}

export function Overview() {
  const { summary, samples, marks, error } = useLive();
  if (!summary) return error === null ? <p>Loading …</p> : <Failure error={error} />;
  const times = samples.map((sample) => sample.at);
  const of = (key: keyof Sample) => samples.map((sample) => sample[key]);
  const now = samples.at(-1);
  const number = (name: string) => summary.numbers[name] ?? 0;
  const ms = (value: number | null) => (value === null ? "–" : `${rate(value)} ms`);
  const figures: [string, string][] = [
    ["State", summary.state],
    ["Requests/s", rate(now?.requests ?? null)],
    ["5xx/s", rate(now?.errors ?? null)],
    ["In flight", count(number("in_flight"))],
    ["p99", ms(now?.p99 ?? null)],
    ["CPU", now?.cpu == null ? "–" : `${rate(now.cpu * 100)} %`],
    ["Memory", bytes(number("rss_bytes"))],
    ["Connections", count(number("connections"))],
    ["Cache hits", share(now?.hitRatio ?? null)],
    ["Servers healthy", `${summary.servers.healthy} of ${summary.servers.all}`],
  ];
  return (
    <>
      <Failure error={error} />
      <section aria-label="Now">
        <dl class="figures">
          {figures.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      <Attention summary={summary} />
      <div class="grid">
        <div class="card">
          <Chart
            title="Requests per second"
            times={times}
            marks={marks}
            show={rate}
            lines={[
              { label: "all", color: "--accent", values: of("requests") },
              { label: "5xx", color: "--bad", values: of("errors") },
            ]}
          />
        </div>
        <div class="card">
          <Chart
            title="Latency"
            times={times}
            marks={marks}
            show={ms}
            lines={[
              { label: "median", color: "--accent", values: of("p50") },
              { label: "p90", color: "--good", values: of("p90") },
              { label: "p99", color: "--second", values: of("p99") },
            ]}
          />
        </div>
        <div class="card">
          <Chart
            title="CPU cores in use"
            times={times}
            marks={marks}
            show={(value) => (value === null ? "–" : value.toFixed(2))}
            lines={[{ label: "cores", color: "--accent", values: of("cpu") }]}
          />
        </div>
        <div class="card">
          <Chart
            title="Memory"
            times={times}
            marks={marks}
            show={(value) => (value === null ? "–" : bytes(value))}
            lines={[{ label: "resident", color: "--accent", values: of("rss") }]}
          />
        </div>
        <div class="card">
          <Chart
            title="Connections"
            times={times}
            marks={marks}
            show={rate}
            lines={[
              { label: "open", color: "--accent", values: of("connections") },
              { label: "requests in flight", color: "--second", values: of("inFlight") },
            ]}
          />
        </div>
        <div class="card">
          <Chart
            title="Cache hit ratio"
            times={times}
            marks={marks}
            show={share}
            lines={[{ label: "hits", color: "--good", values: of("hitRatio") }]}
          />
        </div>
      </div>
      <div class="grid">
        <section aria-label="Events">
          <h2>Events</h2>
          {marks.length === 0 && <p class="soft">No reload, no restart and no change of health in the last five minutes.</p>}
          <ul class="list">
            {marks.toReversed().map((mark, index) => (
              <li key={marks.length - index}>
                <span class="num soft">{clock(mark.at_ms)}</span> <span class={mark.kind}>{mark.text}</span>
                {mark.times > 1 && <span class="soft">{` (${mark.times} times)`}</span>}
              </li>
            ))}
          </ul>
        </section>
        <section aria-label="Server">
          <h2>Server</h2>
          <dl class="pairs">
            <dt>Version</dt>
            <dd>{summary.build}</dd>
            <dt>Started</dt>
            <dd>{`${dateTime(summary.started)}, ${span(summary.uptime_s)} ago, process ${summary.pid}`}</dd>
            <dt>Configuration</dt>
            <dd>{summary.config_version}</dd>
            <dt>Descriptors</dt>
            <dd>{`${count(number("descriptors"))} of ${count(number("descriptors_max"))}`}</dd>
            {summary.listeners.map((listener) => (
              <>
                <dt key={`${listener.name} name`}>{listener.name}</dt>
                <dd key={listener.name}>{listener.address}</dd>
              </>
            ))}
          </dl>
          <LogLevel />
        </section>
      </div>
    </>
  );
}
