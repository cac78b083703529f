// The server over the last five minutes: differences of summaries, kept in this page only, and the
// marks that the server keeps.
import { explained, json } from "./api";
import type { Mark, Summary } from "./types";

export const EVERY_MS = 2000;
const SAMPLES = 150;

export interface Sample {
  /** Seconds since 1970. */
  at: number;
  requests: number | null;
  errors: number | null;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  /** Cores in use. */
  cpu: number | null;
  rss: number | null;
  connections: number | null;
  inFlight: number | null;
  hitRatio: number | null;
}

export interface Live {
  summary: Summary | null;
  samples: Sample[];
  marks: Mark[];
  error: string | null;
}

/** As Prometheus does it: linear inside the bucket that holds the quantile. In milliseconds. */
export function quantile(bounds_us: number[], counts: number[], part: number): number | null {
  const all = counts.reduce((sum, n) => sum + n, 0);
  if (all === 0) return null;
  const rank = all * part;
  let below = 0;
  let low = 0;
  for (const [index, n] of counts.entries()) {
    const bound = bounds_us[index];
    if (bound === undefined) return low / 1000;
    if (below + n >= rank && n > 0) return (low + ((bound - low) * (rank - below)) / n) / 1000;
    below += n;
    low = bound;
  }
  return low / 1000;
}

function sample(before: Summary | null, now: Summary): Sample {
  const number = (name: string) => now.numbers[name] ?? null;
  const bare: Sample = {
    at: now.at_ms / 1000,
    requests: null,
    errors: null,
    p50: null,
    p90: null,
    p99: null,
    cpu: null,
    rss: number("rss_bytes"),
    connections: number("connections"),
    inFlight: number("in_flight"),
    hitRatio: null,
  };
  // Counters begin again with the process.
  if (!before || before.started !== now.started || now.at_ms <= before.at_ms) return bare;
  const seconds = (now.at_ms - before.at_ms) / 1000;
  const since = (name: string) => (now.numbers[name] ?? 0) - (before.numbers[name] ?? 0);
  const classes = Object.keys(now.responses);
  const responses = (wanted: (name: string) => boolean) =>
    classes
      .filter(wanted)
      .reduce((sum, name) => sum + (now.responses[name] ?? 0) - (before.responses[name] ?? 0), 0);
  const counts = now.durations.counts.map((n, i) => n - (before.durations.counts[i] ?? 0));
  const at = (part: number) => quantile(now.durations.below_us, counts, part);
  const hits = since("cache_hits") + since("cache_stale");
  const looked = hits + since("cache_misses");
  return {
    ...bare,
    requests: responses(() => true) / seconds,
    errors: responses((name) => name === "5xx") / seconds,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    cpu: since("cpu_s") / seconds,
    hitRatio: looked > 0 ? hits / looked : null,
  };
}

/** Polls summaries while the page is visible; at most one request at a time. */
export class Watcher {
  state: Live = { summary: null, samples: [], marks: [], error: null };
  private listeners = new Set<() => void>();
  private timer: number | undefined;
  private isRunning = false;
  /** Marks of the process before the current one. */
  private earlier: Mark[] = [];

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    if (this.isRunning) return;
    this.isRunning = true;
    void this.poll();
  }

  /** Stops and forgets what another user has seen. */
  stop(): void {
    this.isRunning = false;
    window.clearTimeout(this.timer);
    this.earlier = [];
    this.set({ summary: null, samples: [], marks: [], error: null });
  }

  private set(state: Live): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }

  private async poll(): Promise<void> {
    if (!document.hidden) await this.look();
    if (this.isRunning) this.timer = window.setTimeout(() => void this.poll(), EVERY_MS);
  }

  private async look(): Promise<void> {
    let now: Summary;
    try {
      now = await json<Summary>("/v1/summary");
    } catch (error) {
      if (this.isRunning) this.set({ ...this.state, error: explained(error) });
      return;
    }
    if (!this.isRunning) return;
    const before = this.state.summary;
    // A process knows nothing of the one before.
    if (before && before.started !== now.started) this.earlier = before.marks;
    this.set({
      summary: now,
      samples: [...this.state.samples, sample(before, now)].slice(-SAMPLES),
      marks: [...this.earlier, ...now.marks],
      error: null,
    });
  }
}

export const watcher = new Watcher();
