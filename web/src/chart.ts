// Charts over a continuous axis, drawn by uPlot in the colours of the page: how times are distributed, what changes over
// time, and what all charts have in common.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Bin } from './document';
import { h } from './dom';
import { count, span, tick } from './number';
import { Zoom, type Range } from './zoom';

export const HEIGHT = 200;

/** How charts are looked at. */
export const CLOSER = 'Drag to look closer, or press + and the arrows; double-click or 0 shows all.';

const colors = new Map<string, string>();
addEventListener('theme', () => colors.clear());

/** A colour of style.css as it is now, light or dark. */
export function color(name: string): string {
  let found = colors.get(name);
  if (found === undefined) {
    const probe = h('span', { style: { color: `var(${name})` } });
    document.body.append(probe);
    found = getComputedStyle(probe).color;
    probe.remove();
    colors.set(name, found);
  }
  return found;
}

/** The same, so that what is below is seen. */
function faint(name: string): string {
  return color(name).replace(/^rgb\((.*)\)$/, 'rgba($1, 0.2)');
}

/** What the axes of all charts have in common. */
export function axis(): uPlot.Axis {
  return { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
}

/** From the shortest time of some bins to the longest. */
export function timesOf(...all: Bin[][]): Range {
  const bins = all.flat();
  return [Math.max(1, Math.min(...bins.map((bin) => bin.from_ns))), Math.max(10, ...bins.map((bin) => bin.to_ns))];
}

type Marks = [told: string, ns: number][];

/** How many took how long, on a logarithmic scale, which may reach further; with marks at some times. */
export function distribution(bins: Bin[], marks: Marks, range: Range = timesOf(bins)): HTMLElement {
  const label = `How long they took: ${told(marks)}; ${count(total(bins))} in all`;
  return spreads([{ bins, marks, color: '--main', ink: '--ink' }], range, 1, (value) => (Number.isInteger(value) ? count(value) : ''), label);
}

/** The same of two runs over each other, as shares of all of each. */
export function distributions(first: Bin[], second: Bin[], marks: [first: Marks, second: Marks]): HTMLElement {
  const all = [first, second].map((bins, at): Spread => ({ bins, marks: marks[at] ?? [], color: at === 0 ? '--main' : '--cpu', ink: at === 0 ? '--main' : '--cpu' }));
  const label = `How long they took: first ${told(marks[0])}; second ${told(marks[1])}`;
  return spreads(all, timesOf(first, second), undefined, (value) => `${Number((100 * value).toPrecision(2))} %`, label);
}

function total(bins: Bin[]): number {
  return bins.reduce((sum, bin) => sum + bin.count, 0);
}

function told(marks: Marks): string {
  return marks.map(([told, ns]) => `${told} ${span(ns)}`).join(', ');
}

/** Times of one run; the names of its colours in style.css. */
interface Spread {
  bins: Bin[];
  marks: Marks;
  color: string;
  ink: string;
}

/** What is counted is divided by a number, or by how many there are in all. */
function spreads(all: Spread[], [first, last]: Range, by: number | undefined, tell: (value: number) => string, label: string): HTMLElement {
  const place = h('div', { class: 'chart', role: 'img', 'aria-label': label });
  // Bins of all are the same or apart: at the edges of all each has a bin that begins there, or none.
  const xs = [...new Set(all.flatMap(({ bins }) => bins.flatMap((bin) => [bin.from_ns, bin.to_ns])))].sort((a, b) => a - b);
  const series = all.map(({ bins }) => {
    const counts = new Map(bins.map((bin) => [bin.from_ns, bin.count]));
    return xs.map((x) => (counts.get(x) ?? 0) / Math.max(1, by ?? total(bins)));
  });
  const stepped = uPlot.paths.stepped?.({ align: 1 }) ?? null;
  const zoom = new Zoom({ x: { whole: [first * 0.8, last * 1.25], log: true } });
  return draw(place, zoom, (width) => {
    return new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, ...zoom.cursor() },
        scales: { x: { time: false, distr: 3, range: () => zoom.range('x') }, y: { range: [0, Math.max(...series.flat()) * 1.1] } },
        axes: [
          { ...axis(), size: 26, filter: every, splits: (_: uPlot, __: number, min: number, max: number) => rounds(min, max, width / 70), values: ticks },
          { ...axis(), size: 46, values: (_: uPlot, values: number[]) => values.map(tell) },
        ],
        series: [{}, ...all.map((one) => ({ stroke: color(one.color), fill: faint(one.color), width: 1.5, paths: stepped, points: { show: false } }))],
        hooks: { setSelect: [(plot: uPlot) => zoom.selected(plot)], draw: [(plot: uPlot) => all.forEach((one, row) => mark(plot, one.marks, one.ink, row))] },
      } as uPlot.Options,
      [xs.map((x) => Math.max(1, x)), ...series] as uPlot.AlignedData,
      place,
    );
  });
}

export interface Layer {
  told: string;
  /** The name of its colour in style.css. */
  color: string;
  values: number[];
}

/** From the first of some times to the last: for charts of the same times. */
export function zoomOver(xs: number[]): Zoom {
  return new Zoom({ x: { whole: [xs[0] ?? 0, Math.max(xs.at(-1) ?? 1, (xs[0] ?? 0) + 1)], log: false } });
}

/** Layers on each other over time; the values are told by a function. */
export function layers(xs: number[], all: Layer[], most: number | null, told: (value: number) => string, label: string, zoom: Zoom): HTMLElement {
  const place = h('div', { class: 'chart over-time', role: 'img', 'aria-label': label });
  // Each one's upper edge; the last is drawn first, and those below it over it.
  const edges: number[][] = [];
  for (const layer of all) edges.push(layer.values.map((value, at) => value + (edges.at(-1)?.[at] ?? 0)));
  const drawn = all.map((layer, at) => ({ layer, edge: edges[at] ?? [] })).reverse();
  return draw(place, zoom, (width) => {
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, ...zoom.cursor() },
        scales: { x: { time: false, range: () => zoom.range('x') }, y: { range: (_: uPlot, __: number, max: number) => [0, most ?? (max * 1.05 || 1)] } },
        axes: [
          { ...axis(), size: 26, values: (_: uPlot, values: number[], __: number, ___: number, step: number) => values.map((value) => tick(value, step)) },
          { ...axis(), size: 64, values: (_: uPlot, values: number[]) => values.map(told) },
        ],
        hooks: { setSelect: [(plot: uPlot) => zoom.selected(plot)] },
        series: [{}, ...drawn.map(({ layer }) => ({ label: layer.told, fill: color(layer.color), stroke: color(layer.color), width: 0.5, points: { show: false }, ...(stepped ? { paths: stepped } : {}) }))],
      } as uPlot.Options,
      [xs, ...drawn.map(({ edge }) => edge)] as uPlot.AlignedData,
      place,
    );
  });
}

/** What stands at the lines of an axis of times. */
export function ticks(_: uPlot, lines: number[]): string[] {
  const step = Math.min(...lines.slice(1).map((line, at) => line - (lines[at] ?? 0)));
  return lines.map((line) => tick(line, step));
}

/** All lines: where an axis is logarithmic, most would be left out. */
export function every(_: uPlot, lines: number[]): number[] {
  return lines;
}

/** Round numbers within a range, as many as there is room for. */
export function rounds(min: number, max: number, room: number): number[] {
  const tens = powers(10, min / 10, max, Infinity);
  for (const digits of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5]]) {
    const all = tens.flatMap((ten) => digits.map((digit) => digit * ten)).filter((value) => value >= min && value <= max);
    if (all.length <= room) return all.length > 2 ? all : evenly(min, max, room);
  }
  return powers(10, min, max, room);
}

/** Round numbers at the same distance: for who looks closer than at some powers. */
export function evenly(min: number, max: number, room: number): number[] {
  const least = (max - min) / Math.max(2, Math.min(room, 8));
  const ten = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((digit) => digit * ten).find((step) => step >= least) ?? 10 * ten;
  const all: number[] = [];
  for (let nth = Math.ceil(min / step); nth * step <= max; nth++) all.push(nth * step);
  return all;
}

/** The powers of a base within a range, no more than there is room for. */
export function powers(base: number, min: number, max: number, room: number): number[] {
  const [first, last] = [min, max].map((value) => Math.log(value) / Math.log(base)) as [number, number];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, room)));
  const all: number[] = [];
  for (let power = Math.ceil(first / step) * step; power <= last; power += step) all.push(base ** power);
  return all;
}

/** Marks at some times; those of each run are told in a row of their own. */
function mark(plot: uPlot, marks: Marks, ink: string, row: number): void {
  const { ctx } = plot;
  ctx.save();
  ctx.font = `${12 * devicePixelRatio}px system-ui`;
  ctx.fillStyle = ctx.strokeStyle = color(ink);
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  let until = -Infinity;
  for (const [told, ns] of marks) {
    const x = plot.valToPos(Math.max(1, ns), 'x', true);
    ctx.beginPath();
    ctx.moveTo(x, plot.bbox.top);
    ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    ctx.stroke();
    const width = ctx.measureText(told).width + 10 * devicePixelRatio;
    const left = x + width > plot.bbox.left + plot.bbox.width;
    const at = left ? x - width : x;
    if (at > until) {
      ctx.fillText(told, at + 5 * devicePixelRatio, plot.bbox.top + (12 + 14 * row) * devicePixelRatio);
      until = at + width;
    }
  }
  ctx.restore();
}

/** Draws when the place is in the page, and again where its width or the colours change. */
export function draw(place: HTMLElement, zoom: Zoom, make: (width: number) => uPlot): HTMLElement {
  let plot: uPlot | undefined;
  zoom.join(() => plot && zoom.redraw(plot));
  const again = () => {
    plot?.destroy();
    plot = place.clientWidth > 0 ? make(place.clientWidth) : undefined;
  };
  new ResizeObserver(again).observe(place);
  addEventListener('theme', () => place.isConnected && again());
  return zoom.frame(place);
}
