// A data.json of `tidegate bench`, and what has changed since another one. The files stay in the
// browser.
import { useState } from "preact/hooks";
import { bytes, rate } from "../format";
import { Failure, Field, Note, Table } from "../parts";
import type { BenchData, BenchRecord } from "../types";

const BYTES_MAX = 64 << 20;
const VERSION = 1;

function isBenchData(value: unknown): value is BenchData {
  const data = value as Partial<BenchData> | null;
  return data?.version === VERSION && Array.isArray(data.records);
}

async function read(file: File): Promise<BenchData> {
  if (file.size > BYTES_MAX) throw new Error(`${file.name} is larger than ${bytes(BYTES_MAX)}`);
  const value: unknown = JSON.parse(await file.text());
  if (!isBenchData(value)) throw new Error(`${file.name}: expected a data.json of version ${VERSION}`);
  return value;
}

function key(record: BenchRecord): string {
  return [record.scenario, record.server, record.connections, record.workers].join(" ");
}

function difference(before: number | null | undefined, now: number | null): string {
  if (before == null || now === null || before === 0) return "";
  const percent = (now / before - 1) * 100;
  return ` (${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} %)`;
}

function Chosen({ label, onData }: { label: string; onData: (data: BenchData | null) => void }) {
  const [error, setError] = useState<string | null>(null);
  return (
    <div>
      <Field label={label}>
        <input
          type="file"
          accept=".json,application/json"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            setError(null);
            if (!file) {
              onData(null);
              return;
            }
            read(file).then(onData, (why: unknown) => {
              onData(null);
              setError(why instanceof Error ? why.message : String(why));
            });
          }}
        />
      </Field>
      <Failure error={error} />
    </div>
  );
}

export function Benchmarks() {
  const [data, setData] = useState<BenchData | null>(null);
  const [before, setBefore] = useState<BenchData | null>(null);
  const old = new Map((before?.records ?? []).map((record) => [key(record), record]));
  const isOtherMachine = data && before && data.machine.cpu !== before.machine.cpu;
  return (
    <>
      <form onSubmit={(event) => event.preventDefault()}>
        <Chosen label="data.json" onData={setData} />
        <Chosen label="Compared with" onData={setBefore} />
      </form>
      {!data && <p class="soft">Choose the data.json that tidegate bench --out DIRECTORY has written.</p>}
      {isOtherMachine && <Note kind="bad">The two runs are of different machines.</Note>}
      {data && (
        <section aria-label="Figures">
          <p class="soft">
            {`${data.date}, ${data.machine.cpu}, ${data.machine.cores} cores, ${data.machine.kernel}`}
            {data.complete ? "" : "; the run was stopped early"}
          </p>
          <Table
            label="Figures"
            head={["Scenario", "Server", "Connections", "Workers", "CPU per request", "Requests/s", "p50", "p99", "Memory", "Errors"]}
          >
            {data.records.map((record, index) => {
              const other = old.get(key(record));
              const us = record.cpu_us_per_request;
              const p99 = record.latency_ms?.p99 ?? null;
              return (
                <tr key={index}>
                  <td>{record.scenario}</td>
                  <td>
                    {record.server}
                    {record.disturbed !== null && <div class="bad">{record.disturbed}</div>}
                  </td>
                  <td>{record.connections}</td>
                  <td>{record.workers}</td>
                  <td>{us === null ? "–" : `${us.toFixed(2)} µs${difference(other?.cpu_us_per_request, us)}`}</td>
                  <td>{`${rate(record.requests_per_second)}${difference(other?.requests_per_second, record.requests_per_second)}`}</td>
                  <td>{record.latency_ms?.p50 == null ? "–" : `${record.latency_ms.p50.toFixed(2)} ms`}</td>
                  <td>{p99 === null ? "–" : `${p99.toFixed(2)} ms${difference(other?.latency_ms?.p99, p99)}`}</td>
                  <td>{record.rss_bytes === null ? "–" : bytes(record.rss_bytes)}</td>
                  <td class={record.errors > 0 ? "bad" : ""}>{record.errors}</td>
                </tr>
              );
            })}
          </Table>
        </section>
      )}
    </>
  );
}
