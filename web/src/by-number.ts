// What becomes of requests one after the other: lines over their numbers.

import uPlot from 'uplot';
import { axis, color, draw, HEIGHT, type Layer } from './chart';
import { h } from './dom';
import { count } from './number';
import type { Zoom } from './zoom';

/** What is near enough to a request to mean it, in pixels. */
const NEAR = 12;

/** What stands at the lines of the axis of values. */
export type Marks = (of: uPlot, values: number[]) => string[];

/** Lines over the numbers of requests. `at` is told of the place of the request that is pointed at. */
export function byNumber(numbers: number[], lines: Layer[], marks: Marks, label: string, zoom: Zoom, at: (place: number | undefined, clicked: boolean) => void): HTMLElement {
  const place = h('div', { class: 'chart by-number', role: 'img', 'aria-label': label });
  const most = Math.max(1, ...lines.flatMap((line) => line.values));
  const pointed = (plot: uPlot): number | undefined => {
    const idx = plot.cursor.idx;
    if (idx === null || idx === undefined || (plot.cursor.left ?? -1) < 0) return undefined;
    return Math.abs(plot.valToPos(numbers[idx] ?? 0, 'x') - (plot.cursor.left ?? 0)) < NEAR ? idx : undefined;
  };
  return draw(place, zoom, (width) => {
    const plot: uPlot = new uPlot(
      {
        width,
        height: place.clientHeight || HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, ...zoom.cursor() },
        scales: { x: { time: false, range: () => zoom.range('x') }, y: { range: [0, most * 1.05] } },
        axes: [
          { ...axis(), size: 26, values: (_: uPlot, values: number[]) => values.map((value) => (Number.isInteger(value) ? count(value) : '')) },
          { ...axis(), size: 64, values: marks },
        ],
        series: [{}, ...lines.map((line) => ({ label: line.told, stroke: color(line.color), width: 1.25, points: { show: false } }))],
        hooks: { setSelect: [(of: uPlot) => zoom.selected(of)], setCursor: [(of: uPlot) => at(pointed(of), false)] },
      } as uPlot.Options,
      [numbers, ...lines.map((line) => line.values)] as uPlot.AlignedData,
      place,
    );
    plot.over.addEventListener('click', () => at(pointed(plot), true));
    return plot;
  });
}
