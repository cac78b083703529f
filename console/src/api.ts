// Requests to the admin API, in a session.
//
// The cookie of the session is out of reach of scripts. Its proof, which each request needs as
// well, is stored for this origin, so that tabs share a session.
import type { Role } from "./types";

const STORED = "tidegate-session";
const PROOF_FIELD = "Tidegate-Session";

export interface Session {
  name: string;
  role: Role;
  proof: string;
}

/** An error of the API: `detail` says what is wrong, `advice` what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly advice: string | null,
    readonly members: Record<string, unknown>,
  ) {
    super(detail);
  }
}

function isSession(value: unknown): value is Session {
  const session = value as Partial<Session> | null;
  return typeof session?.proof === "string" && typeof session.role === "string";
}

export function session(): Session | null {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(STORED) ?? "null");
    return isSession(value) ? value : null;
  } catch {
    return null;
  }
}

let ended: () => void = () => undefined;

/** Calls `then` when a session has ended. */
export function whenEnded(then: () => void): void {
  ended = then;
  window.addEventListener("storage", (event) => {
    if (event.key === STORED && event.newValue === null) then();
  });
}

export function may(needed: "purge" | "write" | "all"): boolean {
  const role = session()?.role;
  return role === "all" || role === needed || (needed === "purge" && role === "write");
}

export interface Call {
  method?: string;
  body?: string;
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function failure(response: Response): Promise<ApiError> {
  const text = await response.text();
  let members: Record<string, unknown> = {};
  try {
    members = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Not an error of the API: shown as it is.
  }
  const string = (name: string) => (typeof members[name] === "string" ? members[name] : null);
  const detail = string("detail") ?? (text.trim() || `status ${response.status}`);
  return new ApiError(response.status, detail, string("advice"), members);
}

/** Sends a request; every status but 2xx is an error. */
export async function call(path: string, options: Call = {}): Promise<Response> {
  const own = session();
  const headers: Record<string, string> = { ...options.headers };
  if (own) headers[PROOF_FIELD] = own.proof;
  if (options.body !== undefined) headers["Content-Type"] = options.type ?? "application/json";
  const init: RequestInit = { method: options.method ?? "GET", headers, cache: "no-store" };
  if (options.body !== undefined) init.body = options.body;
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "the server does not respond", null, {});
  }
  if (response.ok) return response;
  const problem = await failure(response);
  if (response.status === 401 && own && session()?.proof === own.proof) {
    localStorage.removeItem(STORED);
    ended();
  }
  throw problem;
}

export async function json<T>(path: string, options: Call = {}): Promise<T> {
  const response = await call(path, options);
  return (await response.json()) as T;
}

/** A name in a path: the API takes slashes in it as they are, and refuses them when escaped. */
export function inPath(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

export function post<T>(path: string, value: unknown): Promise<T> {
  return json<T>(path, { method: "POST", body: JSON.stringify(value) });
}

export async function logIn(token: string): Promise<Session> {
  localStorage.removeItem(STORED);
  const opened = await post<Session>("/v1/session", { token });
  localStorage.setItem(STORED, JSON.stringify(opened));
  return opened;
}

export async function logOut(): Promise<void> {
  try {
    await call("/v1/session", { method: "DELETE" });
  } finally {
    localStorage.removeItem(STORED);
    ended();
  }
}

/** The text of an error for people. */
export function explained(error: unknown): string {
  if (error instanceof ApiError) {
    return error.advice ? `${error.detail}: ${error.advice}` : error.detail;
  }
  return error instanceof Error ? error.message : String(error);
}
