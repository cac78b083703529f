// Consumers, quotas and certificates.
import { useState } from "preact/hooks";
import { inPath, json } from "../api";
import { dateTime, span } from "../format";
import { Failure, Field, Table, useAction, useLoaded, usePages } from "../parts";
import { useLive } from "./overview";

const PAGE = 100;

interface Names {
  consumers: string[];
  next?: string;
}

function List() {
  const { after, buttons } = usePages();
  const [opened, setOpened] = useState<{ name: string; text: string } | null>(null);
  const action = useAction();
  const { value, error } = useLoaded(
    () => json<Names>(`/v1/consumers?${new URLSearchParams({ after, limit: String(PAGE) })}`),
    null,
    [after],
  );
  const open = (name: string) =>
    action.run(async () => {
      const entry = await json<unknown>(`/v1/consumers/${inPath(name)}`);
      setOpened({ name, text: JSON.stringify(entry, null, 2) });
    });
  return (
    <section aria-label="Consumers">
      <h2>Consumers</h2>
      <Failure error={error} />
      {value?.consumers.length === 0 && <p class="soft">{after ? "There are no more." : "The configuration has no consumers."}</p>}
      <ul class="list">
        {value?.consumers.map((name) => (
          <li key={name}>
            <button type="button" class="link" onClick={() => open(name)}>
              {name}
            </button>
          </li>
        ))}
      </ul>
      {buttons(value?.next)}
      {action.note}
      {opened && (
        <>
          <h3>{opened.name}</h3>
          <pre tabIndex={0}>{opened.text}</pre>
        </>
      )}
    </section>
  );
}

interface Quota {
  name: string;
  limit: number | string;
  period: string;
  key: string;
}

function Quotas() {
  const { value, error } = useLoaded(() => json<{ quotas: Quota[] }>("/v1/quotas"), null);
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const action = useAction();
  const quotas = value?.quotas ?? [];
  const chosen = name || (quotas[0]?.name ?? "");
  const look = () =>
    action.run(async () => {
      const found = await json<{ used: number; period_ends: string }>(
        `/v1/quotas/${inPath(chosen)}?${new URLSearchParams({ key })}`,
      );
      return `${key} has used ${found.used} of ${chosen}; the period ends at ${dateTime(found.period_ends)}.`;
    });
  return (
    <section aria-label="Quotas">
      <h2>Quotas</h2>
      <Failure error={error} />
      {value && quotas.length === 0 && <p class="soft">The configuration has no quotas.</p>}
      {quotas.length > 0 && (
        <>
          <Table label="Quotas" head={["Quota", "Limit", "Period", "Key"]}>
            {quotas.map((quota) => (
              <tr key={quota.name}>
                <td>{quota.name}</td>
                <td>{String(quota.limit)}</td>
                <td>{quota.period}</td>
                <td>{quota.key}</td>
              </tr>
            ))}
          </Table>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              look();
            }}
          >
            <Field label="Quota">
              <select value={chosen} onChange={(event) => setName(event.currentTarget.value)}>
                {quotas.map((quota) => (
                  <option key={quota.name}>{quota.name}</option>
                ))}
              </select>
            </Field>
            <Field label="Key">
              <input required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
            </Field>
            <button type="submit" disabled={action.isBusy}>
              Look up
            </button>
          </form>
          {action.note}
        </>
      )}
    </section>
  );
}

function Certificates() {
  const { summary } = useLive();
  const certificates = summary?.certificates ?? [];
  return (
    <section aria-label="Certificates">
      <h2>Certificates</h2>
      {certificates.length === 0 && <p class="soft">No listener has a certificate.</p>}
      {certificates.length > 0 && (
        <Table label="Certificates" head={["Listener", "Subject", "Expires in"]}>
          {certificates.map((one) => (
            <tr key={`${one.listener} ${one.subject}`}>
              <td>{one.listener}</td>
              <td>{one.subject}</td>
              <td class={one.expires_in_s < 14 * 86400 ? "bad" : ""}>{span(one.expires_in_s)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

export function Consumers() {
  return (
    <>
      <List />
      <Quotas />
      <Certificates />
    </>
  );
}
