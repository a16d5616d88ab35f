// SPDX-License-Identifier: Apache-2.0
// The view "Compute": one operation in every format.
'use strict';

{
let expression, round, saturate;
const roundings = ['nearest_even', 'nearest_away', 'toward_zero', 'up', 'down', 'to_odd'];
const computeArguments = state => ['compute', state.x, ...(state.round === 'nearest_even' ? [] : ['--round', state.round]),
  ...(state.saturate ? ['--saturate'] : [])];

views.push({
  name: 'compute', title: 'Compute',
  sentence: 'One operation in every format: the operands are rounded first, the result is exact, and then it is rounded once.',
  keys: {x: '0.1 + 0.2', round: 'nearest_even', saturate: ''},
  build(panel, view) {
    expression = element('input', {type: 'text', autocomplete: 'off', spellcheck: false});
    round = selectOf(roundings, 'nearest_even');
    saturate = element('input', {type: 'checkbox'});
    expression.addEventListener('input', () => view.change({x: expression.value}));
    round.addEventListener('change', () => view.change({round: round.value}));
    saturate.addEventListener('change', () => view.change({saturate: saturate.checked ? '1' : ''}));
    panel.append(labelled('a + b, a - b, a * b, a / b, sqrt(a) or fma(a, b, c)', expression), labelled('Rounding', round),
        labelled('Overflow to the largest number', saturate));
  },
  command: computeArguments,
  async show(state, view) {
    if (expression.value !== state.x) expression.value = state.x;
    round.value = state.round;
    saturate.checked = state.saturate !== '';
    const text = await view.run([...computeArguments(state), '--json']);
    if (text === null) return;
    const {expression: shown, formats} = JSON.parse(text);
    const letters = ['a', 'b', 'c'].slice(0, formats[0].operands.length);
    view.result.replaceChildren(tableOf(`${shown} in every format`, ['format', ...letters, 'result', 'code', 'ulps', 'flags', 'exact', 'error'],
        formats.map(row => [row.format, ...row.operands.map(operand => String(operand.value)), element('strong', {}, String(row.result.value)),
          element('span', {className: 'code'}, row.result.code), row.ulp_error === null ? '' : Number(row.ulp_error).toPrecision(3), row.flags.join(', '),
          row.exact === null ? 'none' : `${row.exact_is_rounded ? '~' : ''}${row.exact}`, row.error === null ? '' : Number(row.error).toPrecision(3)])),
        element('p', {}, 'The exact results with ~ are rounded to fp64 for this table. Errors are computed from the exact results.'));
  },
});
}
