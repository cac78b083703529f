// The servers that share a configuration in etcd with this one, as each of them reports.
import { json } from "../api";
import { count, dateTime } from "../format";
import { Failure, Note, Table, useLoaded, usePages } from "../parts";
import type { FleetNode, FleetNodes } from "../types";

const EVERY_MS = 3000;
const PAGE = 100;
/** Errors of a node that are shown without a click. */
const ERRORS = 3;

const COMMANDS = `tidegate ctl apply site/ --etcd etcd://10.0.0.5,10.0.0.6,10.0.0.7/shop
tidegate up etcd://10.0.0.5,10.0.0.6,10.0.0.7/shop --node web-1`;

function Alone() {
  return (
    <section aria-label="No fleet">
      <h2>This server belongs to no fleet</h2>
      <p>
        Its configuration is a file of its own. Servers that share one configuration keep it in etcd; each
        change is then served by all of them, or rejected by all:
      </p>
      <pre tabIndex={0}>{COMMANDS}</pre>
      <p class="soft">The guide “From one machine to many” has the details.</p>
    </section>
  );
}

function State({ node }: { node: FleetNode }) {
  const { refused, canary } = node;
  return (
    <>
      <span class={refused ? "tag bad" : "tag good"}>{refused ? "refused" : "ready"}</span>
      {canary && (
        <div>{`on trial: ${count(canary.errors)} of ${count(canary.requests)} responses are errors`}</div>
      )}
      {refused && (
        <>
          <div>{`revision ${refused.revision} was rejected; ${node.revision} still serves`}</div>
          <ul class="list bad" aria-label={`Errors of ${node.name}`}>
            {refused.errors.slice(0, ERRORS).map((error) => (
              <li key={error}>{error}</li>
            ))}
          </ul>
          {refused.errors.length > ERRORS && (
            <details>
              <summary>{`${refused.errors.length - ERRORS} more`}</summary>
              <pre tabIndex={0}>{refused.errors.slice(ERRORS).join("\n")}</pre>
            </details>
          )}
        </>
      )}
    </>
  );
}

/** What needs a look first: rejected configurations, then trials. */
const order = (node: FleetNode) => (node.refused ? 0 : node.canary ? 1 : 2);

export function Nodes() {
  const pages = usePages();
  const { value, error } = useLoaded(
    () => json<FleetNodes>(`/v1/nodes?${new URLSearchParams({ after: pages.after, limit: String(PAGE) })}`),
    EVERY_MS,
    [pages.after],
  );
  if (!value) return error === null ? <p>Loading …</p> : <Failure error={error} />;
  if (value.source === null) return <Alone />;
  const nodes = value.nodes.toSorted((a, b) => order(a) - order(b));
  const versions = new Set(nodes.filter((node) => !node.canary).map((node) => node.version));
  const refused = nodes.filter((node) => node.refused).length;
  return (
    <>
      <Failure error={error} />
      <section aria-label="Nodes of the fleet">
        <h2>{value.source}</h2>
        <p class="soft">{`${nodes.length} nodes here, ${refused} with a rejected configuration.`}</p>
        {versions.size > 1 && <Note kind="neutral">{`The nodes serve ${versions.size} versions.`}</Note>}
        {nodes.length === 0 && <p class="soft">{pages.after ? "There are no more." : "No node has reported yet."}</p>}
        {nodes.length > 0 && (
          <Table label="Nodes" head={["Node", "State", "Version", "Revision", "Build", "Process", "Last report"]}>
            {nodes.map((node) => (
              <tr key={node.name}>
                <td>
                  {node.name} {node.name === value.node && <span class="tag soft">this server</span>}
                </td>
                <td class="wide">
                  <State node={node} />
                </td>
                <td>{node.version}</td>
                <td>{node.revision}</td>
                <td>{node.build}</td>
                <td>{node.process}</td>
                <td>{dateTime(node.reported)}</td>
              </tr>
            ))}
          </Table>
        )}
        {pages.buttons(value.next)}
        <p class="soft">
          A node reports each change of what it serves, by its own clock. Fifteen seconds after its last sign
          of life it is not listed any more.
        </p>
      </section>
    </>
  );
}
