// What the admin API responds with: docs/reference/admin.md.

export type Role = "read" | "purge" | "write" | "all";

export interface LastReload {
  at: string;
  ok: boolean;
  errors: string[];
}

export interface OutServer {
  upstream: string;
  address: string;
  state: string;
  last_error: string | null;
}

export interface Certificate {
  listener: string;
  subject: string;
  expires_in_s: number;
}

/** Something that happened: a reload, a restart, a change of health. */
export interface Mark {
  at_ms: number;
  kind: "good" | "bad" | "neutral";
  text: string;
  /** How often it happened within seconds. */
  times: number;
}

export interface Summary {
  at_ms: number;
  state: string;
  build: string;
  pid: number;
  started: string;
  uptime_s: number;
  config_version: string;
  listeners: { name: string; address: string }[];
  last_reload: LastReload | null;
  troubles: string[];
  numbers: Partial<Record<string, number>>;
  responses: Partial<Record<string, number>>;
  durations: { below_us: number[]; counts: number[]; sum_us: number };
  servers: { all: number; healthy: number; out: OutServer[] };
  certificates: Certificate[];
  marks: Mark[];
}

export interface Route {
  name: string;
  match: string;
  filters: string[];
  handler: string;
  requests: Partial<Record<string, number>>;
  in_flight: number;
  latency_below_us: { p50: number | null; p90: number | null; p99: number | null } | null;
}

export interface Server {
  server: string;
  address: string;
  weight: number;
  changed: boolean;
  backup: boolean;
  healthy: boolean;
  state: string;
  in_flight: number;
  connections: number;
  latency_us: number | null;
  last_error: string | null;
  ejected_for_ms: number;
  last_change: HealthChange | null;
}

export interface HealthChange {
  at: string;
  state: string;
  why: string;
}

/** A circuit breaker of routes that lead to an upstream. */
export interface Breaker {
  name: string;
  routes: string[];
  uses: number;
  state: "closed" | "half_open" | "open";
  since: string | null;
  requests: number;
  failed: number;
  slow: number;
  window_ms: number;
}

export interface Upstream {
  name: string;
  balance: string;
  healthy: number;
  panic: boolean;
  servers: Server[];
  discovery: { source: string; servers: number; age_s: number | null; error: string | null } | null;
  breakers: Breaker[];
}

export interface Cache {
  name: string;
  routes: string[];
  objects: number;
  bytes: number;
  memory_bytes: number;
  disk: {
    path: string;
    objects: number;
    bytes: number;
    deleted_bytes: number;
    size_bytes: number;
    failed: string | null;
  } | null;
  hits: number | Record<string, number>;
  stale: number | Record<string, number>;
  misses: number | Record<string, number>;
  passes: number | Record<string, number>;
  coalesced: number;
  stored: number;
}

export interface CacheEntry {
  url: string;
  /** The URL has a secret, which is masked. */
  masked: boolean;
  route: string;
  kind: string;
  status: number | null;
  coding: string | null;
  bytes: number | null;
  memory_bytes: number;
  hits: number;
  age_s: number | null;
  fresh_s: number | null;
  tags: number;
}

export interface PurgePreview {
  responses: number;
  /** A secret in a prefix is not compared. */
  is_upper_bound: boolean;
  urls: string[];
}

export interface TopEntries {
  by_hits: CacheEntry[];
  by_memory: CacheEntry[];
}

export interface FleetNode {
  name: string;
  state: "ready" | "refused" | "canary";
  version: string;
  revision: number;
  refused: { revision: number; errors: string[] } | null;
  canary: { requests: number; errors: number } | null;
  reported: string;
  build: string;
  process: number;
}

export interface FleetNodes {
  /** `null` without a fleet. */
  source: string | null;
  node: string | null;
  nodes: FleetNode[];
  next?: string;
}

export interface AppWorker {
  index: number;
  state: string;
  process: number | null;
  generation: number | null;
  started: string | null;
  requests: number;
  in_flight: number;
  rss_bytes: number;
  loop_lag_ms: number;
  restarts: Record<string, number>;
  last_failure: string | null;
}

/** An error of a program: of Lua code, of a request in an application, or of one of its processes. */
export interface ErrorRecord {
  at: string;
  first: string;
  times: number;
  worker: number;
  route: string | null;
  request: string | null;
  /** Of Lua code only. */
  program?: string | null;
  file: string | null;
  message: string;
  traceback: string;
  trace_id: string | null;
}

export interface App {
  name: string;
  target: string;
  ready: number;
  leaving: number;
  workers: AppWorker[];
  failures: ErrorRecord[];
  errors: ErrorRecord[];
  tasks: { waiting: number; running: number; done: number; failed: number; retried: number };
}

export interface Stream {
  name: string;
  bind: string;
  protocol: string;
  tls: boolean;
  upstreams: { name: string; healthy: number; servers: number }[];
  connections: { active: number; accepted: number };
  received_bytes: number;
  sent_bytes: number;
}

export interface Worker {
  index: number;
  cpu: number | null;
  connections: { active: number; idle: number; tunnels: number };
  in_flight: number;
  responses: Record<string, number>;
  lua: {
    vms: number;
    memory_bytes: number;
    memory_limit_bytes: number;
    replaced: number;
    restarted: number;
    errors: number;
    loop_lag_ms: number;
  } | null;
}

export interface Lua {
  files: { path: string; used_by: string[]; uses: number }[];
  errors: ErrorRecord[];
}

export type Attributes = Record<string, string | number>;

export interface Step {
  name: string;
  at_us: number;
  took_us: number;
  depth: number;
  failed: boolean;
  attributes: Attributes;
}

export interface LoggedRequest {
  time: string;
  trace_id: string;
  duration_us: number;
  failed: boolean;
  match?: string;
  attributes: Attributes;
  steps: Step[];
  steps_dropped: number;
}

export interface SentResponse {
  listener: string;
  status: number;
  headers: [string, string][];
  body: string;
  is_cut: boolean;
  failed: string | null;
  duration_us: number;
}

export interface ConfigError {
  file: string | null;
  line: number | null;
  column: number | null;
  message: string;
  help: string | null;
}

export interface ConfigVersion {
  version: string;
  at: string;
  current: boolean;
}

export interface BenchRecord {
  server: string;
  scenario: string;
  connections: number;
  workers: number;
  cpu_us_per_request: number | null;
  requests_per_second: number | null;
  latency_ms: { p50: number | null; p99: number | null } | null;
  rss_bytes: number | null;
  errors: number;
  disturbed: string | null;
}

export interface BenchData {
  version: number;
  date: string;
  complete: boolean;
  machine: { cpu: string; cores: number; kernel: string };
  records: BenchRecord[];
}
