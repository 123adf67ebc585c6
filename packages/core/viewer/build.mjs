// Bundles the viewer into the Python package. The same sources give the same bytes; their hash is in the first line, so
// that a test can tell an asset that was not built anew.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../src/agenttape_core/tools/viewer/assets");

function sources() {
  const own = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(here.length + 1).replaceAll("\\", "/"));
  return ["build.mjs", "package.json", "tsconfig.json", ...own].sort();
}

const hash = createHash("sha256");
for (const name of sources()) {
  hash.update(`${name}\n${readFileSync(join(here, name), "utf8").replaceAll("\r\n", "\n")}\n`);
}
const license = readFileSync(join(here, "node_modules/preact/LICENSE"), "utf8").trim();
const made = `Built from packages/core/viewer by make viewer; do not edit. Sources: sha256-${hash.digest("hex")}`;

const bundle = (entry, banner) =>
  build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    write: false,
    minify: true,
    charset: "ascii",
    target: "es2023",
    format: "iife",
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    banner,
  }).then((result) => result.outputFiles[0].text);

mkdirSync(target, { recursive: true });
const header = `/* ${made}\n\nThe AgentTape viewer holds preact:\n\n${license}\n*/`;
writeFileSync(join(target, "viewer.js"), await bundle("src/main.tsx", { js: header }));
writeFileSync(join(target, "viewer.css"), await bundle("src/style.css", { css: `/* ${made} */` }));
