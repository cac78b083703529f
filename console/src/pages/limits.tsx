// What limits traffic: circuit breakers, rate and concurrency limits, limits of the server.
import { call } from "../api";
import { count } from "../format";
import { parse } from "../metrics";
import type { Sample } from "../metrics";
import { Failure, Table, useLoaded } from "../parts";

const EVERY_MS = 3000;

const BREAKER = "tidegate_circuit_breaker_state";
const OPENED = "tidegate_circuit_breaker_opened_total";
const REJECTED = "tidegate_circuit_breaker_rejected_total";
const RATE = "tidegate_rate_limited_total";
const IN_FLIGHT = "tidegate_concurrency_in_flight";
const ADAPTIVE = "tidegate_concurrency_limit";
const TOO_MANY = "tidegate_concurrency_rejected_total";
const BANDWIDTH = "tidegate_bandwidth_pauses_total";
const SERVER = "tidegate_limits_hit_total";
const CLOSED = "tidegate_connections_closed_total";
const NAMES = new Set([BREAKER, OPENED, REJECTED, RATE, IN_FLIGHT, ADAPTIVE, TOO_MANY, BANDWIDTH, SERVER, CLOSED]);
const STATES = ["closed", "half open", "open"];

type Metrics = Map<string, Sample[]>;

function value(metrics: Metrics, name: string, labels: Record<string, string>): number {
  const matching = (metrics.get(name) ?? []).filter((sample) =>
    Object.entries(labels).every(([label, text]) => sample.labels[label] === text),
  );
  return matching.reduce((sum, sample) => sum + sample.value, 0);
}

function names(metrics: Metrics, families: string[], label: string): string[] {
  const found = families.flatMap((name) => (metrics.get(name) ?? []).map((sample) => sample.labels[label] ?? ""));
  return [...new Set(found)].sort();
}

function Breakers({ metrics }: { metrics: Metrics }) {
  const breakers = names(metrics, [BREAKER], "circuit_breaker");
  return (
    <section aria-label="Circuit breakers">
      <h2>Circuit breakers</h2>
      {breakers.length === 0 && <p class="soft">No circuit breaker has been used yet.</p>}
      {breakers.length > 0 && (
        <Table label="Circuit breakers" head={["Breaker", "State", "Opened", "Rejected"]}>
          {breakers.map((name) => {
            const labels = { circuit_breaker: name };
            const state = value(metrics, BREAKER, labels);
            return (
              <tr key={name}>
                <td>{name}</td>
                <td>
                  <span class={state === 0 ? "tag good" : "tag bad"}>{STATES[state] ?? String(state)}</span>
                </td>
                <td>{count(value(metrics, OPENED, labels))}</td>
                <td>{count(value(metrics, REJECTED, labels))}</td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}

interface LimitRow {
  name: string;
  kind: string;
  /** Limits of concurrency only. */
  inFlight?: number;
  rejected: number;
}

function limits(metrics: Metrics): LimitRow[] {
  const rates = names(metrics, [RATE], "filter").map((filter) => ({
    name: filter,
    kind: "rate",
    rejected: value(metrics, RATE, { filter }),
  }));
  const concurrency = names(metrics, [IN_FLIGHT, ADAPTIVE, TOO_MANY], "limit").map((limit) => {
    const now = value(metrics, ADAPTIVE, { limit });
    return {
      name: limit,
      kind: now > 0 ? `concurrency, now ${count(now)}` : "concurrency",
      inFlight: value(metrics, IN_FLIGHT, { limit }),
      rejected: value(metrics, TOO_MANY, { limit }),
    };
  });
  const bandwidth = names(metrics, [BANDWIDTH], "limit").map((limit) => ({
    name: limit,
    kind: "bandwidth",
    rejected: value(metrics, BANDWIDTH, { limit }),
  }));
  return [...rates, ...concurrency, ...bandwidth];
}

function TrafficLimits({ metrics }: { metrics: Metrics }) {
  const rows = limits(metrics);
  return (
    <section aria-label="Limits of traffic">
      <h2>Limits of traffic</h2>
      {rows.length === 0 && <p class="soft">No limit of rate, concurrency or bandwidth has been used yet.</p>}
      {rows.length > 0 && (
        <Table label="Limits of traffic" head={["Limit", "Kind", "In flight", "Rejected or paused"]}>
          {rows.map((row, index) => (
            <tr key={index}>
              <td>{row.name}</td>
              <td>{row.kind}</td>
              <td>{row.inFlight === undefined ? "–" : count(row.inFlight)}</td>
              <td>{count(row.rejected)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

/** Counters that are not zero, the largest first. */
function Counters({ label, samples, name }: { label: string; samples: Sample[]; name: (sample: Sample) => string }) {
  const shown = samples.filter((sample) => sample.value > 0).sort((a, b) => b.value - a.value);
  return (
    <section aria-label={label}>
      <h2>{label}</h2>
      {shown.length === 0 && <p class="soft">None since the start.</p>}
      {shown.length > 0 && (
        <Table label={label} head={["Reason", "Times"]}>
          {shown.map((sample) => (
            <tr key={name(sample)}>
              <td>{name(sample)}</td>
              <td>{count(sample.value)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

export function Limits() {
  const { value: metrics, error } = useLoaded(
    async () => parse(await (await call("/metrics")).text(), NAMES),
    EVERY_MS,
  );
  if (!metrics) return error === null ? <p>Loading …</p> : <Failure error={error} />;
  const unusual = (metrics.get(CLOSED) ?? []).filter((sample) => sample.labels["fault"] !== "normal");
  return (
    <>
      <Failure error={error} />
      <Breakers metrics={metrics} />
      <TrafficLimits metrics={metrics} />
      <div class="grid">
        <Counters
          label="Limits and time-outs reached"
          samples={metrics.get(SERVER) ?? []}
          name={(sample) => sample.labels["limit"] ?? ""}
        />
        <Counters
          label="Connections closed for a fault"
          samples={unusual}
          name={(sample) => `${sample.labels["reason"] ?? ""} (${sample.labels["fault"] ?? ""})`}
        />
      </div>
    </>
  );
}
