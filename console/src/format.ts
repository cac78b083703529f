// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(n: number): string {
  if (n >= 1e9) return `${tenth.format(n / 1e9)} G`;
  if (n >= 1e6) return `${tenth.format(n / 1e6)} M`;
  return whole.format(n);
}

export function rate(n: number | null): string {
  if (n === null) return "–";
  return n >= 100 || n === 0 ? whole.format(n) : tenth.format(n);
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(n) : tenth.format(n)} ${units[unit]}`;
}

export function micros(us: number | null): string {
  if (us === null) return "–";
  if (us >= 1e6) return `${tenth.format(us / 1e6)} s`;
  if (us >= 1e3) return `${tenth.format(us / 1e3)} ms`;
  return `${whole.format(us)} µs`;
}

export function share(part: number | null): string {
  return part === null ? "–" : `${tenth.format(part * 100)} %`;
}

export function span(seconds: number): string {
  const s = Math.abs(seconds);
  const sign = seconds < 0 ? "−" : "";
  if (s >= 172800) return `${sign}${whole.format(Math.floor(s / 86400))} days`;
  if (s >= 7200) return `${sign}${whole.format(Math.floor(s / 3600))} h`;
  if (s >= 120) return `${sign}${whole.format(Math.floor(s / 60))} min`;
  return `${sign}${whole.format(Math.floor(s))} s`;
}

export function clock(at_ms: number): string {
  return new Date(at_ms).toLocaleTimeString("en-GB");
}

export function dateTime(text: string): string {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleString("en-GB");
}

/** Some of the names in a list, and how many others there are. */
export function some(names: string[], all: number): string {
  const shown = names.join(", ");
  return all > names.length ? `${shown} and ${count(all - names.length)} more` : shown;
}

/** The sum of a counter that may be split by reason. */
export function total(value: number | Partial<Record<string, number>> | undefined): number {
  if (value === undefined) return 0;
  if (typeof value === "number") return value;
  return Object.values(value).reduce<number>((sum, n) => sum + (n ?? 0), 0);
}
