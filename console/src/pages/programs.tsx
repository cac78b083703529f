// What runs besides routes: applications and their processes, Lua programs, streams, workers.
import { inPath, json, may, post } from "../api";
import { bytes, count, dateTime, total } from "../format";
import { Failure, Table, useAction, useLoaded } from "../parts";
import type { App, Stream, Worker } from "../types";

const EVERY_MS = 3000;

interface All {
  apps: App[];
  streams: Stream[];
  workers: Worker[];
}

async function load(): Promise<All> {
  const [apps, streams, workers] = await Promise.all([
    json<{ apps: App[] }>("/v1/apps"),
    json<{ streams: Stream[] }>("/v1/streams"),
    json<{ workers: Worker[] }>("/v1/workers"),
  ]);
  return { ...apps, ...streams, ...workers };
}

function restarts(reasons: Record<string, number>): string {
  const texts = Object.entries(reasons).map(([reason, n]) => `${n} ${reason}`);
  return texts.length === 0 ? "0" : texts.join(", ");
}

function Apps({ apps, onChange }: { apps: App[]; onChange: () => void }) {
  const action = useAction();
  return (
    <>
      {action.note}
      {apps.map((app) => (
        <section key={app.name} aria-label={`Application ${app.name}`}>
          <div class="line">
            <h2>{app.name}</h2>
            {may("write") && (
              <button
                type="button"
                disabled={action.isBusy}
                onClick={() =>
                  action.run(async () => {
                    await post(`/v1/apps/${inPath(app.name)}/reload`, {});
                    onChange();
                    return `The processes of ${app.name} were replaced.`;
                  })
                }
              >
                {`Restart ${app.name}`}
              </button>
            )}
          </div>
          <p class="soft">
            {`${app.target}: ${app.ready} ready, ${app.leaving} leaving; tasks: ${app.tasks.waiting} waiting, `}
            {`${app.tasks.running} running, ${app.tasks.done} done, ${app.tasks.failed} failed`}
          </p>
          <Table
            label={`Processes of ${app.name}`}
            head={["Worker", "State", "Process", "Started", "Requests", "In flight", "Memory", "Loop lag", "Restarts"]}
          >
            {app.workers.map((worker) => (
              <tr key={worker.index}>
                <td>{worker.index}</td>
                <td class={worker.state === "ready" ? "good" : "bad"}>{worker.state}</td>
                <td>{worker.process ?? "–"}</td>
                <td>{worker.started === null ? "–" : dateTime(worker.started)}</td>
                <td>{count(worker.requests)}</td>
                <td>{worker.in_flight}</td>
                <td>{bytes(worker.rss_bytes)}</td>
                <td>{`${worker.loop_lag_ms} ms`}</td>
                <td>{restarts(worker.restarts)}</td>
              </tr>
            ))}
          </Table>
          {app.workers
            .filter((worker) => worker.last_failure !== null)
            .map((worker) => (
              <pre key={worker.index} tabIndex={0}>
                {`worker ${worker.index}: ${worker.last_failure}`}
              </pre>
            ))}
        </section>
      ))}
    </>
  );
}

/** Lua programs run in the VM of each worker; a reload begins another. */
function LuaPrograms({ workers }: { workers: Worker[] }) {
  const rows = workers.flatMap(({ index, lua }) => (lua ? [{ index, ...lua }] : []));
  if (rows.length === 0) return null;
  return (
    <section aria-label="Lua programs">
      <h2>Lua programs</h2>
      <Table label="Lua programs" head={["Worker", "VMs", "Memory", "Limit", "Replaced for memory"]}>
        {rows.map((row) => (
          <tr key={row.index}>
            <td>{row.index}</td>
            <td>{row.vms}</td>
            <td>{bytes(row.memory_bytes)}</td>
            <td>{bytes(row.memory_limit_bytes)}</td>
            <td class={row.replaced > 0 ? "bad" : ""}>{row.replaced}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

export function Programs() {
  const { value, error, reload } = useLoaded(load, EVERY_MS);
  return (
    <>
      <Failure error={error} />
      {value && (
        <>
          <Apps apps={value.apps} onChange={reload} />
          {value.apps.length === 0 && <p class="soft">No application runs in processes of its own.</p>}
          <LuaPrograms workers={value.workers} />
          {value.streams.length > 0 && (
            <section aria-label="Streams">
              <h2>Streams</h2>
              <Table label="Streams" head={["Stream", "Address", "Protocol", "Upstreams", "Open", "Accepted", "Received", "Sent"]}>
                {value.streams.map((stream) => (
                  <tr key={stream.name}>
                    <td>{stream.name}</td>
                    <td>{stream.bind}</td>
                    <td>{stream.tls ? `${stream.protocol}, TLS` : stream.protocol}</td>
                    <td>{stream.upstreams.map((one) => `${one.name} (${one.healthy} of ${one.servers})`).join(", ")}</td>
                    <td>{stream.connections.active}</td>
                    <td>{count(stream.connections.accepted)}</td>
                    <td>{bytes(stream.received_bytes)}</td>
                    <td>{bytes(stream.sent_bytes)}</td>
                  </tr>
                ))}
              </Table>
            </section>
          )}
          <section aria-label="Workers">
            <h2>Workers</h2>
            <Table label="Workers" head={["Worker", "Core", "Connections", "Idle", "Tunnels", "In flight", "Responses"]}>
              {value.workers.map((worker) => (
                <tr key={worker.index}>
                  <td>{worker.index}</td>
                  <td>{worker.cpu ?? "any"}</td>
                  <td>{worker.connections.active}</td>
                  <td>{worker.connections.idle}</td>
                  <td>{worker.connections.tunnels}</td>
                  <td>{worker.in_flight}</td>
                  <td>{count(total(worker.responses))}</td>
                </tr>
              ))}
            </Table>
          </section>
        </>
      )}
    </>
  );
}
