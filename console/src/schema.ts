// The declarations of the configuration (JSON Schema), and where in a text of YAML the caret is.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  const?: unknown;
  enum?: unknown[];
  required?: string[];
  description?: string;
  default?: unknown;
  examples?: unknown[];
  minimum?: number;
  maximum?: number;
}

export interface Suggestion {
  text: string;
  about: string;
}

/** The first paragraph of a description. */
function summary(schema: Schema): string {
  return (schema.description ?? "").split("\n\n")[0]?.replaceAll("\n", " ") ?? "";
}

export class Declarations {
  constructor(private readonly root: Schema & { $defs?: Record<string, Schema> }) {}

  private resolved(schema: Schema): Schema {
    const name = schema.$ref?.replace("#/$defs/", "");
    const found = name === undefined ? undefined : this.root.$defs?.[name];
    // What stands beside a reference, such as the description, is that of the place.
    return found === undefined ? schema : { ...this.resolved(found), ...schema };
  }

  /** The alternatives of a schema. */
  alternatives(schema: Schema): Schema[] {
    const own = this.resolved(schema);
    // A text may have several patterns: all have to match, so they are not choices.
    if (own.anyOf === undefined || own.properties !== undefined || own.type === "string") return [own];
    return own.anyOf.flatMap((one) => this.alternatives(one));
  }

  /** What may stand at a path; `-` is an item of a list. */
  at(path: string[]): Schema[] {
    let here = this.alternatives(this.root);
    for (const name of path) {
      here = here.flatMap((one) => {
        const inside = name === "-" ? one.items : (one.properties?.[name] ?? one.additionalProperties);
        return typeof inside === "object" ? this.alternatives(inside) : [];
      });
    }
    return here;
  }

  keys(path: string[]): Suggestion[] {
    const found = this.at(path).flatMap((one) => Object.entries(one.properties ?? {}));
    return found.map(([text, schema]) => ({
      text,
      about: summary(schema) || this.alternatives(schema).map(summary).find(Boolean) || "",
    }));
  }

  values(path: string[]): Suggestion[] {
    return this.at(path).flatMap((one) => {
      const words = one.const !== undefined ? [one.const] : (one.enum ?? []);
      if (one.type === "boolean") words.push(true, false);
      const examples = [...(one.examples ?? []), ...(one.default === undefined ? [] : [one.default])];
      const plain = examples.filter((value) => ["string", "number", "boolean"].includes(typeof value));
      const about = summary(one);
      return [...new Set([...words, ...plain].map(String))].map((text) => ({ text, about }));
    });
  }

  /** The filters that a route may have, by name. */
  filters(): { name: string; about: string; schema: Schema }[] {
    return this.at(["routes", "-", "filters", "-"]).flatMap((one) =>
      Object.entries(one.properties ?? {}).map(([name, schema]) => ({ name, about: summary(one), schema })),
    );
  }
}

export interface Place {
  /** The names from the root; `-` is an item of a list. */
  path: string[];
  /** What has been typed of the key or of the value. */
  word: string;
  isKey: boolean;
}

interface Level {
  indent: number;
  name: string;
}

interface Flow {
  isMap: boolean;
  key: string | null;
  token: string;
}

const KEY = /^("[^"]*"|'[^']*'|[^\s#{}[\],"'&*!|>%@`-][^:#{}[\],]*?)\s*:(?=\s|$)/;

function unquoted(text: string): string {
  const trimmed = text.trim();
  const quoted = /^(["'])(.*)\1$/.exec(trimmed);
  return quoted?.[2] ?? trimmed;
}

/** Reads flow collections from a line, which may end within one. */
function readFlow(text: string, flows: Flow[]): void {
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? "";
    const top = flows.at(-1);
    if (quote) {
      if (character === quote) quote = "";
      if (top) top.token += character;
    } else if (character === "#" && /\s/.test(text[at - 1] ?? " ")) {
      return;
    } else if (character === "{" || character === "[") {
      flows.push({ isMap: character === "{", key: null, token: "" });
    } else if (!top) {
      continue;
    } else if (character === "}" || character === "]") {
      flows.pop();
    } else if (character === ",") {
      top.key = null;
      top.token = "";
    } else if (character === ":" && top.isMap && top.key === null && /^(\s|$)/.test(text[at + 1] ?? " ")) {
      top.key = unquoted(top.token);
      top.token = "";
    } else {
      if (character === '"' || character === "'") quote = character;
      top.token += character;
    }
  }
}

/** Where the end of this text is. */
export function placeAtEnd(text: string): Place {
  const levels: Level[] = [];
  const flows: Flow[] = [];
  let rest = "";
  let hasKey = false;
  const lines = text.split("\n");
  for (const [index, line] of lines.entries()) {
    if (flows.length > 0) {
      readFlow(line, flows);
      continue;
    }
    const start = /^( *)((?:- +)*)(-?)(.*)$/.exec(line);
    if (!start) continue;
    let indent = start[1]?.length ?? 0;
    const markers = start[2] ?? "";
    rest = start[4] ?? "";
    hasKey = false;
    if (rest.startsWith("#")) continue;
    const isBlank = !markers && !start[3] && !rest;
    // A blank line ends nothing, except where the caret is in it.
    if (isBlank && index < lines.length - 1) continue;
    const isItem = markers !== "" || start[3] !== "";
    const ends = (level: Level) =>
      level.indent > indent || (level.indent === indent && (!isItem || level.name === "-"));
    while (levels.length > 0 && ends(levels[levels.length - 1] as Level)) levels.pop();
    for (const marker of markers.match(/- +/g) ?? []) {
      levels.push({ indent, name: "-" });
      indent += marker.length;
    }
    if (start[3]) levels.push({ indent, name: "-" });
    const key = KEY.exec(rest);
    if (key) {
      levels.push({ indent, name: unquoted(key[1] ?? "") });
      rest = rest.slice(key[0].length);
      hasKey = true;
    }
    const value = rest.trimStart();
    if (value.startsWith("{") || value.startsWith("[")) readFlow(value, flows);
  }
  const path = levels.map((level) => level.name);
  for (const flow of flows) {
    if (!flow.isMap) path.push("-");
    else if (flow.key !== null) path.push(flow.key);
  }
  const inside = flows.at(-1);
  if (inside) return { path, word: inside.token.trimStart(), isKey: inside.isMap && inside.key === null };
  return { path, word: rest.trimStart(), isKey: !hasKey };
}

/** What may be typed at a place: names that begin with the word first, then those that contain it. */
export function suggestions(declarations: Declarations, place: Place): Suggestion[] {
  const word = place.word.replace(/^["']/, "").toLowerCase();
  const keys = place.isKey ? declarations.keys(place.path) : [];
  const all = [...keys, ...declarations.values(place.path)];
  const rank = (one: Suggestion) => {
    const at = one.text.toLowerCase().indexOf(word);
    return at === 0 ? 0 : at > 0 ? 1 : 2;
  };
  const known = new Map(all.map((one) => [one.text, one]));
  return [...known.values()].filter((one) => rank(one) < 2).sort((a, b) => rank(a) - rank(b)).slice(0, 50);
}
