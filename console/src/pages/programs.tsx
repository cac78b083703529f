// What runs besides routes: applications and their processes, Lua programs, streams, workers.
import { inPath, json, may, post } from "../api";
import { bytes, count, dateTime, some, total } from "../format";
import { Failure, Table, useAction, useLoaded } from "../parts";
import type { App, ErrorRecord, Lua, Stream, Worker } from "../types";

const EVERY_MS = 3000;

interface All {
  apps: App[];
  streams: Stream[];
  workers: Worker[];
  lua: Lua;
}

async function load(): Promise<All> {
  const [apps, streams, workers, lua] = await Promise.all([
    json<{ apps: App[] }>("/v1/apps"),
    json<{ streams: Stream[] }>("/v1/streams"),
    json<{ workers: Worker[] }>("/v1/workers"),
    json<Lua>("/v1/lua"),
  ]);
  return { ...apps, ...streams, ...workers, lua };
}

/** One error: its first line at a glance, the stack on demand. */
function FoundError({ error }: { error: ErrorRecord }) {
  const route = error.route === null ? null : `route ${error.route}`;
  const trace = error.trace_id === null ? null : `trace ${error.trace_id}`;
  const owner = error.request ?? route ?? error.program ?? error.file;
  const origin = [owner, `worker ${error.worker}`, trace].filter((part) => part !== null);
  const [first, ...more] = error.message.split("\n");
  const stack = [...more, ...(error.traceback === "" ? [] : [error.traceback])];
  const head = (
    <>
      <span class="num soft">{dateTime(error.at)}</span> {origin.join(", ")}
      {error.times > 1 && <span class="soft">{` (${count(error.times)} times)`}</span>}
      {": "}
      <span class="bad">{first}</span>
    </>
  );
  if (stack.length === 0) return <p>{head}</p>;
  return (
    <details>
      <summary>{head}</summary>
      <pre tabIndex={0}>{stack.join("\n")}</pre>
    </details>
  );
}

/** The last errors; a stack that is open stays so while others are added. */
function LastErrors({ errors }: { errors: ErrorRecord[] }) {
  return (
    <>
      <h3>Last errors</h3>
      {errors.map((error) => (
        <FoundError key={JSON.stringify([error.route, error.file, error.message, error.traceback])} error={error} />
      ))}
    </>
  );
}

/** Failures of processes and exceptions of requests and jobs, the latest first. */
function errorsOf(app: App): ErrorRecord[] {
  return [...app.failures, ...app.errors].sort((a, b) => b.at.localeCompare(a.at));
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
          <LastErrors errors={errorsOf(app)} />
          {app.failures.length + app.errors.length === 0 && <p class="soft">No process, request or job has failed.</p>}
        </section>
      ))}
    </>
  );
}

/** Lua programs run in the VM of each worker; a reload or a restart begins another. */
function LuaPrograms({ workers, lua, onChange }: { workers: Worker[]; lua: Lua; onChange: () => void }) {
  const action = useAction();
  const rows = workers.flatMap(({ index, lua }) => (lua ? [{ index, ...lua }] : []));
  if (rows.length === 0) return null;
  const restart = () =>
    action.run(async () => {
      const { restarted } = await post<{ restarted: number }>("/v1/lua/restart", {});
      onChange();
      return `${restarted} new Lua VMs serve; requests in flight end in the previous ones.`;
    });
  return (
    <section aria-label="Lua programs">
      <div class="line">
        <h2>Lua programs</h2>
        {may("write") && (
          <button type="button" disabled={action.isBusy} onClick={restart}>
            Restart Lua programs
          </button>
        )}
      </div>
      {action.note}
      <Table
        label="Lua programs"
        head={["Worker", "VMs", "Memory", "Limit", "Loop lag", "Errors", "Restarts", "Replaced for memory"]}
      >
        {rows.map((row) => (
          <tr key={row.index}>
            <td>{row.index}</td>
            <td>{row.vms}</td>
            <td>{bytes(row.memory_bytes)}</td>
            <td>{bytes(row.memory_limit_bytes)}</td>
            <td>{`${row.loop_lag_ms} ms`}</td>
            <td>{count(row.errors)}</td>
            <td>{row.restarted}</td>
            <td class={row.replaced > 0 ? "bad" : ""}>{row.replaced}</td>
          </tr>
        ))}
      </Table>
      {lua.files.length > 0 && (
        <Table label="Lua files" head={["File", "Used by"]}>
          {lua.files.map((file) => (
            <tr key={file.path}>
              <td>{file.path}</td>
              <td class="wide">{some(file.used_by, file.uses)}</td>
            </tr>
          ))}
        </Table>
      )}
      <LastErrors errors={lua.errors} />
      {lua.errors.length === 0 && <p class="soft">No Lua code has failed.</p>}
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
          <LuaPrograms workers={value.workers} lua={value.lua} onChange={reload} />
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
