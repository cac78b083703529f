// The configuration: read, check with every error under its line, apply, go back.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, explained, json, may, post } from "../api";
import { dateTime } from "../format";
import { Confirm, Failure, Note, Table, useAction } from "../parts";
import type { ConfigError, ConfigVersion } from "../types";
import { Editor, FilterForm, useDeclarations } from "./editor";

/** What the API writes in place of a secret. */
const MASK = '"***"';
const CONTEXT_LINES = 2;

interface Document {
  text: string;
  type: string;
  etag: string;
  readOnly: string | null;
}

async function read(secrets: boolean): Promise<Document> {
  const response = await call(`/v1/config${secrets ? "?secrets" : ""}`);
  return {
    text: await response.text(),
    type: response.headers.get("content-type") ?? "application/yaml",
    etag: response.headers.get("etag") ?? "*",
    readOnly: response.headers.get("tidegate-read-only"),
  };
}

/** The text that can be changed, or the masked one and why it cannot. */
async function load(): Promise<Document> {
  const masked = await read(false);
  if (!masked.text.includes(MASK) || !may("all")) return masked;
  try {
    return await read(true);
  } catch (error) {
    return { ...masked, readOnly: masked.readOnly ?? `secrets are masked here: ${explained(error)}` };
  }
}

function isError(value: unknown): value is ConfigError {
  return typeof value === "object" && value !== null && "message" in value;
}

interface SourceProps {
  text: string;
  errors: ConfigError[];
  onJump: (line: number) => void;
}

/** The lines with errors, each error under its line. */
function Source({ text, errors, onJump }: SourceProps) {
  const lines = text.split("\n");
  const wrong = new Map<number, ConfigError[]>();
  for (const error of errors) {
    if (error.line !== null) wrong.set(error.line, [...(wrong.get(error.line) ?? []), error]);
  }
  const isNear = (line: number) => {
    for (let near = line - CONTEXT_LINES; near <= line + CONTEXT_LINES; near++) if (wrong.has(near)) return true;
    return false;
  };
  const shown = lines.map((_, index) => index + 1).filter(isNear);
  const elsewhere = errors.filter((error) => error.line === null);
  return (
    <>
      {elsewhere.map((error, index) => (
        <Note key={index} kind="bad">
          {error.help === null ? error.message : `${error.message}\n${error.help}`}
        </Note>
      ))}
      {shown.length > 0 && (
        <ol class="source mono" aria-label="Errors">
          {shown.map((line, index) => (
            <>
              {index > 0 && shown[index - 1] !== line - 1 && (
                <li key={`${line} gap`} class="gap">
                  …
                </li>
              )}
              <li key={line} class={wrong.has(line) ? "wrong" : ""}>
                <span class="number">{line}</span>
                {lines[line - 1]}
                {wrong.get(line)?.map((error, at) => (
                  <div key={at} class="message">
                    <button type="button" class="link" onClick={() => onJump(line)}>
                      {`${error.file === null ? "" : `${error.file}:`}${line}:${error.column ?? 1}`}
                    </button>
                    {` ${error.message}`}
                    {error.help !== null && `\n${error.help}`}
                  </div>
                ))}
              </li>
            </>
          ))}
        </ol>
      )}
    </>
  );
}

function History({ etag, onChange }: { etag: string; onChange: () => void }) {
  const [versions, setVersions] = useState<ConfigVersion[]>([]);
  const [chosen, setChosen] = useState<ConfigVersion | null>(null);
  const action = useAction();
  useEffect(() => {
    json<{ versions: ConfigVersion[] }>("/v1/config/history").then(
      (found) => setVersions(found.versions),
      () => undefined,
    );
  }, [etag]);
  const rollBack = (version: string) =>
    action.run(async () => {
      await json("/v1/config/rollback", {
        method: "POST",
        body: JSON.stringify({ version }),
        headers: { "If-Match": etag },
      });
      onChange();
      return `Version ${version} is in use again.`;
    });
  return (
    <section aria-label="History">
      <h2>History</h2>
      {versions.length === 0 && (
        <p class="soft">
          No earlier version. Versions are recorded when the configuration is changed over the API; with etcd,
          <code> tidegate ctl history</code> lists them.
        </p>
      )}
      {action.note}
      {versions.length > 0 && (
        <Table label="Versions" head={["Version", "In use since", ""]}>
          {versions.map((version) => (
            <tr key={version.version}>
              <td>{version.version}</td>
              <td>{dateTime(version.at)}</td>
              <td>
                {version.current ? (
                  <span class="good">current</span>
                ) : (
                  may("all") && (
                    <button
                      type="button"
                      disabled={action.isBusy}
                      aria-label={`Roll back to ${version.version}`}
                      onClick={() => setChosen(version)}
                    >
                      Roll back
                    </button>
                  )
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Confirm
        title="Roll back?"
        confirm="Roll back"
        isOpen={chosen !== null}
        onConfirm={() => chosen && rollBack(chosen.version)}
        onClose={() => setChosen(null)}
      >
        <p>{`Version ${chosen?.version} of ${chosen ? dateTime(chosen.at) : ""} replaces the current configuration.`}</p>
      </Confirm>
    </section>
  );
}

export function Configuration() {
  const [loaded, setLoaded] = useState<Document | null>(null);
  const [text, setText] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const [errors, setErrors] = useState<{ text: string; all: ConfigError[] } | null>(null);
  const [changes, setChanges] = useState<string[] | null>(null);
  const [isAsking, setAsking] = useState(false);
  const editor = useRef<HTMLTextAreaElement>(null);
  const action = useAction();
  const declarations = useDeclarations();
  const refresh = () => {
    setErrors(null);
    setChanges(null);
    load().then(
      (found) => {
        setLoaded(found);
        setText(found.text);
        setFailure(null);
      },
      (error: unknown) => setFailure(explained(error)),
    );
  };
  useEffect(refresh, []);

  /** Runs a request with the text, and shows the errors of the text that it reports. */
  const withErrors = (work: () => Promise<string | void>) =>
    action.run(async () => {
      setErrors(null);
      setChanges(null);
      try {
        return await work();
      } catch (error) {
        const all = error instanceof ApiError ? error.members["errors"] : null;
        if (Array.isArray(all)) setErrors({ text, all: all.filter(isError) });
        throw error;
      }
    });
  const check = (then: () => void) =>
    withErrors(async () => {
      const type = loaded?.type ?? "application/yaml";
      const found = await json<{ changes: string[] }>("/v1/config/check", { method: "POST", body: text, type });
      setChanges(found.changes);
      then();
    });
  const apply = () =>
    withErrors(async () => {
      const type = loaded?.type ?? "application/yaml";
      const applied = await json<{ version: string; changes: string[] }>("/v1/config", {
        method: "PUT",
        body: text,
        type,
        headers: { "If-Match": loaded?.etag ?? "*" },
      });
      setLoaded(loaded && { ...loaded, text, etag: `"${applied.version}"` });
      return `Version ${applied.version} is in use: ${applied.changes.length === 0 ? "no changes" : applied.changes.join("; ")}.`;
    });
  const insert = (added: string) => {
    const area = editor.current;
    if (!area) return;
    area.setRangeText(added, area.selectionStart, area.selectionEnd, "select");
    area.focus();
    setText(area.value);
  };
  const jump = (line: number) => {
    const area = editor.current;
    if (!area) return;
    const before = text.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, one) => sum + one.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + (text.split("\n")[line - 1]?.length ?? 0));
    area.scrollTop = (area.scrollHeight / text.split("\n").length) * Math.max(line - 5, 0);
  };

  if (!loaded) return failure === null ? <p>Loading …</p> : <Failure error={failure} />;
  const canChange = may("all") && loaded.readOnly === null;
  const isChanged = text !== loaded.text;
  return (
    <>
      <section aria-label="Text">
        {loaded.readOnly !== null && <Note kind="neutral">{`Read only: ${loaded.readOnly}`}</Note>}
        {!may("all") && <p class="soft">Secrets are masked. A change needs a token with the role all.</p>}
        <Editor
          area={editor}
          label={`Version ${loaded.etag.replaceAll('"', "")}${isChanged ? ", changed here" : ""}`}
          text={text}
          readOnly={!canChange}
          declarations={declarations}
          onInput={setText}
        />
        {canChange && declarations && <FilterForm declarations={declarations} onInsert={insert} />}
        <div class="actions">
          {may("all") && (
            <button type="button" disabled={action.isBusy} onClick={() => check(() => undefined)}>
              Check
            </button>
          )}
          {canChange && (
            <button
              type="button"
              class="danger"
              disabled={action.isBusy || !isChanged}
              onClick={() => check(() => setAsking(true))}
            >
              Apply …
            </button>
          )}
          <button type="button" disabled={action.isBusy} onClick={refresh}>
            {isChanged ? "Discard changes" : "Read again"}
          </button>
          {may("write") && (
            <button
              type="button"
              disabled={action.isBusy}
              onClick={() =>
                action.run(async () => {
                  const applied = await post<{ version: string }>("/v1/reload?wait", {});
                  refresh();
                  return `Version ${applied.version} is in use.`;
                })
              }
            >
              Reload from its source
            </button>
          )}
        </div>
        {action.note}
        {errors && <Source text={errors.text} errors={errors.all} onJump={jump} />}
        {changes && (
          <>
            <h3>Difference to what is in use</h3>
            {changes.length === 0 && <p class="soft">No difference.</p>}
            <ul class="list">
              {changes.map((change) => (
                <li key={change}>{change}</li>
              ))}
            </ul>
          </>
        )}
      </section>
      <Confirm title="Apply this configuration?" confirm="Apply" isOpen={isAsking} onConfirm={apply} onClose={() => setAsking(false)}>
        <ul class="list">
          {(changes ?? []).map((change) => (
            <li key={change}>{change}</li>
          ))}
        </ul>
        {changes?.length === 0 && <p>Only the layout of the text changes.</p>}
      </Confirm>
      <History etag={loaded.etag} onChange={refresh} />
    </>
  );
}
