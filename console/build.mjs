// Writes the files of the console that the server includes.
//
//   node build.mjs DIRECTORY
//
// The same sources and versions give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

const directory = process.argv[2];
if (!directory) {
  console.error("usage: node build.mjs DIRECTORY");
  process.exit(2);
}
await mkdir(directory, { recursive: true });
await build({
  entryPoints: { console: "src/main.tsx" },
  outdir: directory,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  await copyFile(join("src", name), join(directory, name));
}
// The licences of what the bundle contains require their texts.
const texts = [];
for (const name of ["preact", "uplot"]) {
  const about = JSON.parse(await readFile(join("node_modules", name, "package.json"), "utf8"));
  const text = await readFile(join("node_modules", name, "LICENSE"), "utf8");
  texts.push(`${name} ${about.version}, ${about.license}\n\n${text.trim()}\n`);
}
await writeFile(join(directory, "licenses.txt"), texts.join("\n\n"));
