// SPDX-License-Identifier: Apache-2.0
// The frame of the page: it starts the program, shows one view at a time, and keeps the state of the view in the
// fragment of the address. Each file in views/ adds a view to `views`.
'use strict';

/// A view is {name, title, sentence, keys, build(panel, view), show(state, view), command(state)}.
///   name      its word in the address (v=NAME)
///   sentence  what the view shows
///   keys      {key: default} of the state; the keys are long option names of the command where there is one
///   build     makes the controls, once. It calls view.change({key: value}) when the user changes something
///   show      draws the state. It calls view.run(args, files), and draws what that resolves to
///   command   the equivalent command line, as a list of arguments
const views = [];

const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== 'list') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

/// A control with its label. `options` is a list of words, or of {value, text}.
const labelled = (text, control) => element('label', {className: 'labelled'}, element('span', {}, text), control);
const selectOf = (options, value) => {
  const select = element('select');
  for (const option of options) {
    const {value: word, text} = typeof option === 'string' ? {value: option, text: option} : option;
    select.append(element('option', {value: word, selected: word === value}, text));
  }
  return select;
};
/// A table. `rows` are lists of texts or nodes, and `head` the texts of the first row.
const tableOf = (caption, head, rows) => element('div', {className: 'wide', tabIndex: 0, role: 'region', ariaLabel: caption},
    element('table', {}, element('caption', {}, caption),
        element('thead', {}, element('tr', {}, ...head.map(text => element('th', {scope: 'col'}, text)))),
        element('tbody', {}, ...rows.map(cells => element('tr', {}, ...cells.map(cell => element('td', {}, cell)))))));

// ---- the program -----------------------------------------------------------------------------------------------------

const program = {
  worker: null, module: null, calls: new Map(), next: 1,

  async open() {
    const text = document.getElementById('wasm').textContent;
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    this.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    await this.start();
  },
  start() {
    const source = document.getElementById('worker').textContent;
    this.worker = new Worker(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
    return new Promise((resolve, reject) => {
      this.worker.onerror = event => reject(new Error(event.message));
      this.worker.onmessage = ({data}) => {
        if (data.ready) return resolve();
        const answer = this.calls.get(data.id);
        this.calls.delete(data.id);
        answer?.(data);
      };
      this.worker.postMessage({module: this.module});
    });
  },
  /// Ends the running command, and starts another worker from the compiled module.
  stop() {
    this.worker.terminate();
    for (const answer of this.calls.values()) answer({exit: null, stdout: '', stderr: '', stopped: true});
    this.calls.clear();
    return this.start();
  },
  run(args, files = {}, stdin = '') {
    return new Promise(resolve => {
      const id = this.next++;
      this.calls.set(id, resolve);
      this.worker.postMessage({id, args, files, stdin});
    });
  },
};

/// The error of an answer: {what, fix}. With --json the program prints it as JSON; other text is shown as it is.
const errorOf = answer => {
  if (answer.stopped) return {what: 'stopped', fix: ''};
  if (answer.trap) return {what: `the program ended abnormally: ${answer.trap}`, fix: 'please report the state of this page'};
  try {
    const {error} = JSON.parse(answer.stdout);
    // Advice about options is for the command line. The page has controls instead.
    if (error) return {what: error.what, fix: error.fix.split('; ').filter(part => !/--|macheps/.test(part)).join('; ')};
  } catch {
    // not JSON: see below
  }
  return {what: answer.stderr.replace(/^macheps: /, '').trim(), fix: ''};
};

// ---- state and address -----------------------------------------------------------------------------------------------

/// The keys and values of a fragment. A + stays a +, as in 0.1 + 0.2.
const pairsOf = fragment => new Map(fragment.split('&').filter(Boolean).map(part => {
  const at = part.indexOf('=');
  const decoded = text => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;  // a % that begins no code
    }
  };
  return at < 0 ? [decoded(part), ''] : [decoded(part.slice(0, at)), decoded(part.slice(at + 1))];
}));
const stateOfAddress = () => {
  const given = pairsOf(location.hash.slice(1));
  const view = views.find(row => row.name === given.get('v')) ?? views[0];
  const unknown = [...given.keys()].filter(key => key !== 'v' && !(key in view.keys));
  if (given.has('v') && given.get('v') !== view.name) unknown.unshift(`v=${given.get('v')}`);
  const state = {...view.keys};
  for (const [key, value] of given) {
    if (key in view.keys) state[key] = value;
  }
  return {view, state, unknown};
};
const addressOf = (view, state) => {
  const parts = [`v=${view.name}`];
  for (const [key, value] of Object.entries(state)) {
    if (value !== view.keys[key]) parts.push(`${key}=${encodeURIComponent(value)}`);
  }
  return `#${parts.join('&')}`;
};

const page = {
  view: null, state: null,

  note(text) {
    const note = document.getElementById('note');
    note.textContent = text;
    note.hidden = text === '';
  },
  /// Shows the view and the state of the address.
  async follow() {
    const {view, state, unknown} = stateOfAddress();
    this.note(unknown.length === 0 ? '' : `This page does not know ${unknown.join(', ')}, and ignores it.`);
    this.view = view;
    this.state = state;
    for (const row of views) {
      const isShown = row === view;
      row.panel.hidden = !isShown;
      row.tab.setAttribute('aria-selected', String(isShown));
      row.tab.tabIndex = isShown ? 0 : -1;
    }
    await view.draw();
  },
  build() {
    const tabs = document.getElementById('tabs'), panels = document.getElementById('panels');
    for (const view of views) {
      view.tab = element('button', {type: 'button', id: `tab-${view.name}`, role: 'tab'}, view.title);
      view.tab.setAttribute('aria-controls', `panel-${view.name}`);
      view.tab.addEventListener('click', () => this.select(view));
      tabs.append(view.tab);
      const copied = element('span', {role: 'status', className: 'copied'});
      const copy = (label, text) => {
        const button = element('button', {type: 'button'}, label);
        button.addEventListener('click', async () => {
          await copyText(text());
          copied.textContent = 'copied';
          setTimeout(() => { copied.textContent = ''; }, 2000);
        });
        return button;
      };
      view.controls = element('div', {className: 'controls'});
      view.error = element('p', {className: 'error', role: 'alert', hidden: true});
      view.result = element('div', {className: 'result', ariaLive: 'polite'});
      view.panel = element('section', {id: `panel-${view.name}`, role: 'tabpanel', hidden: true},
          element('p', {className: 'sentence'}, view.sentence), view.controls, view.error, view.result,
          element('p', {className: 'copy'}, copy('Copy link', () => location.href.split('#')[0] + addressOf(view, this.state)),
              copy('Copy command', () => `macheps ${view.command(this.state).map(quoted).join(' ')}`), copied));
      view.panel.setAttribute('aria-labelledby', view.tab.id);
      panels.append(view.panel);
      view.latest = 0;
      view.change = changes => {
        Object.assign(this.state, changes);
        history.replaceState(null, '', addressOf(view, this.state));
        this.note('');
        return view.draw();
      };
      view.draw = async () => {
        const number = ++view.latest;
        const isCurrent = () => number === view.latest && this.view === view;
        await view.show(this.state, {
          ...view, isCurrent,
          /// Runs a command. Resolves to its stdout, or to null if the program reported an error or a newer request came.
          async run(args, files, stdin) {
            const answer = await program.run(args, files, stdin);
            if (!isCurrent()) return null;
            const isWrong = answer.exit !== 0 && answer.exit !== 1;
            view.error.hidden = !isWrong;
            if (!isWrong) return answer.stdout;
            const {what, fix} = errorOf(answer);
            view.error.textContent = fix ? `${what}: ${fix}` : what;
            return null;
          },
        });
      };
      view.build(view.controls, view);
    }
    tabs.addEventListener('keydown', event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = views[(views.indexOf(this.view) + step + views.length) % views.length];
      this.select(next);
      next.tab.focus();
      event.preventDefault();
    });
  },
  select(view) {
    if (view === this.view) return;
    history.pushState(null, '', `#v=${view.name}`);
    this.follow();
  },
};

const quoted = word => /^[\w@%+=:,./^-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
const copyText = async text => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a file from a disk may not use the clipboard directly
    const area = element('textarea', {value: text, className: 'unseen'});
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
};

const setTheme = theme => {
  document.documentElement.dataset.theme = theme;
};
document.getElementById('theme').addEventListener('click', () => {
  const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(isDark ? 'light' : 'dark');
});

/// Runs command lines whose output was recorded with the native program, and returns those that differ.
const selfCheck = async () => {
  const recorded = JSON.parse(document.getElementById('recorded').textContent);
  const wrong = [];
  for (const {args, stdout} of recorded) {
    const answer = await program.run(args);
    if (answer.stdout !== stdout) wrong.push(`macheps ${args.join(' ')}`);
  }
  return wrong;
};

addEventListener('DOMContentLoaded', async () => {
  const about = document.getElementById('about');
  try {
    page.build();
    await program.open();
    addEventListener('popstate', () => page.follow());
    addEventListener('hashchange', () => page.follow());
    await page.follow();
    const version = (await program.run(['version'])).stdout.split('\n')[0];
    const wrong = await selfCheck();
    about.textContent = `${version}. Hardware is emulated. ` + (wrong.length === 0
        ? 'At its start, this page compared results with those of the native program: they are equal.'
        : `Warning: the results of this browser are wrong. These commands differ from the native program: ${wrong.join('; ')}`);
    about.className = wrong.length === 0 ? '' : 'error';
    document.documentElement.dataset.ready = 'true';
  } catch (error) {
    about.textContent = `The program cannot run in this browser: ${error.message}`;
    about.className = 'error';
  }
});
