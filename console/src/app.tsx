// The frame of all pages: login, navigation, theme.
import { useEffect, useState } from "preact/hooks";
import { explained, logIn, logOut, session, whenEnded } from "./api";
import type { Session } from "./api";
import { watcher } from "./live";
import { Failure, Field } from "./parts";
import { Benchmarks } from "./pages/benchmarks";
import { Caches } from "./pages/caches";
import { Configuration } from "./pages/configuration";
import { Consumers } from "./pages/consumers";
import { Limits } from "./pages/limits";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Programs } from "./pages/programs";
import { Routes } from "./pages/routes";
import { Traffic } from "./pages/traffic";
import { Upstreams } from "./pages/upstreams";

const PAGES = [
  { path: "overview", title: "Overview", page: Overview, purge: false },
  { path: "traffic", title: "Traffic", page: Traffic, purge: false },
  { path: "routes", title: "Routes", page: Routes, purge: false },
  { path: "upstreams", title: "Upstreams", page: Upstreams, purge: false },
  { path: "caches", title: "Caches", page: Caches, purge: true },
  { path: "limits", title: "Limits", page: Limits, purge: false },
  { path: "programs", title: "Programs", page: Programs, purge: false },
  { path: "consumers", title: "Consumers", page: Consumers, purge: false },
  { path: "nodes", title: "Nodes", page: Nodes, purge: false },
  { path: "configuration", title: "Configuration", page: Configuration, purge: false },
  { path: "benchmarks", title: "Benchmarks", page: Benchmarks, purge: true },
];

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const THEME_STORED = "tidegate-theme";

function storedTheme(): Theme {
  const stored = localStorage.getItem(THEME_STORED);
  return THEMES.find((theme) => theme === stored) ?? "auto";
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  useEffect(() => {
    localStorage.setItem(THEME_STORED, theme);
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    window.dispatchEvent(new Event("themechange"));
  }, [theme]);
  return (
    <label class="theme">
      <span class="hidden">Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        {THEMES.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The token of a link such as the demo prints; the address bar and the history lose it. */
function takeLinkedToken(): string | null {
  const linked = /^#token=([^&]+)$/.exec(location.hash);
  if (!linked?.[1]) return null;
  history.replaceState(null, "", location.pathname);
  try {
    return decodeURIComponent(linked[1]);
  } catch {
    return null;
  }
}

function Login({ linked, onLogin }: { linked: string | null; onLogin: (opened: Session) => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const open = (given: string) => {
    setBusy(true);
    setError(null);
    logIn(given)
      .then(onLogin)
      .catch((why: unknown) => setError(explained(why)))
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    if (linked !== null) open(linked);
  }, []);
  return (
    <main class="login" id="main">
      <h1>Tidegate console</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          open(token);
        }}
      >
        <Field label="Token">
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </Field>
        <button type="submit" disabled={isBusy}>
          Log in
        </button>
        <p class="soft">
          A token of <code>admin.token</code> or <code>admin.tokens</code> in the configuration.
        </p>
        <Failure error={error} />
      </form>
    </main>
  );
}

function usePath(): string {
  const read = () => /^#\/([a-z]+)/.exec(location.hash)?.[1] ?? "overview";
  const [path, setPath] = useState(read);
  useEffect(() => {
    const look = () => setPath(read());
    window.addEventListener("hashchange", look);
    return () => window.removeEventListener("hashchange", look);
  }, []);
  return path;
}

function Frame({ user }: { user: Session }) {
  const pages = PAGES.filter((one) => user.role !== "purge" || one.purge);
  const path = usePath();
  const shown = pages.find((one) => one.path === path) ?? pages[0];
  useEffect(() => {
    if (user.role === "purge") return;
    watcher.start();
    return () => watcher.stop();
  }, [user.role]);
  useEffect(() => {
    document.title = `${shown?.title ?? ""} · Tidegate console`;
  }, [shown]);
  const Page = shown?.page;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to the content
      </a>
      <header>
        <span class="brand">Tidegate</span>
        <nav aria-label="Pages">
          {pages.map((one) => (
            <a key={one.path} href={`#/${one.path}`} aria-current={one === shown ? "page" : undefined}>
              {one.title}
            </a>
          ))}
        </nav>
        <div class="user">
          <span>
            {user.name} <span class="soft">({user.role})</span>
          </span>
          <ThemeSwitch />
          <button type="button" onClick={() => void logOut().catch(() => undefined)}>
            Log out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <h1>{shown?.title}</h1>
        {Page && <Page />}
      </main>
    </>
  );
}

export function App() {
  const [linked] = useState(takeLinkedToken);
  const [user, setUser] = useState<Session | null>(linked === null ? session : null);
  useEffect(() => {
    whenEnded(() => setUser(null));
  }, []);
  return user ? <Frame user={user} /> : <Login linked={linked} onLogin={setUser} />;
}
