// SPDX-License-Identifier: Apache-2.0
// Drawings in SVG. They are drawn for the width that they have on the page, so that text keeps its size.
'use strict';

const svgElement = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

const shortNumber = x => {
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e7) return String(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(0).replace('e+', 'e') : String(Number(x.toPrecision(4)));
};

/// The places of the marks of an axis.
const marksOf = (low, high, isLog, count) => {
  if (isLog) {
    const base = high / low > 1e4 ? 10 : 2, first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
    const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9), step = Math.max(1, Math.ceil((last - first) / count));
    return Array.from({length: Math.floor((last - first) / step) + 1}, (_, i) => base ** (first + i * step));
  }
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(width => width >= raw);
  const marks = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step) marks.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return marks;
};

/// The dashes of the lines of a chart, so that colour is not the only difference.
const dashes = ['', '6 3', '2 3', '8 3 2 3', '12 4', '4 2 1 2'];
/// After as many lines as there are inks, the same ink gets another dash.
const dashOf = i => dashes[(i + Math.floor(i / inks.length)) % dashes.length];
const inks = ['--accent', '--sign', '--fraction', '--error', '--quiet', '--text'];

/// Draws lines. `lines` are {name, points: [[x, y], ...]}; points that are not finite (or not positive on a logarithmic
/// axis) are left out. Returns a figure with a text alternative and a table of the points.
const lineChart = (width, {caption, x, y, lines, marks = false}) => {
  const height = Math.min(320, Math.max(220, width * 0.5)), left = 58, right = 28, top = 10, bottom = 44;
  const isDrawn = ([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!x.log || a > 0) && (!y.log || b > 0);
  const points = lines.flatMap(line => line.points.filter(isDrawn));
  const figure = element('figure', {});
  const head = [x.name, ...lines.map(line => line.name)];
  const places = [...new Set(lines.flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
  const rows = places.map(place => [String(place), ...lines.map(line => {
    const point = line.points.find(([a]) => a === place);
    return point ? String(point[1]) : '';
  })]);
  const table = element('details', {}, element('summary', {}, 'Numbers of this drawing'), tableOf(caption, head, rows));
  if (points.length === 0) {
    figure.append(element('p', {}, `${caption}: there is no number to draw.`), table);
    return figure;
  }
  const range = (values, axis) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) {
      low = axis.log ? low / 2 : low - 1;
      high = axis.log ? high * 2 : high + 1;
    }
    return [low, high];
  };
  const [x0, x1] = range(points.map(point => point[0]), x), [y0, y1] = range(points.map(point => point[1]), y);
  const scaled = (value, low, high, isLog) => isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const px = value => left + scaled(value, x0, x1, x.log) * (width - left - right);
  const py = value => height - bottom - scaled(value, y0, y1, y.log) * (height - top - bottom);
  const svg = svgElement('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label':
    `${caption}. ${lines.map(line => {
      const drawn = line.points.filter(isDrawn);
      return drawn.length === 0 ? `${line.name}: no number` : `${line.name}: from ${shortNumber(drawn[0][1])} to ${shortNumber(drawn.at(-1)[1])}`;
    }).join('; ')}.`});
  for (const mark of marksOf(x0, x1, x.log, Math.max(2, Math.floor(width / 90)))) {
    svg.append(svgElement('line', {x1: px(mark), x2: px(mark), y1: top, y2: height - bottom, stroke: 'var(--line)'}),
        svgElement('text', {x: px(mark), y: height - bottom + 16, 'text-anchor': 'middle'}, shortNumber(mark)));
  }
  for (const mark of marksOf(y0, y1, y.log, 5)) {
    svg.append(svgElement('line', {x1: left, x2: width - right, y1: py(mark), y2: py(mark), stroke: 'var(--line)'}),
        svgElement('text', {x: left - 6, y: py(mark) + 4, 'text-anchor': 'end'}, shortNumber(mark)));
  }
  svg.append(svgElement('text', {x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle'}, x.name));
  lines.forEach((line, i) => {
    const drawn = line.points.filter(isDrawn), ink = `var(${inks[i % inks.length]})`;
    svg.append(svgElement('polyline', {points: drawn.map(([a, b]) => `${px(a)},${py(b)}`).join(' '), fill: 'none', stroke: ink,
      'stroke-width': 2, 'stroke-dasharray': dashOf(i)}));
    if (marks) {
      for (const [a, b] of drawn) svg.append(svgElement('circle', {cx: px(a), cy: py(b), r: 3, fill: ink}));
    }
  });
  const legend = element('p', {className: 'legend'}, ...lines.flatMap((line, i) => {
    const key = svgElement('svg', {width: 30, height: 10, 'aria-hidden': 'true'}, svgElement('line', {x1: 0, x2: 30, y1: 5, y2: 5,
      stroke: `var(${inks[i % inks.length]})`, 'stroke-width': 2, 'stroke-dasharray': dashOf(i)}));
    return [element('span', {className: 'key'}, key, ` ${line.name} `)];
  }));
  figure.append(element('figcaption', {}, `${caption} (${y.name})`), svg, legend, table);
  return figure;
};
