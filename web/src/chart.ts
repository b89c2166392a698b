// Charts over a continuous axis, drawn by uPlot in the colours of the page.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Bin } from './document';
import { h } from './dom';
import { count, span, tick } from './number';

const HEIGHT = 200;

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** How many took how long, on a logarithmic scale; with marks at some times. */
export function distribution(bins: Bin[], marks: [told: string, ns: number][]): HTMLElement {
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const label = `How long they took: ${marks.map(([told, ns]) => `${told} ${span(ns)}`).join(', ')}; ${count(total)} in all`;
  const place = h('div', { class: 'chart', role: 'img', 'aria-label': label });
  const xs: number[] = [];
  const ys: (number | null)[] = [];
  // Steps: at each bin's beginning its count, and none where bins lack.
  bins.forEach((bin, at) => {
    xs.push(Math.max(1, bin.from_ns));
    ys.push(bin.count);
    const next = bins[at + 1];
    if (!next || next.from_ns > bin.to_ns) {
      xs.push(bin.to_ns);
      ys.push(0);
    }
  });
  const first = Math.max(1, bins[0]?.from_ns ?? 1);
  const last = bins.at(-1)?.to_ns ?? 10;
  draw(place, (width) => {
    const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
    return new uPlot(
      {
        width,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false } },
        scales: { x: { time: false, distr: 3, range: [first * 0.8, last * 1.25] }, y: { range: [0, Math.max(...ys.map(Number)) * 1.1] } },
        axes: [
          { ...axis, size: 26, filter: (_: uPlot, splits: number[]) => splits.map((split) => (isRound(split) ? split : null)), values: (_: uPlot, values: (number | null)[]) => values.map((value) => (value === null ? '' : tick(value))) },
          { ...axis, size: 46, values: (_, values) => values.map((value) => (Number.isInteger(value) ? count(value) : '')) },
        ],
        series: [{}, { stroke: color('--main'), fill: color('--main-soft'), width: 1.5, paths: uPlot.paths.stepped?.({ align: 1 }) ?? null, points: { show: false } }],
        hooks: { draw: [(plot) => mark(plot, marks)] },
      } as uPlot.Options,
      [xs, ys] as uPlot.AlignedData,
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
    const axis = { stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui' };
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_: uPlot, __: number, max: number) => [0, most ?? (max * 1.05 || 1)] } },
        axes: [
          { ...axis, size: 26, values: (_: uPlot, values: number[]) => values.map(tick) },
          { ...axis, size: 64, values: (_: uPlot, values: number[]) => values.map(told) },
        ],
        series: [{}, ...drawn.map(({ layer }) => ({ label: layer.told, fill: color(layer.color), stroke: color(layer.color), width: 0.5, points: { show: false }, ...(stepped ? { paths: stepped } : {}) }))],
      } as uPlot.Options,
      [xs, ...drawn.map(({ edge }) => edge)] as uPlot.AlignedData,
      place,
    );
  });
  return place;
}

/** Of the lines of a logarithmic axis, those of 1, 2 and 5. */
function isRound(value: number): boolean {
  return [1, 2, 5].some((digit) => Math.abs(value / 10 ** Math.floor(Math.log10(value) + 1e-9) - digit) < 1e-6);
}

function mark(plot: uPlot, marks: [string, number][]): void {
  const { ctx } = plot;
  ctx.save();
  ctx.font = `${12 * devicePixelRatio}px system-ui`;
  ctx.fillStyle = ctx.strokeStyle = color('--ink');
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
      ctx.fillText(told, at + 5 * devicePixelRatio, plot.bbox.top + 12 * devicePixelRatio);
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
