// SPDX-License-Identifier: Apache-2.0
// The view "Tensor core": one step of a matrix unit, with the bits that it cuts off.
'use strict';

{
let machine, a, b, c, step, names = null;
const operand = () => element('input', {type: 'text', autocomplete: 'off', spellcheck: false});
const traceArguments = state => ['machine', 'trace', state.machine, ...(state.a ? ['-a', state.a] : []), ...(state.b ? ['-b', state.b] : []),
  ...(state.c === '0' ? [] : ['-c', state.c])];

/// A finite number as a whole significand without trailing zeros, and the exponent of its last bit.
const partsOf = x => {
  if (x === 0) return {significand: 0n, last: 0};
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(x));
  const bits = view.getBigUint64(0), field = Number(bits >> 52n);
  let significand = (bits & ((1n << 52n) - 1n)) | (field > 0 ? 1n << 52n : 0n), last = Math.max(field, 1) - 1075;
  while ((significand & 1n) === 0n) {
    significand >>= 1n;
    ++last;
  }
  return {significand, last};
};

/// Draws the bits of the addend and the products. Bits below the unit are hatched: the step cuts them off.
const drawing = (width, traced) => {
  const rows = [{name: 'C', value: traced.addend.value}, ...traced.terms.map((term, i) => ({name: `a${i} b${i}`, value: term.product}))]
      .filter(row => row.value !== 0).slice(0, 40);
  if (rows.length === 0) return element('p', {}, 'Every product and the addend are zero.');
  const parts = rows.map(row => partsOf(row.value)), unit = traced.unit_exponent;
  const top = Math.max(...parts.map(part => part.last + part.significand.toString(2).length - 1));
  const bottom = Math.max(Math.min(unit, ...parts.map(part => part.last)), unit - 16);
  const count = top - bottom + 1, left = 60, cell = Math.max(6, Math.min(18, Math.floor((width - left - 4) / count)));
  const height = 24 + rows.length * (cell + 6);
  const svg = svgElement('svg', {width: left + count * cell + 4, height, role: 'img', 'aria-label':
    `Bits of ${rows.length} numbers from 2^${top} to 2^${bottom}. Bits below 2^${unit} are cut off.`});
  svg.append(svgElement('defs', {}, svgElement('pattern', {id: 'hatch', width: 4, height: 4, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
      svgElement('rect', {width: 4, height: 4, fill: 'var(--ground)'}), svgElement('line', {x1: 0, y1: 0, x2: 0, y2: 4, stroke: 'var(--error)', 'stroke-width': 2}))));
  const border = left + (top - unit + 1) * cell;
  svg.append(svgElement('line', {x1: border, x2: border, y1: 0, y2: height, stroke: 'var(--error)', 'stroke-dasharray': '3 3'}),
      svgElement('text', {x: left, y: 14}, `2^${top}`), svgElement('text', {x: Math.max(left + 40, border - 4), y: 14, 'text-anchor': 'end'}, `unit 2^${unit}`));
  rows.forEach((row, i) => {
    const y = 24 + i * (cell + 6), {significand, last} = parts[i];
    svg.append(svgElement('text', {x: 0, y: y + cell - 2}, row.name), svgElement('text', {x: left - 12, y: y + cell - 2}, row.value < 0 ? '−' : ''));
    for (let exponent = top; exponent >= bottom; --exponent) {
      const shift = exponent - last, isInside = shift >= 0 && shift < significand.toString(2).length;
      if (!isInside) continue;
      const isOne = (significand >> BigInt(shift) & 1n) === 1n;
      svg.append(svgElement('rect', {x: left + (top - exponent) * cell, y, width: cell - 1, height: cell, stroke: 'var(--line)',
        fill: isOne ? (exponent >= unit ? 'var(--accent)' : 'url(#hatch)') : 'none'}));
    }
  });
  return element('div', {className: 'wide', tabIndex: 0, role: 'region', ariaLabel: 'bits of the step'}, svg);
};

views.push({
  name: 'unit', title: 'Tensor core',
  sentence: 'One step of a matrix unit: the products are cut at a common bit, added exactly, and the sum is rounded. Hatched bits are lost.',
  keys: {machine: 'sm90.wgmma.fp8', a: '1,0.75,0.01,0.002', b: '1,3,0.3,1', c: '100', step: '1'},
  build(panel, view) {
    machine = element('select');
    [a, b, c] = [operand(), operand(), operand()];
    step = element('input', {type: 'number', min: 1, size: 4});
    machine.addEventListener('change', () => view.change({machine: machine.value, step: '1'}));
    for (const [key, control] of Object.entries({a, b, c})) control.addEventListener('input', () => view.change({[key]: control.value.trim(), step: '1'}));
    step.addEventListener('input', () => view.change({step: step.value}));
    panel.append(labelled('Machine', machine), labelled('a, separated by commas', a), labelled('b', b), labelled('Addend C', c), labelled('Step', step));
  },
  command: traceArguments,
  async show(state, view) {
    if (!names) {
      const text = await view.run(['machine', 'list', '--json']);
      if (text === null) return;
      names = JSON.parse(text).filter(row => row.scale_block === null && !['pairwise', 'kahan', 'exact'].includes(row.model)).map(row => row.machine);
      for (const name of names) machine.append(element('option', {value: name}, name));
    }
    machine.value = state.machine;
    for (const [key, control] of Object.entries({a, b, c})) {
      if (control.value.trim() !== state[key]) control.value = state[key];
    }
    const text = await view.run([...traceArguments(state), '--json']);
    if (text === null) return;
    const trace = JSON.parse(text), number = Math.min(Math.max(1, Number(state.step) || 1), trace.steps.length), traced = trace.steps[number - 1];
    if (step.value !== String(number)) step.value = number;
    step.max = trace.steps.length;
    const parts = [element('p', {}, `${trace.machine}, operands in ${trace.a_format}: step ${number} of ${trace.steps.length}. ` +
        `The result is ${traced.result.value} (${traced.result.code}).`)];
    if (traced.unit_exponent === null) {
      parts.push(element('p', {}, `The model of this unit is ${trace.model}: it does not cut its products at a common bit.`));
    } else {
      parts.push(element('p', {}, `The largest exponent is ${traced.largest_exponent}, and ${trace.fraction_bits} bits below it are kept: ` +
          `each number is cut to a multiple of 2^${traced.unit_exponent}. The kept parts add up to ${traced.sum}.`),
          drawing(Math.max(280, view.panel.clientWidth), traced));
    }
    const kept = value => value === null ? '' : String(value);
    parts.push(tableOf('Products of this step', ['', 'a', 'b', 'product', 'kept'], [['C', '', '', String(traced.addend.value), kept(traced.addend.kept)],
      ...traced.terms.map((term, i) => [String(i), term.a, term.b, term.product, kept(term.kept)].map(String))]));
    const about = await view.run(['machine', 'show', state.machine]);
    if (about !== null) parts.push(element('details', {}, element('summary', {}, 'The model of this unit, and the evidence for it'), element('pre', {tabIndex: 0}, about)));
    view.result.replaceChildren(...parts);
  },
});
}
