// SPDX-License-Identifier: Apache-2.0
// The view "Scaler": the loss scale of up to three scalers, step by step.
'use strict';

{
const kinds = ['torch', 'torch-sharded', 'ds-zero', 'ds-fused', 'apex', 'apex-fp16-utils', 'megatron', 'static'];
let boxes, steps, window_, hysteresis, count;

const scalerArguments = (kind, state) => ['scaler', kind, '--steps', state.steps, ...(state.window ? ['--window', state.window] : []),
  ...(state.hysteresis && !['torch', 'torch-sharded', 'apex', 'static'].includes(kind) ? ['--hysteresis', state.hysteresis] : []),
  ...(state['overflow-at'] ? ['--overflow-at', state['overflow-at']] : [])];

views.push({
  name: 'scaler', title: 'Scaler',
  sentence: 'How the loss scalers of frameworks react when the gradients of a step overflow. Click a step to make it overflow.',
  keys: {kind: 'torch,ds-zero', steps: '20', window: '4', hysteresis: '', 'overflow-at': '3,4,9'},
  build(panel, view) {
    boxes = kinds.map(kind => element('input', {type: 'checkbox', value: kind}));
    for (const box of boxes) {
      box.addEventListener('change', () => {
        const chosen = boxes.filter(other => other.checked).map(other => other.value);
        if (chosen.length > 3 || chosen.length === 0) box.checked = !box.checked;
        else view.change({kind: chosen.join(',')});
      });
    }
    const numeric = key => {
      const control = element('input', {type: 'number', min: 1, size: 5});
      control.addEventListener('input', () => view.change({[key]: control.value}));
      return control;
    };
    count = numeric('steps');
    window_ = numeric('window');
    hysteresis = numeric('hysteresis');
    steps = element('div', {className: 'steps', role: 'group', ariaLabel: 'Steps that overflow'});
    panel.append(element('fieldset', {}, element('legend', {}, 'Scalers, at most three'), ...boxes.map((box, i) =>
        element('label', {}, box, ` ${kinds[i]} `))), labelled('Number of steps', count),
        labelled('Clean steps until the scale grows', window_), labelled('Overflows until the scale backs off', hysteresis), steps);
  },
  command: state => scalerArguments(state.kind.split(',')[0], state),
  async show(state, view) {
    const chosen = state.kind.split(',').slice(0, 3), overflows = new Set(state['overflow-at'].split(',').filter(Boolean).map(Number));
    boxes.forEach(box => { box.checked = chosen.includes(box.value); });
    if (count.value !== state.steps) count.value = state.steps;
    if (window_.value !== state.window) window_.value = state.window;
    if (hysteresis.value !== state.hysteresis) hysteresis.value = state.hysteresis;
    const focused = document.activeElement?.dataset?.step;
    steps.replaceChildren(...Array.from({length: Math.min(100, Number(state.steps) || 0)}, (_, i) => {
      const button = element('button', {type: 'button'}, String(i + 1));
      button.dataset.step = i + 1;
      button.setAttribute('aria-pressed', String(overflows.has(i + 1)));
      button.addEventListener('click', () => {
        const changed = new Set(overflows);
        if (!changed.delete(i + 1)) changed.add(i + 1);
        view.change({'overflow-at': [...changed].sort((a, b) => a - b).join(',')});
      });
      return button;
    }));
    if (focused) steps.querySelector(`[data-step="${focused}"]`)?.focus();
    const lines = [], skipped = [];
    for (const kind of chosen) {
      const text = await view.run([...scalerArguments(kind, state), '--json']);
      if (text === null) return;
      const rows = JSON.parse(text);
      lines.push({name: kind, points: rows.map(row => [row.step, row.scale])});
      skipped.push(element('li', {}, `${kind}: skipped steps ${rows.filter(row => row.skipped).map(row => row.step).join(', ') || 'none'}` +
        `${rows.at(-1).raised ? `; the framework ends the run at step ${rows.at(-1).step}` : ''}`));
    }
    view.result.replaceChildren(lineChart(Math.max(280, view.panel.clientWidth), {caption: 'Scale of each step', x: {name: 'step'},
      y: {name: 'scale', log: true}, lines, marks: true}), element('ul', {}, ...skipped));
  },
});
}
