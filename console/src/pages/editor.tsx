// A text of YAML with suggestions from the declarations, and forms for filters.
import type { Ref } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { json } from "../api";
import { Field } from "../parts";
import { Declarations, placeAtEnd, suggestions } from "../schema";
import type { Schema, Suggestion } from "../schema";

/** The declarations; `null` until they are there, and where they cannot be read. */
export function useDeclarations(): Declarations | null {
  const [found, setFound] = useState<Declarations | null>(null);
  useEffect(() => {
    json<Schema>("/v1/config/schema").then(
      (schema) => setFound(new Declarations(schema)),
      () => undefined,
    );
  }, []);
  return found;
}

interface EditorProps {
  area: { current: HTMLTextAreaElement | null };
  label: string;
  text: string;
  readOnly: boolean;
  declarations: Declarations | null;
  onInput: (text: string) => void;
}

export function Editor({ area, label, text, readOnly, declarations, onInput }: EditorProps) {
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, setChosen] = useState(-1);
  const place = useMemo(() => (caret === null ? null : placeAtEnd(text.slice(0, caret))), [text, caret]);
  const offered = useMemo(
    () => (place && declarations && !readOnly ? suggestions(declarations, place) : []),
    [place, declarations, readOnly],
  );
  const isOpen = offered.length > 0;
  // Within a word they open by themselves; elsewhere they would only cover what is below the text.
  const look = (element: HTMLTextAreaElement, isAsked: boolean) => {
    const at = element.selectionStart;
    const opens = at === element.selectionEnd && (isAsked || placeAtEnd(element.value.slice(0, at)).word !== "");
    setCaret(opens ? at : null);
    setChosen(-1);
  };
  const accept = (one: Suggestion) => {
    const element = area.current;
    if (caret === null || !place || !element) return;
    const added = one.text + (place.isKey && declarations?.keys(place.path).some((key) => key.text === one.text) ? ": " : "");
    // At once, not when the page is drawn again: what is typed until then comes after it.
    element.setRangeText(added, caret - place.word.length, caret, "end");
    element.focus();
    onInput(element.value);
    setCaret(null);
  };
  const onKey = (event: KeyboardEvent & { currentTarget: HTMLTextAreaElement }) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      look(event.currentTarget, true);
      return;
    }
    if (!isOpen) return;
    const one = offered[chosen];
    if (event.key === "Escape") {
      event.preventDefault();
      setCaret(null);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((chosen + step + offered.length) % offered.length);
    } else if (event.key === "Enter" && one) {
      event.preventDefault();
      accept(one);
    }
  };
  return (
    <div class="editing">
      <label class="field">
        <span>{label}</span>
        <textarea
          ref={area as Ref<HTMLTextAreaElement>}
          class="editor"
          spellcheck={false}
          readOnly={readOnly}
          value={text}
          aria-autocomplete="list"
          aria-controls="suggestions"
          aria-activedescendant={isOpen && chosen >= 0 ? `suggestion-${chosen}` : undefined}
          onInput={(event) => {
            onInput(event.currentTarget.value);
            look(event.currentTarget, false);
          }}
          onKeyDown={onKey}
          onClick={() => setCaret(null)}
          onBlur={() => setCaret(null)}
        />
      </label>
      <ul id="suggestions" class="suggestions" role="listbox" aria-label="Suggestions" hidden={!isOpen}>
        {offered.map((one, index) => (
          <li
            key={one.text}
            id={`suggestion-${index}`}
            role="option"
            aria-selected={index === chosen}
            ref={(element) => {
              if (index === chosen) element?.scrollIntoView({ block: "nearest" });
            }}
            // The text keeps the focus.
            onMouseDown={(event) => {
              event.preventDefault();
              accept(one);
            }}
          >
            <code>{one.text}</code> <span class="soft">{one.about}</span>
          </li>
        ))}
      </ul>
      {!readOnly && declarations && (
        <p class="soft">Suggestions appear while you type a word, and with Ctrl+Space: arrow keys and Enter choose, Escape closes them.</p>
      )}
    </div>
  );
}

type Kind = "check" | "choice" | "number" | "text" | "list" | "map" | "other";

interface Input {
  name: string;
  kind: Kind;
  choices: string[];
  isRequired: boolean;
  initial: string;
  about: string;
}

function isText(schema: Schema): boolean {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return types.includes("string") || typeof schema.const === "string";
}

/** The input for one setting, from its declaration. */
function input(declarations: Declarations, name: string, schema: Schema, isRequired: boolean): Input {
  const all = declarations.alternatives(schema).filter((one) => one.type !== "null");
  const words = all.flatMap((one) => (one.const !== undefined ? [one.const] : (one.enum ?? []))).map(String);
  const first = all[0];
  let kind: Kind = "other";
  if (all.length > 0 && words.length >= all.length) kind = "choice";
  else if (all.every((one) => one.type === "boolean")) kind = "check";
  else if (all.every((one) => one.type === "integer" || one.type === "number")) kind = "number";
  else if (all.some((one) => one.type === "array" && one.items && declarations.alternatives(one.items).some(isText))) kind = "list";
  else if (first && !first.properties && typeof first.additionalProperties === "object" && declarations.alternatives(first.additionalProperties).some(isText)) kind = "map";
  else if (all.some(isText)) kind = "text";
  const value = schema.default ?? first?.default;
  const initial = typeof value === "object" || value === undefined ? "" : String(value);
  const about = (schema.description ?? first?.description ?? "").replaceAll("\n", " ");
  return { name, kind, choices: words, isRequired, initial, about };
}

/** A text as YAML has it in one line: JSON is YAML. */
function written(text: string): string {
  return /^[A-Za-z_/][\w./-]*$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text) ? text : JSON.stringify(text);
}

/** The setting in one line of YAML; `null` if it is not set or as it is by default. */
function setting(one: Input, value: string): string | null {
  const lines = value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (lines.length === 0 || value === one.initial) return null;
  switch (one.kind) {
    case "list":
      return `[${lines.map(written).join(", ")}]`;
    case "map": {
      const pairs = lines.map((line) => {
        const at = line.indexOf(":");
        if (at < 1) throw new Error(`${one.name}: "${line}": expected "name: value"`);
        return `${written(line.slice(0, at).trim())}: ${written(line.slice(at + 1).trim())}`;
      });
      return `{ ${pairs.join(", ")} }`;
    }
    case "text":
      return written(value.trim());
    default:
      return lines.join(" ");
  }
}

function InputField({ one, value, onChange }: { one: Input; value: string; onChange: (value: string) => void }) {
  const label = `${one.name}${one.isRequired ? " (required)" : ""}`;
  const common = { title: one.about, required: one.isRequired };
  if (one.kind === "check") {
    return (
      <label class="check" title={one.about}>
        <input type="checkbox" checked={value === "true"} onChange={(event) => onChange(String(event.currentTarget.checked))} />
        <span>{label}</span>
      </label>
    );
  }
  if (one.kind === "choice") {
    return (
      <Field label={label}>
        <select {...common} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {one.initial === "" && <option value="" />}
          {one.choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      </Field>
    );
  }
  if (one.kind === "number" || one.kind === "text") {
    return (
      <Field label={label}>
        <input
          {...common}
          inputMode={one.kind === "number" ? "decimal" : "text"}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      </Field>
    );
  }
  const hint = one.kind === "list" ? "one a line" : one.kind === "map" ? "name: value, one a line" : "YAML in one line";
  return (
    <label class="field wide">
      <span>{`${label}, ${hint}`}</span>
      <textarea {...common} rows={2} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
    </label>
  );
}

/** A form that writes a filter, made of its declaration. */
export function FilterForm({ declarations, onInsert }: { declarations: Declarations; onInsert: (text: string) => void }) {
  const filters = useMemo(() => declarations.filters(), [declarations]);
  const [name, setName] = useState("");
  const [values, setValues] = useState<Record<string, string>>({});
  const [error, setError] = useState<string | null>(null);
  const filter = filters.find((one) => one.name === name);
  const inputs = useMemo(() => {
    if (!filter) return [];
    const shapes = declarations.alternatives(filter.schema);
    const shape = shapes.find((one) => one.properties);
    if (!shape?.properties) return [input(declarations, "", filter.schema, true)];
    const required = shape.required ?? [];
    return Object.entries(shape.properties).map(([key, schema]) => input(declarations, key, schema, required.includes(key)));
  }, [filter]);
  const insert = () => {
    try {
      const parts = inputs.map((one) => ({ one, text: setting(one, values[one.name] ?? one.initial) }));
      const only = parts[0];
      if (only && only.one.name === "") onInsert(`- ${name}: ${only.text ?? "{}"}`);
      else {
        const set = parts.filter((part) => part.text !== null).map((part) => `${part.one.name}: ${part.text}`);
        onInsert(`- ${name}: ${set.length === 0 ? "{}" : `{ ${set.join(", ")} }`}`);
      }
      setError(null);
    } catch (why) {
      setError(why instanceof Error ? why.message : String(why));
    }
  };
  return (
    <details>
      <summary>Write a filter with a form</summary>
      <form
        aria-label="Filter"
        onSubmit={(event) => {
          event.preventDefault();
          insert();
        }}
      >
        <Field label="Filter">
          <select
            required
            value={name}
            onChange={(event) => {
              setName(event.currentTarget.value);
              setValues({});
            }}
          >
            <option value="" />
            {filters.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </Field>
        {filter && <p class="soft wide">{filter.about}</p>}
        {inputs.map((one) => (
          <InputField
            key={`${name} ${one.name}`}
            one={one.name === "" ? { ...one, name: "value" } : one}
            value={values[one.name] ?? one.initial}
            onChange={(value) => setValues((before) => ({ ...before, [one.name]: value }))}
          />
        ))}
        <button type="submit">Insert at the caret</button>
      </form>
      {error !== null && <p class="note bad" role="alert">{error}</p>}
    </details>
  );
}
