// SPDX-License-Identifier: Apache-2.0
// The view "Config": what a framework's config computes, and its pitfalls.
'use strict';

{
const order = ['error', 'warning', 'note'];
const words = {H: 'fp16', B: 'bf16', F: 'fp32', T: 'tf32', none: 'none', follow: 'as the hidden states'};
const meanings = {store: 'parameters', compute: 'matmuls', master: 'master copies', grad: 'gradients', accum: 'accumulated gradients',
  reduce: 'gradients between ranks', opt_state: 'moments of the optimiser', norm: 'norms', embed: 'embedding', lm_head: 'output layer',
  buffers: 'buffers', logits: 'logits', scaler: 'loss scaler', clip: 'clipping', optimizer: 'optimiser', fp8: 'fp8', eval: 'evaluation', device: 'GPU'};
const example = JSON.stringify({train_micro_batch_size_per_gpu: 8, gradient_clipping: 1.0, fp16: {enabled: true}, zero_optimization: {stage: 2}}, null, 2);
let text, name, gpu, versions, files, include, dropped = {}, findings = [];

/// The name that a pasted text gets: JSON if it begins with a brace, and YAML otherwise.
const guessedName = contents => /^\s*[[{]/.test(contents) ? 'config.json' : /^\s*\[\w/.test(contents) ? 'config.toml' : 'config.yaml';
const filesOf = state => ({[state.name || guessedName(text.value)]: text.value, ...dropped});
const importArguments = state => ['policy', 'import', ...Object.keys(filesOf(state)), '--device-profile', state.gpu,
  ...(state.versions ? ['--framework-version', state.versions] : [])];

const plainValue = value => typeof value === 'object' && value !== null
    ? Object.entries(value).map(([key, part]) => `${key} ${part}`).join(', ') : words[value] ?? String(value);

const selectLine = line => {
  const lines = text.value.split('\n'), start = lines.slice(0, line - 1).reduce((sum, part) => sum + part.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  const height = parseFloat(getComputedStyle(text).lineHeight) || 20;
  text.scrollTop = Math.max(0, (line - 3) * height);
};
const download = (name, type, contents) => {
  const url = URL.createObjectURL(new Blob([contents], {type}));
  const link = element('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
};

views.push({
  name: 'config', title: 'Config',
  sentence: 'What the config of a training framework really computes, and what it does not do although it seems to. The text stays in this browser.',
  keys: {name: '', gpu: 'a100', versions: '', config: ''},
  build(panel, view) {
    text = element('textarea', {spellcheck: false, value: example});
    name = element('input', {type: 'text', placeholder: 'config.json', autocomplete: 'off', spellcheck: false});
    gpu = selectOf(['a100', 'h100', 'h200', 'b200', 'v100', 't4', 'a10', 'l4', 'l40s', 'rtx3090', 'rtx4090', 'mi250', 'mi300x', 'tpu', 'cpu'], 'a100');
    versions = element('input', {type: 'text', placeholder: 'transformers=4.57,deepspeed=0.17.2', autocomplete: 'off', spellcheck: false});
    files = element('input', {type: 'file', multiple: true});
    include = element('input', {type: 'checkbox'});
    const includeText = () => include.checked ? text.value : '';
    text.addEventListener('input', () => view.change({config: includeText()}));
    include.addEventListener('change', () => view.change({config: includeText()}));
    name.addEventListener('input', () => view.change({name: name.value.trim()}));
    gpu.addEventListener('change', () => view.change({gpu: gpu.value}));
    versions.addEventListener('input', () => view.change({versions: versions.value.trim()}));
    const take = async list => {
      const given = [...list];
      if (given.length === 0) return;
      text.value = await given[0].text();
      dropped = {};
      for (const file of given.slice(1)) dropped[file.name] = await file.text();
      view.change({name: given[0].name, config: includeText()});
    };
    files.addEventListener('change', () => take(files.files));
    text.addEventListener('dragover', event => event.preventDefault());
    text.addEventListener('drop', event => {
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      take(event.dataTransfer.files);
    });
    const button = (label, action) => {
      const made = element('button', {type: 'button'}, label);
      made.addEventListener('click', action);
      return made;
    };
    const textLabel = labelled('Config: JSON, YAML, TOML, arguments. Paste it, or drop one or several files here', text);
    textLabel.classList.add('whole');
    panel.append(textLabel, labelled('Files', files), labelled('Name of the file', name), labelled('GPU', gpu),
        labelled('Versions of the framework', versions), labelled('Include the config in a copied link', include),
        button('Copy findings as Markdown', () => copyText(findings.map(row =>
            `- **${row.severity}** \`${row.key || row.file}\` (line ${row.line}): ${row.message}${row.instead ? `. Instead: ${row.instead}` : ''}`).join('\n'))),
        button('Download SARIF', async () => {
          const answer = await program.run([...importArguments(page.state), '--sarif'], filesOf(page.state));
          download('findings.sarif', 'application/json', answer.stdout);
        }),
        button('Download the policy', async () => {
          const answer = await program.run([...importArguments(page.state), '--toml'], filesOf(page.state));
          download('policy.toml', 'text/plain', answer.stdout);
        }));
  },
  command: importArguments,
  async show(state, view) {
    if (state.config !== '' && text.value !== state.config) text.value = state.config;
    if (state.config !== '') include.checked = true;
    if (name.value.trim() !== state.name) name.value = state.name;
    gpu.value = state.gpu;
    if (versions.value.trim() !== state.versions) versions.value = state.versions;
    const printed = await view.run([...importArguments(state), '--json'], filesOf(state));
    if (printed === null) {
      findings = [];
      view.result.replaceChildren();
      return;
    }
    const imported = JSON.parse(printed);
    findings = imported.findings.toSorted((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
    const main = Object.keys(filesOf(state))[0];
    const place = row => {
      if (row.file !== main || !row.key) return row.file ? `${row.file}:${row.line}` : '';
      const link = element('button', {type: 'button'}, `line ${row.line}`);
      link.addEventListener('click', () => selectLine(row.line));
      return link;
    };
    const wrapped = content => element('span', {className: 'text'}, content);
    view.result.replaceChildren(
        element('p', {}, `${imported.framework} ${imported.version}: ${findings.length} findings.`),
        tableOf('Findings, gravest first', ['severity', 'key', 'place', 'what it does', 'instead'], findings.map(row =>
            [row.severity, row.key, place(row), wrapped(row.message), wrapped(row.instead)])),
        tableOf('What computes in what', ['what', 'value', 'because'], Object.entries(imported.resolved).map(([key, row]) =>
            [meanings[key] ?? key, wrapped(plainValue(row.value)), wrapped(row.from)])));
  },
});
}
