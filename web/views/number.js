// SPDX-License-Identifier: Apache-2.0
// The view "Number": one number in every format, with bits that can be flipped.
'use strict';

{
const roundings = ['nearest_even', 'nearest_away', 'toward_zero', 'up', 'down', 'to_odd', 'stochastic'];
let input, bits, round, saturate, format;

/// Flips bits of a code, which is a text such as 0x3dcd.
const flipped = (code, places) => {
  let value = BigInt(code);
  for (const place of places) value ^= 1n << BigInt(place);
  return `0x${value.toString(16)}`;
};

/// The number of unused bits below the last bit of a code. Only tf32 has some: it is stored in 32 bits.
const paddingOf = about => {
  if (!about || about.bits === about.container_bits) return 0;
  let padding = 0;
  for (let code = BigInt(about.max_code); (code & 1n) === 0n; code >>= 1n) ++padding;
  return padding;
};

/// The bits of a row as buttons. Arrow keys move between them, so that the row is one stop of the tab key. A drag flips
/// every bit that it crosses.
const bitsOf = (row, padding, change) => {
  const parts = row.fields.split('|'), width = parts.join('').length;
  const kinds = parts.length === 3 ? ['sign', 'exponent', 'fraction'] : parts.length === 2 ? ['exponent', 'fraction'] : ['exponent'];
  const group = element('span', {className: 'bits', role: 'group', ariaLabel: `bits of ${row.format}`});
  const buttons = [];
  let place = width + padding, drag = null;
  parts.forEach((part, index) => {
    [...part].forEach((bit, i) => {
      --place;
      const kind = kinds[index] ?? 'fraction', at = place;
      const name = kind === 'sign' ? `sign, ${bit}` : `${kind} bit ${i + 1} of ${part.length}, ${bit}`;
      const button = element('button', {type: 'button', className: kind, ariaLabel: name, tabIndex: buttons.length === 0 ? 0 : -1}, bit);
      button.dataset.place = at;
      button.addEventListener('click', event => {
        if (event.detail === 0) change(flipped(row.code, [at]), at);  // the keyboard; the pointer is below
      });
      buttons.push(button);
      group.append(button);
    });
  });
  group.addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const now = buttons.indexOf(document.activeElement), next = buttons[now + step];
    if (!next) return;
    buttons[now].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    event.preventDefault();
  });
  const bitAt = event => document.elementFromPoint(event.clientX, event.clientY)?.closest('.bits button');
  group.addEventListener('pointerdown', event => {
    const button = bitAt(event);
    if (!button) return;
    drag = new Set([Number(button.dataset.place)]);
    group.setPointerCapture(event.pointerId);
  });
  group.addEventListener('pointermove', event => {
    const button = drag && bitAt(event);
    if (button && group.contains(button)) drag.add(Number(button.dataset.place));
  });
  group.addEventListener('pointerup', () => {
    if (drag) change(flipped(row.code, [...drag]), [...drag][0]);
    drag = null;
  });
  return group;
};

/// The formula of a finite number, from its fields and the exponent range of its format.
const formulaOf = (row, about) => {
  const [exponent, fraction] = row.fields.split('|').slice(-2);
  if (!about || !exponent || about.exponent_bits === 0 || !Number.isFinite(row.value) || /[^01]/.test(exponent)) return '';
  const sign = about.has_sign && row.fields.startsWith('1') ? '−' : '+';
  const stored = parseInt(exponent, 2), emin = 1 - about.exponent_bias;
  const isSubnormal = stored === 0 && about.has_zero;
  const power = isSubnormal ? emin : stored - about.exponent_bias;
  return `${sign}2^${power} × ${isSubnormal ? 0 : 1}.${fraction || '0'} (binary)${isSubnormal ? ', subnormal' : ''}`;
};

/// A strip with the number between the neighbours of its value in the selected format.
const stripOf = (row, exact) => {
  const text = side => side === null ? '(none)' : String(side.value);
  const places = [text(row.below), String(row.value), text(row.above)];
  return element('p', {className: 'strip'}, `${row.format}: ${places[0]} < `, element('strong', {}, places[1]), ` < ${places[2]}; the number is ${exact}.`);
};

let formats = null;

views.push({
  name: 'number', title: 'Number',
  sentence: 'One number in every format: the nearest value that the format has, its bits, and the error. Click a bit to flip it.',
  keys: {x: '0.1', bits: '', round: 'nearest_even', saturate: '', format: '', selected: 'fp16', random: '0'},
  build(panel, view) {
    input = element('input', {type: 'text', autocomplete: 'off', spellcheck: false});
    bits = selectOf([{value: '', text: 'a number'}]);
    round = selectOf(roundings, 'nearest_even');
    saturate = element('input', {type: 'checkbox'});
    format = element('input', {type: 'text', placeholder: 'such as e5m6', autocomplete: 'off', spellcheck: false});
    input.addEventListener('input', () => view.change({x: input.value}));
    input.addEventListener('keydown', event => {
      const side = {ArrowUp: 'above', ArrowDown: 'below'}[event.key];
      const neighbour = side && view.selectedRow?.[side];
      if (!neighbour) return;
      view.change({x: neighbour.code, bits: view.selectedRow.format});
      event.preventDefault();
    });
    bits.addEventListener('change', () => view.change({bits: bits.value}));
    round.addEventListener('change', () => view.change({round: round.value}));
    saturate.addEventListener('change', () => view.change({saturate: saturate.checked ? '1' : ''}));
    format.addEventListener('input', () => view.change({format: format.value.trim()}));
    panel.append(labelled('Number: decimal, fraction, 0x1.8p-9, inf, nan', input), labelled('Read it as', bits),
        labelled('Rounding', round), labelled('Another format', format), labelled('Overflow to the largest number', saturate));
  },
  command: state => ['show', state.x, ...(state.bits ? ['--bits', state.bits] : []), ...(state.format ? ['--format', state.format] : []),
    ...(state.round === 'nearest_even' ? [] : ['--round', state.round]), ...(state.saturate ? ['--saturate'] : [])],
  async show(state, view) {
    if (!formats) {
      formats = JSON.parse(await view.run(['formats', '--json']) ?? 'null');
      if (!formats) return;
      for (const {format: name} of formats) bits.append(element('option', {value: name}, `a code of ${name}`));
    }
    if (input.value !== state.x) input.value = state.x;
    bits.value = state.bits;
    round.value = state.round;
    saturate.checked = state.saturate !== '';
    if (format.value.trim() !== state.format) format.value = state.format;
    const all = formats.map(row => row.format);
    const wanted = state.format ? [...all, state.format].join(',') : all.join(',');
    const text = await view.run(['show', '--json', '--round', state.round, '--format', wanted, ...(state.saturate ? ['--saturate'] : []),
      ...(state.bits ? ['--bits', state.bits] : []), '--', state.x]);
    if (text === null) return;
    const shown = JSON.parse(text)[0];
    const chosen = shown.formats.find(row => row.format === state.selected) ?? shown.formats[0];
    views.find(row => row.name === 'number').selectedRow = chosen;
    const about = formats.find(row => row.format === chosen.format);
    const rows = shown.formats.map(row => {
      const pick = element('button', {type: 'button'}, row.format);
      pick.setAttribute('aria-pressed', String(row === chosen));
      pick.addEventListener('click', () => view.change({selected: row.format}));
      const flip = bitsOf(row, paddingOf(formats.find(other => other.format === row.format)), async (code, place) => {
        await view.change({x: code, bits: row.format, selected: row.format});
        document.querySelector(`[aria-label="bits of ${row.format}"] [data-place="${place}"]`)?.focus();
      });
      return [pick, String(row.value), flip, element('span', {className: 'code'}, row.code),
        row.error === null ? '' : Number(row.error).toPrecision(3), row.ulp_error === null ? '' : String(row.ulp_error)];
    });
    view.result.replaceChildren(stripOf(chosen, shown.value), element('p', {}, formulaOf(chosen, about)),
        tableOf(`${shown.input} in every format`, ['format', 'value', 'bits', 'code', 'error', 'ulps'], rows));
  },
});
}
