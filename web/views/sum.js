// SPDX-License-Identifier: Apache-2.0
// The view "Sum": sums of n terms in a format, and dot products on matrix units, against n.
'use strict';

{
const data = [{value: 'positive', text: 'drawn from [0, 1)'}, {value: 'equal', text: 'all equal to 1'}, {value: 'equal:0.1', text: 'all equal to 0.1'}, {value: 'normal', text: 'normal'},
  {value: 'harmonic', text: '1, 1/2, 1/3, ...'}];
const methods = ['recursive', 'pairwise', 'kahan', 'neumaier', 'sum2', 'blocked:128', 'exact'];
const controls = {};
const quantities = {value: 'the sum', error_unit: 'error / (u S)'};

/// The numbers of terms: all up to 16, or powers of two.
const sizesOf = n => n <= 16 ? Array.from({length: n}, (_, i) => i + 1).join(',') : `16..${n}`;
const sumArguments = state => ['sum', '-d', state.data, '--sweep', `n=${sizesOf(Number(state.n))}`, '-f', state.format, '--method', state.method,
  ...(state.round === 'nearest_even' ? [] : ['--round', state.round])];
const productArguments = state => ['gemm', '-d', 'equal', '--scale', '0.0625', '-m', '1', '-n', '1', '--sweep', `k=1024..${state.n}`, '-M', state.machine];
const isProduct = state => state.of === 'products';

views.push({
  name: 'sum', title: 'Sum',
  sentence: 'Where a long sum stops growing, and what other orders of summation and stochastic rounding change.',
  keys: {of: 'terms', data: 'positive', n: '65536', format: 'bf16', method: 'recursive,pairwise', round: 'nearest_even,stochastic', show: 'value',
    machine: 'sm90.wgmma.fp8,sm90.wgmma.fp8+promote128,sm100.tcgen05.fp8'},
  build(panel, view) {
    const add = (key, text, control, event = 'change') => {
      controls[key] = control;
      control.addEventListener(event, () => view.change({[key]: control.value}));
      const label = labelled(text, control);
      panel.append(label);
      controls[`${key}Label`] = label;
    };
    const text = () => element('input', {type: 'text', autocomplete: 'off', spellcheck: false});
    add('of', 'What is added', selectOf([{value: 'terms', text: 'terms, in a format'}, {value: 'products', text: 'products of 1/16 and 1/16, on matrix units'}]));
    add('data', 'Terms', selectOf(data));
    add('n', 'Largest number of terms', selectOf(['10', '256', '1024', '4096', '16384', '65536', '262144'], '65536'));
    add('format', 'Formats', text(), 'input');
    add('method', `Orders of summation: ${methods.join(', ')}`, text(), 'input');
    add('round', 'Rounding', selectOf(['nearest_even', 'stochastic', 'nearest_even,stochastic', 'toward_zero'], 'nearest_even,stochastic'));
    add('machine', 'Machines', text(), 'input');
    add('show', 'Draw', selectOf([{value: 'value', text: 'the sum'}, {value: 'error_unit', text: 'its error'}]));
  },
  command: state => isProduct(state) ? productArguments(state) : sumArguments(state),
  async show(state, view) {
    for (const key of Object.keys(this.keys)) {
      if (controls[key].value !== state[key]) controls[key].value = state[key];
      const isUnused = isProduct(state) ? ['data', 'format', 'method', 'round', 'show'].includes(key) : key === 'machine';
      controls[`${key}Label`].hidden = isUnused;
    }
    const text = await view.run([...this.command(state), '--json', '-q']);
    if (text === null) return;
    const {rows} = JSON.parse(text), width = Math.max(280, view.panel.clientWidth), lines = new Map();
    const lineOf = name => {
      if (!lines.has(name)) lines.set(name, {name, points: []});
      return lines.get(name).points;
    };
    if (isProduct(state)) {
      for (const row of rows) {
        lineOf(row.machine).push([row.k, row.first]);
        lineOf('exact').push([row.k, row.first_exact]);
      }
    } else {
      const roundings = new Set(rows.map(row => row.round)), formats = new Set(rows.map(row => row.format));
      for (const row of rows) {
        const name = [row.method, ...(formats.size > 1 ? [row.format] : []), ...(roundings.size > 1 ? [row.round] : [])].join(', ');
        lineOf(name).push([row.n, state.show === 'value' ? row.value : row.error_unit]);
        if (state.show === 'value' && formats.size === 1) lineOf('exact').push([row.n, row.exact]);
      }
    }
    for (const line of lines.values()) line.points = [...new Map(line.points).entries()];
    const stops = rows.filter(row => row.stagnated_at !== null && row.stagnated_at !== undefined);
    const notes = [...new Map(stops.map(row => [`${row.method}, ${row.format}, ${row.round}`, row.stagnated_at])).entries()]
        .map(([name, at]) => element('li', {}, `${name}: the sum no longer grows from term ${at} on`));
    view.result.replaceChildren(lineChart(width, {
      caption: isProduct(state) ? 'Dot products of k equal terms 1/256' : `Sums of n terms in ${state.format}`,
      x: {name: isProduct(state) ? 'k' : 'n', log: true}, y: {name: isProduct(state) ? 'result' : quantities[state.show], log: true},
      lines: [...lines.values()]}), element('ul', {}, ...notes));
  },
});
}
