// SPDX-License-Identifier: Apache-2.0
// The view "Policy": what a policy rounds, how it differs from another, and the bytes that it needs.
'use strict';

{
let first, second, params, shards, source, names = null;

const isOwn = state => state.policy === 'own';
const fileOf = state => isOwn(state) ? {'mine.toml': source.value} : {};
const nameOf = state => isOwn(state) ? './mine.toml' : state.policy;
/// The rows of a site as one line for each group of slots with the same format.
const treeOf = rows => {
  const sites = new Map();
  for (const row of rows) {
    if (!sites.has(row.site)) sites.set(row.site, []);
    sites.get(row.site).push(row);
  }
  return element('div', {className: 'tree'}, ...[...sites].map(([site, slots]) => {
    const formats = [...new Set(slots.map(slot => slot.cast))].join(', ');
    return element('details', {}, element('summary', {}, `${site}: ${formats}`), tableOf(site, ['slot', 'format', 'machine', 'set by'],
        slots.map(slot => [slot.slot, slot.cast, slot.machine, slot.rule])));
  }));
};

views.push({
  name: 'policy', title: 'Policy',
  sentence: 'What a precision policy rounds at each place of a transformer, and how many bytes each parameter needs.',
  keys: {policy: 'amp-bf16', with: '', params: '7.5e9', shards: '1'},
  build(panel, view) {
    first = element('select');
    second = element('select');
    params = element('input', {type: 'text', size: 8});
    shards = element('input', {type: 'number', min: 1, size: 6});
    source = element('textarea', {spellcheck: false});
    first.addEventListener('change', () => view.change({policy: first.value}));
    second.addEventListener('change', () => view.change({with: second.value}));
    params.addEventListener('input', () => view.change({params: params.value.trim()}));
    shards.addEventListener('input', () => view.change({shards: shards.value}));
    source.addEventListener('input', () => view.change({}));
    view.own = labelled('Your policy (TOML)', source);
    view.own.classList.add('whole');
    panel.append(labelled('Policy', first), labelled('Differences from', second), labelled('Parameters of the model', params),
        labelled('GPUs that share the state', shards), view.own);
  },
  command: state => state.with ? ['policy', 'diff', state.with, nameOf(state)] : ['policy', 'explain', nameOf(state), '--fold'],
  async show(state, view) {
    if (!names) {
      const text = await view.run(['policy', 'list', '--json']);
      if (text === null) return;
      names = JSON.parse(text);
      second.append(element('option', {value: ''}, 'no other policy'));
      for (const {name} of names) {
        first.append(element('option', {value: name}, name));
        second.append(element('option', {value: name}, name));
      }
      first.append(element('option', {value: 'own'}, 'your own (TOML)'));
    }
    first.value = state.policy;
    second.value = state.with;
    if (params.value.trim() !== state.params) params.value = state.params;
    if (shards.value !== state.shards) shards.value = state.shards;
    this.own.hidden = !isOwn(state);
    if (isOwn(state) && source.value === '') {
      source.value = await view.run(['policy', 'show', 'amp-fp16']) ?? '';
    }
    const parts = [], files = fileOf(state);
    const text = await view.run(['policy', 'explain', nameOf(state), '--json', '--fold'], files);
    if (text === null) return;
    const explained = JSON.parse(text);
    parts.push(element('p', {}, explained.description));
    if (state.with) {
      const difference = await view.run(['policy', 'diff', state.with, nameOf(state), '--json'], files);
      if (difference === null) return;
      const {differences} = JSON.parse(difference);
      parts.push(tableOf(`${state.with} and ${nameOf(state)}: ${differences.length} differences`, ['what', 'site', 'slot', state.with, nameOf(state)],
          differences.map(row => [row.what, row.site ?? row.key ?? '', row.slot ?? '', row.a, row.b].map(cell => String(cell ?? '')))));
    }
    if (state.params) {
      const memory = await view.run(['policy', 'explain', nameOf(state), '--params', state.params, '--shards', state.shards || '1'], files);
      if (memory === null) return;
      parts.push(element('h2', {}, 'Memory'), element('pre', {tabIndex: 0}, memory));
    }
    parts.push(element('h2', {}, 'Every site'), treeOf(explained.rows));
    view.result.replaceChildren(...parts);
  },
});
}
