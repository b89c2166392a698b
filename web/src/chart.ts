// Charts over a continuous axis, drawn by uPlot in the colours of the page.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Bin, Cell, Grid } from './document';
import { h } from './dom';
import { count, size, span, tick } from './number';

const HEIGHT = 200;

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What the axes of all charts have in common. */
function axis(): uPlot.Axis {
  return { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
}

export type Range = [first: number, last: number];

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
  draw(place, (width) => {
    return new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        scales: { x: { time: false, distr: 3, range: [first * 0.8, last * 1.25] }, y: { range: [0, Math.max(...series.flat()) * 1.1] } },
        axes: [
          { ...axis(), size: 26, filter: every, splits: (_: uPlot, __: number, min: number, max: number) => rounds(min, max, width / 70), values: (_: uPlot, values: number[]) => values.map(tick) },
          { ...axis(), size: 46, values: (_: uPlot, values: number[]) => values.map(tell) },
        ],
        series: [{}, ...all.map((one) => ({ stroke: color(one.color), fill: `${color(one.color)}33`, width: 1.5, paths: stepped, points: { show: false } }))],
        hooks: { draw: [(plot: uPlot) => all.forEach((one, row) => mark(plot, one.marks, one.ink, row))] },
      } as uPlot.Options,
      [xs.map((x) => Math.max(1, x)), ...series] as uPlot.AlignedData,
      place,
    );
  });
  return place;
}

export interface Layer {
  told: string;
  /** The name of its colour in style.css. */
  color: string;
  values: number[];
}

/** Layers on each other over time; the values are told by a function. */
export function layers(xs: number[], all: Layer[], most: number | null, told: (value: number) => string, label: string): HTMLElement {
  const place = h('div', { class: 'chart over-time', role: 'img', 'aria-label': label });
  // Each one's upper edge; the last is drawn first, and those below it over it.
  const edges: number[][] = [];
  for (const layer of all) edges.push(layer.values.map((value, at) => value + (edges.at(-1)?.[at] ?? 0)));
  const drawn = all.map((layer, at) => ({ layer, edge: edges[at] ?? [] })).reverse();
  draw(place, (width) => {
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_: uPlot, __: number, max: number) => [0, most ?? (max * 1.05 || 1)] } },
        axes: [
          { ...axis(), size: 26, values: (_: uPlot, values: number[]) => values.map(tick) },
          { ...axis(), size: 64, values: (_: uPlot, values: number[]) => values.map(told) },
        ],
        series: [{}, ...drawn.map(({ layer }) => ({ label: layer.told, fill: color(layer.color), stroke: color(layer.color), width: 0.5, points: { show: false }, ...(stepped ? { paths: stepped } : {}) }))],
      } as uPlot.Options,
      [xs, ...drawn.map(({ edge }) => edge)] as uPlot.AlignedData,
      place,
    );
  });
  return place;
}

/** The bytes and times that some grids reach over. Nothing is below all others: a logarithmic scale has no place for it. */
export function reach(grids: Grid[]): { bytes: Range; times: Range } {
  const over = (all: [unknown, unknown][]): Range => {
    const some = all.map((edges) => edges.map(Number) as Range).filter(([from]) => from > 0);
    const [least, most] = [Math.min(...some.map(([from]) => from)), Math.max(2, ...some.map(([, to]) => to))];
    return [some.length === 0 ? 1 : some.length < all.length ? Math.max(1, least / 4) : least, most];
  };
  return { bytes: over(grids.flatMap((grid) => grid.bytes)), times: over(grids.flatMap((grid) => grid.times)) };
}

/** What is near enough to a cell to mean it, in pixels. */
const NEAR = 10;

/** How many carried how much and took how long, both on logarithmic scales. `at` is told of the cell that is pointed at. */
export function scatter(grid: Grid, { bytes, times }: ReturnType<typeof reach>, label: string, at: (cell: Cell | undefined, clicked: boolean) => void): HTMLElement {
  const place = h('div', { class: 'chart scatter', role: 'img', 'aria-label': label });
  const most = Math.max(...grid.cells.map(([, , of]) => of));
  /** The edges of a cell within a plot. */
  const edges = (plot: uPlot, [column, row]: Cell, canvas: boolean) => {
    const x = (grid.bytes[column] ?? [1, 1]).map((value) => plot.valToPos(Math.max(1, Number(value)), 'x', canvas));
    const y = (grid.times[row] ?? [1, 1]).map((value) => plot.valToPos(Math.max(1, Number(value)), 'y', canvas));
    const [start, end] = canvas ? [plot.bbox.left, plot.bbox.top + plot.bbox.height] : [0, plot.over.clientHeight];
    return { left: Math.max(start, x[0] ?? 0), right: Math.max(start, x[1] ?? 0), top: Math.min(end, y[1] ?? 0), bottom: Math.min(end, y[0] ?? 0) };
  };
  const cells = (plot: uPlot) => {
    const { ctx } = plot;
    const least = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = color('--main');
    for (const cell of grid.cells) {
      const { left, right, top, bottom } = edges(plot, cell, true);
      ctx.globalAlpha = 0.35 + (0.65 * Math.log(cell[2])) / Math.max(1, Math.log(most));
      ctx.fillRect(left, Math.min(top, bottom - least), Math.max(least, right - left - 1), Math.max(least, bottom - top - 1));
    }
    ctx.restore();
  };
  const pointed = (plot: uPlot): Cell | undefined => {
    const [x, y] = [plot.cursor.left ?? -1, plot.cursor.top ?? -1];
    if (x < 0) return undefined;
    const far = (cell: Cell) => {
      const { left, right, top, bottom } = edges(plot, cell, false);
      return Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
    };
    const [nearest, distance] = grid.cells.reduce<[Cell | undefined, number]>((best, cell) => (far(cell) < best[1] ? [cell, far(cell)] : best), [undefined, NEAR]);
    return distance < NEAR ? nearest : undefined;
  };
  draw(place, (width) => {
    const plot: uPlot = new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { time: false, distr: 3, range: [bytes[0] * 0.8, bytes[1] * 1.25] }, y: { distr: 3, range: [times[0] * 0.8, times[1] * 1.25] } },
        axes: [
          { ...axis(), size: 26, filter: every, splits: (_: uPlot, __: number, min: number, max: number) => powers(2, min, max, width / 70), values: (_: uPlot, values: number[]) => values.map((value) => size(value).replace('.0', '')) },
          { ...axis(), size: 60, filter: every, splits: (of: uPlot, __: number, min: number, max: number) => rounds(min, max, of.height / 30), values: (_: uPlot, values: number[]) => values.map(tick) },
        ],
        series: [{}, { show: false }],
        hooks: { draw: [cells], setCursor: [(of: uPlot) => at(pointed(of), false)] },
      } as unknown as uPlot.Options,
      [bytes, times] as uPlot.AlignedData,
      place,
    );
    plot.over.addEventListener('click', () => at(pointed(plot), true));
    return plot;
  });
  return place;
}

/** All lines: where an axis is logarithmic, most would be left out. */
function every(_: uPlot, lines: number[]): number[] {
  return lines;
}

/** Round numbers within a range, as many as there is room for. */
function rounds(min: number, max: number, room: number): number[] {
  const tens = powers(10, min / 10, max, Infinity);
  for (const digits of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5]]) {
    const all = tens.flatMap((ten) => digits.map((digit) => digit * ten)).filter((value) => value >= min && value <= max);
    if (all.length <= room) return all;
  }
  return powers(10, min, max, room);
}

/** The powers of a base within a range, no more than there is room for. */
function powers(base: number, min: number, max: number, room: number): number[] {
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
function draw(place: HTMLElement, make: (width: number) => uPlot): void {
  let plot: uPlot | undefined;
  const again = () => {
    plot?.destroy();
    plot = place.clientWidth > 0 ? make(place.clientWidth) : undefined;
  };
  new ResizeObserver(again).observe(place);
  addEventListener('theme', () => place.isConnected && again());
}
