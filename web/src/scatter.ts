// Time by size: what carried how much took how long, all of it as the cells of a grid.

import uPlot from 'uplot';
import { axis, color, draw, every, evenly, HEIGHT, powers, rounds, ticks } from './chart';
import type { Cell, Grid } from './document';
import { h } from './dom';
import { count, size } from './number';
import { Zoom, type Range } from './zoom';

/** The bytes and times that some grids reach over. Nothing is below all others: a logarithmic scale has no place for it. */
export function reach(grids: Grid[]): { bytes: Range; times: Range } {
  const over = (all: [unknown, unknown][]): Range => {
    const some = all.map((edges) => edges.map(Number) as Range).filter(([from]) => from > 0);
    const [least, most] = [Math.min(...some.map(([from]) => from)), Math.max(2, ...some.map(([, to]) => to))];
    return [some.length === 0 ? 1 : some.length < all.length ? Math.max(1, least / 4) : least, most];
  };
  return { bytes: over(grids.flatMap((grid) => grid.bytes)), times: over(grids.flatMap((grid) => grid.times)) };
}

/** Of charts that reach so far: with some room at the edges. */
export function zoomOf({ bytes, times }: ReturnType<typeof reach>): Zoom {
  const wider = ([least, most]: Range): Range => [least * 0.8, most * 1.25];
  return new Zoom({ x: { whole: wider(bytes), log: true }, y: { whole: wider(times), log: true } });
}

/** What is near enough to a cell to mean it, in pixels. */
const NEAR = 10;

/** How many of one run carried how much and took how long; the name of its colour in style.css. */
export interface Cloud {
  grid: Grid;
  color: string;
}

/** Both on logarithmic scales. `at` is told of the cell of the last cloud that is pointed at. */
export function scatter(clouds: Cloud[], zoom: Zoom, label: string, at: (cell: Cell | undefined, clicked: boolean) => void): HTMLElement {
  const place = h('div', { class: 'chart scatter', role: 'img', 'aria-label': label });
  /** The edges of a cell within a plot. */
  const edges = (plot: uPlot, grid: Grid, [column, row]: Cell, canvas: boolean) => {
    const x = (grid.bytes[column] ?? [1, 1]).map((value) => plot.valToPos(Math.max(1, Number(value)), 'x', canvas));
    const y = (grid.times[row] ?? [1, 1]).map((value) => plot.valToPos(Math.max(1, Number(value)), 'y', canvas));
    const [start, end] = canvas ? [plot.bbox.left, plot.bbox.top + plot.bbox.height] : [0, plot.over.clientHeight];
    return { left: Math.max(start, x[0] ?? 0), right: Math.max(start, x[1] ?? 0), top: Math.min(end, y[1] ?? 0), bottom: Math.min(end, y[0] ?? 0) };
  };
  const cells = (plot: uPlot) => {
    const { ctx, bbox } = plot;
    const least = 4 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const { grid, color: of } of clouds) {
      const most = Math.max(...grid.cells.map(([, , count]) => count));
      ctx.fillStyle = color(of);
      for (const cell of grid.cells) {
        const { left, right, top, bottom } = edges(plot, grid, cell, true);
        ctx.globalAlpha = 0.35 + (0.65 * Math.log(cell[2])) / Math.max(1, Math.log(most));
        ctx.fillRect(left, Math.min(top, bottom - least), Math.max(least, right - left - 1), Math.max(least, bottom - top - 1));
      }
    }
    ctx.restore();
  };
  const pointed = (plot: uPlot): Cell | undefined => {
    const [x, y] = [plot.cursor.left ?? -1, plot.cursor.top ?? -1];
    const grid = clouds.at(-1)?.grid;
    if (x < 0 || !grid) return undefined;
    const far = (cell: Cell) => {
      const { left, right, top, bottom } = edges(plot, grid, cell, false);
      return Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
    };
    const [nearest, distance] = grid.cells.reduce<[Cell | undefined, number]>((best, cell) => (far(cell) < best[1] ? [cell, far(cell)] : best), [undefined, NEAR]);
    return distance < NEAR ? nearest : undefined;
  };
  return draw(place, zoom, (width) => {
    const plot: uPlot = new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { points: { show: false }, ...zoom.cursor() },
        scales: { x: { time: false, distr: 3, range: () => zoom.range('x') }, y: { distr: 3, range: () => zoom.range('y') } },
        axes: [
          { ...axis(), size: 26, filter: every, splits: (_: uPlot, __: number, min: number, max: number) => sizes(min, max, width / 70), values: (_: uPlot, values: number[]) => values.map(sized) },
          { ...axis(), size: 60, filter: every, splits: (of: uPlot, __: number, min: number, max: number) => rounds(min, max, of.height / 30), values: ticks },
        ],
        series: [{}, { show: false }],
        hooks: { draw: [cells], setSelect: [(of: uPlot) => zoom.selected(of)], setCursor: [(of: uPlot) => at(pointed(of), false)] },
      } as unknown as uPlot.Options,
      // It draws nothing by itself.
      [zoom.range('x'), zoom.range('y')] as uPlot.AlignedData,
      place,
    );
    plot.over.addEventListener('click', () => at(pointed(plot), true));
    return plot;
  });
}

/** Sizes at the lines of an axis: powers of two, and between them where not even two of these are shown. */
function sizes(min: number, max: number, room: number): number[] {
  const all = powers(2, min, max, room);
  return all.length > 1 ? all : evenly(min, max, room).filter(Number.isInteger);
}

function sized(bytes: number): string {
  return Number.isInteger(Math.log2(bytes)) ? size(bytes).replace('.0', '') : `${count(bytes)} B`;
}
