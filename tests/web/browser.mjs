// SPDX-License-Identifier: Apache-2.0
// Tests the page in headless Chromium, through the DevTools protocol. Needs no packages of Node.
// usage: node --experimental-websocket browser.mjs PAGE [SHOTS]
//   PAGE   the HTML file
//   SHOTS  folder for pictures of every view (400 and 1280 px, both themes)
import {spawn} from 'node:child_process';
import {mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

const [, , pagePath, shots] = process.argv;
if (!pagePath) {
  console.error('usage: node --experimental-websocket browser.mjs PAGE [SHOTS]');
  process.exit(2);
}
readFileSync(pagePath);  // a clear error if there is no page
const address = `file://${resolve(pagePath)}`;
const profile = mkdtempSync(join(tmpdir(), 'macheps-browser-'));
const chromium = spawn(process.env.CHROMIUM ?? 'chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0',
  `--user-data-dir=${profile}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'pipe']});
const endpoint = await new Promise((found, failed) => {
  let text = '';
  chromium.stderr.on('data', part => {
    text += part;
    const match = /DevTools listening on (ws:\S+)/.exec(text);
    if (match) found(match[1]);
  });
  chromium.on('exit', () => failed(new Error(`chromium ended: ${text}`)));
});

// ---- the protocol ----------------------------------------------------------------------------------------------------

const socket = new WebSocket(endpoint);
await new Promise(opened => socket.addEventListener('open', opened));
const waiting = new Map(), listeners = [];
let next = 1;
socket.addEventListener('message', ({data}) => {
  const message = JSON.parse(data);
  if (message.id) {
    const [done, failed] = waiting.get(message.id);
    waiting.delete(message.id);
    message.error ? failed(new Error(message.error.message)) : done(message.result);
  } else {
    for (const listener of listeners) listener(message);
  }
});
const send = (method, params = {}, sessionId) => new Promise((done, failed) => {
  waiting.set(next, [done, failed]);
  socket.send(JSON.stringify({id: next++, method, params, sessionId}));
});
const {targetId} = await send('Target.createTarget', {url: 'about:blank'});
const {sessionId} = await send('Target.attachToTarget', {targetId, flatten: true});
const tab = (method, params) => send(method, params, sessionId);
const problems = [], requests = [];
listeners.push(({method, params}) => {
  if (method === 'Runtime.exceptionThrown') problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === 'Log.entryAdded' && params.entry.level === 'error') problems.push(params.entry.text);
  if (method === 'Network.requestWillBeSent') requests.push(params.request.url);
});
await tab('Page.enable');
await tab('Runtime.enable');
await tab('Log.enable');
await tab('Network.enable');
const evaluate = async expression => {
  const {result, exceptionDetails} = await tab('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true});
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
const until = async (expression, what, ms = 20000) => {
  const end = Date.now() + ms;
  while (Date.now() < end) {
    if (await evaluate(`Boolean(${expression})`).catch(() => false)) return;
    await new Promise(later => setTimeout(later, 30));
  }
  throw new Error(`not within ${ms} ms: ${what}`);
};
const open = async (fragment = '') => {
  await tab('Page.navigate', {url: 'about:blank'});
  await tab('Page.navigate', {url: address + fragment});
  await until(`document.documentElement.dataset.ready === 'true'`, `the page is ready (${fragment})`);
};
const settled = async () => {
  await evaluate('new Promise(done => setTimeout(done, 50))');
  await until('program.calls.size === 0', 'all commands have ended', 60000);
  await evaluate('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))');
};
const width = (size, height = 900) => tab('Emulation.setDeviceMetricsOverride', {width: size, height, deviceScaleFactor: 1, mobile: size < 500});

// ---- the tests -------------------------------------------------------------------------------------------------------

const tests = [];
const test = (title, body) => tests.push({title, body});
const equal = (got, wanted, what) => {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Error(`${what}: ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
};
const type = (selector, value) => evaluate(`{ const box = document.querySelector(${JSON.stringify(selector)});
  box.value = ${JSON.stringify(value)}; box.dispatchEvent(new Event('input', {bubbles: true})); }`);
const cell = (format, column) => evaluate(`[...document.querySelectorAll('#panel-number tbody tr')]
  .find(row => row.cells[0].textContent === '${format}')?.cells[${column}].textContent`);

test('the page opens from a disk, and its self-check finds no difference', async () => {
  await open();
  const about = await evaluate('document.getElementById("about").textContent');
  if (!about.includes('they are equal')) throw new Error(about);
  equal(await cell('e4m3fn', 1), '0.1015625', '0.1 in e4m3fn');
});
test('typing changes the table and the address', async () => {
  await open();
  await type('#panel-number input', '464');
  await settled();
  equal(await cell('e4m3fn', 1), '448', '464 in e4m3fn');
  equal(await evaluate('location.hash'), '#v=number&x=464', 'the address');
});
test('a bit that is clicked with the keyboard or the pointer flips, and its row becomes the input', async () => {
  await open();
  await evaluate(`document.querySelector('[aria-label="bits of fp16"] button').click()`);
  await settled();
  equal(await cell('fp16', 1), '-0.0999755859375', 'fp16 after the sign was flipped');
  const box = await evaluate(`(() => { const b = document.querySelector('[aria-label="bits of fp16"] [data-place="0"]');
    b.scrollIntoView(); const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`);
  for (const kind of ['mousePressed', 'mouseReleased']) {
    await tab('Input.dispatchMouseEvent', {type: kind, x: box[0], y: box[1], button: 'left', clickCount: 1, buttons: 1});
  }
  await settled();
  equal(await cell('fp16', 3), '0xae67', 'the code after the last bit was flipped, too');
});
test('a flipped bit of every format changes that bit alone', async () => {
  await open();
  for (const [format, place, code] of [['tf32', 13, '0x3dcce000'], ['e2m3fn', 0, '0x00'], ['e2m1fn', 3, '0x8'], ['fp64', 63, '0xbfb999999999999a']]) {
    await open('#v=number');
    await evaluate(`document.querySelector('[aria-label="bits of ${format}"] [data-place="${place}"]').click()`);
    await settled();
    const shown = await cell(format, 3);
    if (BigInt(shown) !== BigInt(code)) throw new Error(`${format}: ${shown}, wanted ${code}`);
  }
});
test('a link restores the state, and an unknown key is named and ignored', async () => {
  await open('#v=number&x=1%2F3&round=up&colour=red');
  equal(await cell('bf16', 1), '0.333984375', '1/3 rounded up in bf16');
  const note = await evaluate('document.getElementById("note").textContent');
  if (!note.includes('colour')) throw new Error(note);
});
test('the addresses of docs/page.md and docs/lecture.md open without an error', async () => {
  const pages = ['page', 'lecture'].map(name => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8'));
  const addresses = pages.flatMap(text => [...text.matchAll(/`(#v=[^`]+)`/g)].map(match => match[1]));
  if (addresses.length < 15) throw new Error(`only ${addresses.length} addresses`);
  for (const address of addresses) {
    await open(address);
    await settled();
    const view = /v=(\w+)/.exec(address)[1];
    equal(await evaluate(`[document.getElementById('note').hidden, document.querySelector('#panel-${view} .error').hidden]`), [true, true], address);
    if (address.includes('0.1 + 0.2')) equal(await evaluate(`document.querySelector('#panel-compute input').value`), '0.1 + 0.2', 'the expression');
  }
});
test('a wrong number is reported in the words of the page', async () => {
  await open();
  await type('#panel-number input', '12monkeys');
  await settled();
  const text = await evaluate('document.querySelector("#panel-number .error").textContent');
  if (!text.includes('12monkeys') || text.includes('--')) throw new Error(text);
});
test('a config that is dropped is read, and its findings select their lines', async () => {
  await open('#v=config');
  await evaluate(`{ const data = new DataTransfer();
    data.items.add(new File([JSON.stringify({fp16: {enabled: true, loss_scale_window: 100}, zero_optimization: {stage: 2}}, null, 1)], 'ds.json'));
    document.querySelector('#panel-config textarea').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); }`);
  await settled();
  await until(`document.querySelector('#panel-config tbody tr')`, 'findings');
  const text = await evaluate('document.querySelector("#panel-config .result").textContent');
  if (!text.includes('deepspeed') || !text.includes('fp16.loss_scale_window')) throw new Error(text.slice(0, 300));
  equal(await evaluate('location.hash.includes("config=")'), false, 'the config is in the address');
});
test('the steps of a scaler are buttons', async () => {
  await open('#v=scaler');
  await evaluate(`document.querySelector('[data-step="5"]').click()`);
  await settled();
  equal(await evaluate('pairsOf(location.hash.slice(1)).get("overflow-at")'), '3,4,5,9', 'the address');
});
for (const view of ['number', 'compute', 'format', 'sum', 'unit', 'config', 'scaler', 'policy']) {
  test(`view ${view}: no horizontal scrolling at 320, 400, 800 and 1280 px, in both themes`, async () => {
    for (const size of [320, 400, 800, 1280]) {
      await width(size);
      await open(`#v=${view}`);
      await settled();
      const over = await evaluate('document.documentElement.scrollWidth - innerWidth');
      if (over > 0) {
        const who = await evaluate(`[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 &&
          !e.closest('.wide, pre, svg')).map(e => e.tagName + '.' + e.className).slice(0, 5).join(' ')`);
        throw new Error(`${over} px too wide at ${size} px: ${who}`);
      }
      const error = await evaluate(`[...document.querySelectorAll('.error')].filter(e => !e.hidden && e.offsetParent).map(e => e.textContent).join()`);
      equal(error, '', 'errors on the page');
      for (const theme of ['light', 'dark']) {
        await evaluate(`setTheme('${theme}')`);
        if (shots && (size === 400 || size === 1280)) {
          mkdirSync(shots, {recursive: true});
          const {data} = await tab('Page.captureScreenshot', {format: 'png'});
          writeFileSync(join(shots, `${view}-${size}-${theme}.png`), Buffer.from(data, 'base64'));
        }
      }
    }
    await width(1280);
  });
}
test('every pair of colours has a contrast of at least 4.5', async () => {
  await open();
  const low = await evaluate(`(() => {
    const light = hex => { const part = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]; };
    const wrong = [];
    for (const theme of ['light', 'dark']) {
      setTheme(theme);
      const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue(name).trim();
      for (const [ink, ground] of [['--text', '--ground'], ['--quiet', '--ground'], ['--error', '--ground'], ['--text', '--raised'],
        ['--on-accent', '--accent'], ['--sign', '--ground'], ['--exponent', '--ground'], ['--fraction', '--ground'], ['--accent', '--ground']]) {
        const [a, b] = [light(of(ink)), light(of(ground))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
        if (!(ratio >= 4.5)) wrong.push(theme + ' ' + ink + ' on ' + ground + ': ' + ratio.toFixed(2));
      }
    }
    return wrong;
  })()`);
  equal(low, [], 'low contrast');
});
test('every control has a name', async () => {
  for (const view of ['number', 'compute', 'format', 'sum', 'unit', 'config', 'scaler', 'policy']) {
    await open(`#v=${view}`);
    await settled();
    const {nodes} = await tab('Accessibility.getFullAXTree');
    const nameless = nodes.filter(node => !node.ignored && ['button', 'textbox', 'combobox', 'checkbox', 'tab', 'image', 'spinbutton'].includes(node.role?.value) &&
      !node.name?.value).map(node => node.role.value);
    equal(nameless, [], `controls without a name in ${view}`);
  }
});
test('the arrow keys move between tabs', async () => {
  await open();
  await evaluate(`document.querySelector('[role=tab][aria-selected=true]').focus()`);
  await tab('Input.dispatchKeyEvent', {type: 'keyDown', key: 'ArrowRight', code: 'ArrowRight', windowsVirtualKeyCode: 39});
  await settled();
  equal(await evaluate('document.activeElement.textContent'), 'Compute', 'the focused tab');
  equal(await evaluate('location.hash'), '#v=compute', 'the address');
});
test('the page sends nothing, even if a script tries to', async () => {
  const seen = [];
  const server = createServer((request, response) => {
    seen.push(request.url);
    response.end();
  }).listen(0);
  const there = `http://127.0.0.1:${server.address().port}`;
  const attempts = `(async () => { const ignore = () => {};
    await fetch('${there}/fetch', {mode: 'no-cors'}).catch(ignore);
    new Image().src = '${there}/image';
    navigator.sendBeacon('${there}/beacon', 'x');
    const form = document.createElement('form'); form.action = '${there}/form'; form.method = 'post'; form.target = 'unseen';
    const frame = document.createElement('iframe'); frame.name = 'unseen';
    document.body.append(frame, form); form.submit();
    const worker = new Worker(URL.createObjectURL(new Blob(["fetch('${there}/worker', {mode: 'no-cors'}).catch(() => {})"])));
    await new Promise(done => setTimeout(done, 700)); worker.terminate(); })()`;
  await open();
  const before = problems.length;
  await evaluate(attempts);
  equal(seen, [], 'requests that arrived');
  problems.splice(before);  // the policy reports each attempt
  // Control: without the policy, the same attempts arrive.
  await tab('Page.navigate', {url: `${there}/control`});
  await until('document.readyState === "complete"', 'the control page');
  await evaluate(attempts).catch(() => {});
  server.close();
  const kinds = ['/fetch', '/image', '/beacon', '/form', '/worker'].filter(kind => seen.includes(kind));
  equal(kinds, ['/fetch', '/image', '/beacon', '/form', '/worker'], 'attempts that arrive without the policy');
  problems.splice(before);
});
test('the page opens within 2.5 s, and a key changes the table within 250 ms', async () => {
  const began = Date.now();
  await open();
  const opened = Date.now() - began;
  const ms = await evaluate(`(async () => { const box = document.querySelector('#panel-number input'), times = [];
    for (const text of ['1', '1.', '1.5', '1.5e', '1.5e3']) { const start = performance.now(); box.value = text;
      box.dispatchEvent(new Event('input', {bubbles: true}));
      do { await new Promise(done => requestAnimationFrame(done)); } while (program.calls.size > 0);
      times.push(performance.now() - start); }
    return Math.max(...times); })()`);
  console.log(`  opened in ${opened} ms; a key takes at most ${Math.round(ms)} ms`);
  if (opened > 2500 || ms > 250) throw new Error('too slow');
});

let failed = 0;
try {
  for (const test of tests) {
    const {title, body} = test;
    problems.length = 0;
    requests.length = 0;
    try {
      await body();
      const outside = requests.filter(url => !/^(file|data|blob|about):/.test(url) && !url.startsWith('http://127.0.0.1'));
      equal(outside, [], 'requests');
      equal(problems, [], 'errors in the console');
      console.log(`passed  ${title}`);
    } catch (error) {
      if (test === tests[0]) throw error;  // the page does not open
      ++failed;
      console.log(`FAILED  ${title}\n        ${error.message}`);
    }
  }
} finally {
  const ended = new Promise(done => chromium.on('exit', done));
  await send('Browser.close').catch(() => {});
  await ended;
  rmSync(profile, {recursive: true, force: true, maxRetries: 5});
}
console.log(`${tests.length - failed} of ${tests.length} tests of the page passed`);
process.exit(failed > 0 ? 1 : 0);
