// Parses each Mermaid diagram of these Markdown files, as GitHub does, and prints what is wrong.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("");
globalThis.window = window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");

let diagrams = 0;
for (const path of process.argv.slice(2)) {
  for (const [, text] of readFileSync(path, "utf8").matchAll(/^\s*```mermaid\n(.*?)^\s*```/gms)) {
    diagrams++;
    await mermaid.parse(text).catch((error) => {
      console.error(`${path}: ${error.message}`);
      process.exitCode = 1;
    });
  }
}
console.log(`${diagrams} diagrams`);
