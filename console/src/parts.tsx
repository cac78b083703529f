// Parts that pages share.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { explained } from "./api";

export function Note({ kind, children }: { kind: "good" | "bad" | "neutral"; children: ComponentChildren }) {
  return (
    <p class={`note ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      {children}
    </p>
  );
}

export function Failure({ error }: { error: string | null }) {
  return error === null ? null : <Note kind="bad">{error}</Note>;
}

export function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
    </label>
  );
}

/** A table that scrolls on its own where the page is narrow. */
export function Table({ label, head, children }: { label: string; head: string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  reload: () => void;
}

/** Loads now, and again after `every_ms` while the page is visible; never two at a time. */
export function useLoaded<T>(load: () => Promise<T>, every_ms: number | null, keys: unknown[] = []): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: string | null }>({ value: null, error: null });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => {
    let isCurrent = true;
    let timer: number | undefined;
    const run = async () => {
      const began = performance.now();
      if (!document.hidden) {
        try {
          const value = await load();
          if (isCurrent) setState({ value, error: null });
        } catch (error) {
          if (isCurrent) setState((before) => ({ ...before, error: explained(error) }));
        }
      }
      // A response that takes long is not asked for all the time.
      const took = performance.now() - began;
      if (isCurrent && every_ms !== null) {
        timer = window.setTimeout(() => void run(), Math.max(every_ms, took * 10));
      }
    };
    void run();
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [turn, every_ms, ...keys]);
  return { ...state, reload };
}

export interface Pages {
  /** The last name of the previous page; empty on the first. */
  after: string;
  /** The buttons to other pages; `next` is that of the response. */
  buttons: (next: string | undefined) => ComponentChildren;
}

/** A list that the API gives in pages. */
export function usePages(): Pages {
  const [visited, setVisited] = useState<string[]>([]);
  const buttons = (next: string | undefined) => (
    <div class="actions">
      {visited.length > 0 && (
        <button type="button" onClick={() => setVisited(visited.slice(0, -1))}>
          Previous
        </button>
      )}
      {next !== undefined && (
        <button type="button" onClick={() => setVisited([...visited, next])}>
          Next
        </button>
      )}
    </div>
  );
  return { after: visited.at(-1) ?? "", buttons };
}

export interface Action {
  run: (work: () => Promise<string | void>) => void;
  isBusy: boolean;
  note: ComponentChildren;
}

/** Runs one change at a time and shows its result. */
export function useAction(): Action {
  const [isBusy, setBusy] = useState(false);
  const [result, setResult] = useState<{ kind: "good" | "bad"; text: string } | null>(null);
  const run = (work: () => Promise<string | void>) => {
    setBusy(true);
    setResult(null);
    work()
      .then((text) => setResult(text ? { kind: "good", text } : null))
      .catch((error: unknown) => setResult({ kind: "bad", text: explained(error) }))
      .finally(() => setBusy(false));
  };
  return { run, isBusy, note: result && <Note kind={result.kind}>{result.text}</Note> };
}

interface ConfirmProps {
  title: string;
  confirm: string;
  isOpen: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

/** A question before a change; Escape is no. */
export function Confirm({ title, confirm, isOpen, onConfirm, onClose, children }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={title}>
      <h2>{title}</h2>
      {children}
      <div class="actions">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            onClose();
            onConfirm();
          }}
        >
          {confirm}
        </button>
      </div>
    </dialog>
  );
}

interface RowsProps<T> {
  label: string;
  rows: T[];
  height: number;
  render: (row: T, index: number) => ComponentChildren;
}

const MARGIN_ROWS = 10;

/** A list that has only the visible rows in the document. */
export function VirtualRows<T>({ label, rows, height, render }: RowsProps<T>) {
  const holder = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, rows: 30 });
  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const look = () => {
      const first = Math.floor(element.scrollTop / height);
      const shown = Math.ceil(element.clientHeight / height);
      setView((before) => (before.top === first && before.rows === shown ? before : { top: first, rows: shown }));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [height]);
  // Rows that leave are reused for those that enter.
  const pool = view.rows + 2 * MARGIN_ROWS + 1;
  const first = Math.max(0, view.top - MARGIN_ROWS);
  const last = Math.min(rows.length, view.top + view.rows + MARGIN_ROWS);
  return (
    <div ref={holder} class="virtual" role="region" aria-label={label} tabIndex={0}>
      <ol style={{ height: `${rows.length * height}px` }}>
        {rows.slice(first, last).map((row, offset) => (
          <li
            key={(first + offset) % pool}
            aria-setsize={rows.length}
            aria-posinset={first + offset + 1}
            style={{ top: `${(first + offset) * height}px`, height: `${height}px` }}
          >
            {render(row, first + offset)}
          </li>
        ))}
      </ol>
    </div>
  );
}
