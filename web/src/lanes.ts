// Lanes over time, drawn as SVG: what is drawn into them may be looked at closely, as charts may.

import { h, svg } from './dom';
import { tick } from './number';
import { Zoom, type Range } from './zoom';

const WIDTH = 1000;
/** What is left free at the right, and for the times below. */
const [RIGHT, BELOW] = [10, 22];
const TICKS = [0, 0.25, 0.5, 0.75, 1];

export interface Lane {
  told: string;
  /** The whole name, where that is cut short. */
  title?: string;
}

/** Lanes, and what draws into them. */
export interface Lanes {
  figure: HTMLElement;
  /** Where a time is, and the upper edge of a lane; a lane is so high. */
  x: (ns: number) => number;
  y: (lane: number) => number;
  high: number;
  add: (...elements: SVGElement[]) => void;
}

/** So many lanes, each so high with what is between them, of a time that begins at `start`; names have so much room. */
export function lanes(all: Lane[], height: number, names: number, start: number, whole: number, label: string): Lanes {
  const wide = WIDTH - names - RIGHT;
  const [low, high] = [all.length * height + 4, height - 5];
  const x = (ns: number) => ((ns - start) / Math.max(1, whole)) * wide;
  const y = (lane: number) => 4 + lane * height;
  const zoom = new Zoom({ x: { whole: [0, Math.max(1, whole)], log: false } });
  const chart = svg('svg', { class: 'lanes', viewBox: `0 0 ${WIDTH} ${low + BELOW}`, role: 'img', 'aria-label': label });
  all.forEach(({ told, title }, at) => {
    chart.append(svg('text', { x: names - 9, y: y(at) + high / 2 + 4, class: 'lane' }, told, svg('title', {}, title ?? told)), svg('rect', { x: names, y: y(at), width: WIDTH - names, height: high, class: 'lane' }));
  });
  const drawn = svg('svg', { x: names, y: 0, width: wide, height: low, preserveAspectRatio: 'none' });
  const selected = svg('rect', { y: 0, height: low, class: 'selected' });
  const times = TICKS.map((share) => svg('text', { x: names + share * wide, y: low + BELOW - 6, class: share === 0 ? 'tick first' : share === 1 ? 'tick last' : 'tick' }));
  chart.append(drawn, selected, ...times);
  const show = () => {
    const [first, last] = zoom.range('x');
    drawn.setAttribute('viewBox', `${x(start + first)} 0 ${Math.max(1e-6, x(start + last) - x(start + first))} ${low}`);
    times.forEach((text, at) => (text.textContent = tick(first + (TICKS[at] ?? 0) * (last - first), (last - first) / 4)));
  };
  show();
  zoom.join(show);
  const place = h('div', { class: 'scroll', role: 'region', 'aria-label': label }, chart);
  const over = (): DOMRect => {
    const box = chart.getBoundingClientRect();
    const scale = box.width / WIDTH;
    return new DOMRect(box.left + names * scale, box.top, wide * scale, low * scale);
  };
  const drag = (shares: Range | undefined) => {
    selected.setAttribute('x', String(names + (shares?.[0] ?? 0) * wide));
    selected.setAttribute('width', String(((shares?.[1] ?? 0) - (shares?.[0] ?? 0)) * wide));
  };
  zoom.dragged(chart, over, drag);
  return { figure: zoom.frame(place, over), x, y, high, add: (...elements) => drawn.append(...elements) };
}
