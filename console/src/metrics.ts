// The text of /metrics as values.

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of these families, by name. */
export function parse(text: string, names: ReadonlySet<string>): Map<string, Sample[]> {
  const found = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    const end = line.search(/[{ ]/);
    const name = line.slice(0, end);
    if (!names.has(name)) continue;
    const parts = LINE.exec(line);
    if (!parts) continue;
    const labels: Record<string, string> = {};
    for (const [, label, value] of (parts[2] ?? "").matchAll(LABEL)) {
      if (label) labels[label] = (value ?? "").replace(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one));
    }
    found.set(name, [...(found.get(name) ?? []), { labels, value: Number(parts[3]) }]);
  }
  return found;
}
