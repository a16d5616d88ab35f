// SPDX-License-Identifier: Apache-2.0
// The view "Format": all numbers of a format of at most 8 bits, or the spacing of a wider one.
'use strict';

{
let first, second, axis, formats = null;

/// All finite numbers of a format of at most 8 bits, in order, from its codes.
const numbersOf = async (about, view) => {
  const codes = Array.from({length: 1 << about.bits}, (_, code) => `0x${(code << (about.padding ?? 0)).toString(16).padStart(2, '0')}`);
  const text = await view.run(['show', '--json', '--bits', about.format, '--format', about.format, '--', ...codes]);
  if (text === null) return null;
  const values = JSON.parse(text).map(row => row.formats[0].value).filter(value => typeof value === 'number');
  return [...new Set(values)].sort((a, b) => a - b);
};

const strip = (width, about, values, isLog, low, high) => {
  const height = 54, left = 8, shown = isLog ? values.filter(value => value > 0) : values;
  const place = value => left + (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)) * (width - 2 * left);
  const svg = svgElement('svg', {width, height, role: 'img', 'aria-label':
    `${about.format}: ${shown.length} numbers from ${shown[0]} to ${shown.at(-1)}`});
  for (const value of shown) {
    svg.append(svgElement('line', {x1: place(value), x2: place(value), y1: 4, y2: 24, stroke: 'var(--accent)'},
        svgElement('title', {}, String(value))));
  }
  for (const mark of marksOf(low, high, isLog, Math.max(2, Math.floor(width / 90)))) {
    svg.append(svgElement('line', {x1: place(mark), x2: place(mark), y1: 24, y2: 32, stroke: 'var(--text)'}),
        svgElement('text', {x: Math.min(width - 20, Math.max(20, place(mark))), y: 48, 'text-anchor': 'middle'}, shortNumber(mark)));
  }
  return svg;
};

/// The spacing of a format's numbers against their size, as points at powers of two.
const spacingOf = about => {
  const emin = Math.round(Math.log2(about.min_normal)), emax = Math.floor(Math.log2(about.max)), points = [];
  for (let e = Math.max(emin - about.fraction_bits, -1074); e <= emax; ++e) {
    points.push([2 ** e, 2 ** (Math.max(e, emin) - about.fraction_bits)]);
  }
  return points;
};

views.push({
  name: 'format', title: 'Format',
  sentence: 'Which numbers a format has: each number of a format of at most 8 bits, and the distance between neighbours of a wider one.',
  keys: {format: 'e4m3fn', with: '', axis: 'linear'},
  build(panel, view) {
    first = element('select');
    second = element('select');
    axis = selectOf(['linear', 'logarithmic'], 'linear');
    first.addEventListener('change', () => view.change({format: first.value}));
    second.addEventListener('change', () => view.change({with: second.value}));
    axis.addEventListener('change', () => view.change({axis: axis.value}));
    panel.append(labelled('Format', first), labelled('Compare with', second), labelled('Axis', axis));
  },
  command: state => ['formats', '--json', ...(state.format ? [] : [])],
  async show(state, view) {
    if (!formats) {
      const text = await view.run(['formats', '--json']);
      if (text === null) return;
      formats = JSON.parse(text);
      second.append(element('option', {value: ''}, 'no other format'));
      for (const row of formats) {
        first.append(element('option', {value: row.format}, row.format));
        second.append(element('option', {value: row.format}, row.format));
      }
    }
    first.value = state.format;
    second.value = state.with;
    axis.value = state.axis;
    const chosen = [state.format, state.with].filter(Boolean).map(name => formats.find(row => row.format === name));
    if (chosen.includes(undefined)) {
      view.error.textContent = 'This format is not in the list.';
      view.error.hidden = false;
      return;
    }
    const width = Math.max(280, view.panel.clientWidth), isLog = state.axis === 'logarithmic', parts = [];
    const narrow = chosen.filter(row => row.bits <= 8);
    const values = new Map();
    for (const row of narrow) {
      const numbers = await numbersOf(row, view);
      if (numbers === null) return;
      values.set(row, numbers);
    }
    const all = [...values.values()].flat().filter(value => !isLog || value > 0);
    for (const [row, numbers] of values) {
      const shown = isLog ? numbers.filter(value => value > 0) : numbers;
      parts.push(element('figure', {}, element('figcaption', {}, `${row.format}: ${numbers.length} different numbers` +
        `${isLog ? ', the positive ones are drawn' : ''}`), strip(width, row, numbers, isLog, Math.min(...all), Math.max(...all)),
        element('details', {}, element('summary', {}, 'Numbers of this drawing'), element('p', {}, shown.join(', ')))));
    }
    const wide = chosen.filter(row => row.bits > 8 && row.fraction_bits > 0);
    if (wide.length > 0) {
      parts.push(lineChart(width, {caption: 'Distance between neighbours at each power of two', x: {name: 'number', log: true},
        y: {name: 'distance', log: true}, lines: wide.map(row => ({name: row.format, points: spacingOf(row)}))}));
    }
    parts.push(tableOf('Properties', ['format', 'bits', 'exponent bits', 'fraction bits', 'largest', 'smallest normal', 'smallest positive',
      'u', 'infinity', 'NaN', 'description'], chosen.map(row => [row.format, row.bits, row.exponent_bits, row.fraction_bits, row.max,
      row.min_normal, row.min_positive, row.unit_roundoff, row.has_inf ? 'yes' : 'no', row.has_nan ? 'yes' : 'no', row.summary].map(String))));
    view.result.replaceChildren(...parts);
  },
});
}
