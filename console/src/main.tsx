import "./console.css";
import { render } from "preact";
import { App } from "./app";

const stored = localStorage.getItem("tidegate-theme");
if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
const root = document.getElementById("console");
if (root) render(<App />, root);
