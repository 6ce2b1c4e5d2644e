// Draws the dashboards as pictures: scripts/draw says how. It exits with 1, and names the panels, if
// one has no data or a text that is cut off.
import {build} from 'esbuild';
import {mkdirSync, readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import puppeteer from 'puppeteer-core';

const [dashboards, chromium, prometheus, out, minutes, interval] = process.argv.slice(2);
const folder = resolve(out);
mkdirSync(folder, {recursive: true});
await build({
  entryPoints: [fileURLToPath(new URL('panels.jsx', import.meta.url))], outdir: folder, bundle: true, jsx: 'automatic', logLevel: 'error',
  define: {'process.env.NODE_ENV': '"production"', global: 'window'},
  loader: {'.ttf': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.svg': 'dataurl'},
});

const browser = await puppeteer.launch({executablePath: chromium, args: ['--no-sandbox']});
for (const file of readdirSync(dashboards).filter(name => name.endsWith('.json'))) {
  const name = file.replace('.json', '');
  const drawing = {dashboard: JSON.parse(readFileSync(join(dashboards, file))), prometheus, minutes: Number(minutes), interval: Number(interval)};
  writeFileSync(join(folder, `${name}.html`), `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css">
<body style="margin: 0"><div id="root"></div><script>window.drawing = ${JSON.stringify(drawing)}</script><script src="panels.js"></script>`);
  const page = await browser.newPage();
  await page.setViewport({width: 1440, height: 730}); // about what is seen of a dashboard at first
  page.on('pageerror', error => { problem(name, error.message); });
  await page.goto(pathToFileURL(join(folder, `${name}.html`)));
  const late = new Promise(done => { setTimeout(done, 60_000, ['it is not drawn after a minute']).unref(); });
  for (const text of await Promise.race([page.evaluate(() => window.drawn), late])) problem(name, text);
  await page.screenshot({path: join(folder, `${name}-first.png`)});
  await page.screenshot({path: join(folder, `${name}.png`), fullPage: true});
  await page.close();
}
await browser.close();

function problem(dashboard, text) {
  console.error(`${dashboard}: ${text}`);
  process.exitCode = 1;
}
