// Looking closer at a chart: by dragging, by the keyboard, and by Ctrl and the wheel. Charts of the same axis share one.

import type uPlot from 'uplot';
import { h } from './dom';

export type Range = [first: number, last: number];

/** How far an axis reaches, and whether it is logarithmic. */
export interface Reach {
  whole: Range;
  log: boolean;
}

export interface Axes {
  x: Reach;
  y?: Reach;
}

const AXES = ['x', 'y'] as const;
type Axis = (typeof AXES)[number];
type Shares = Partial<Record<Axis, Range>>;

/** No closer than a part of the whole. */
const CLOSEST = 1 / 5_000;
/** By so much for each key or turn of the wheel. */
const [CLOSER, STEP, TURN] = [0.5, 0.25, 0.8];

export class Zoom {
  /** Of each axis, from which share of the whole to which. */
  private shares: Shares = {};
  private readonly shown = new Set<() => void>();
  private readonly buttons: HTMLButtonElement[] = [];

  constructor(private readonly axes: Axes) {}

  /** What is shown of an axis. */
  range(axis: Axis): Range {
    const of = this.axes[axis];
    if (!of) return [0, 1];
    const [first, last] = this.shares[axis] ?? [0, 1];
    return [value(of, first), value(of, last)];
  }

  /** Something else is to be seen: `show` is told. */
  join(show: () => void): void {
    this.shown.add(show);
  }

  /** What a plot that has joined does then. */
  redraw(plot: uPlot): void {
    plot.batch(() => {
      for (const axis of AXES) {
        if (!this.axes[axis]) continue;
        const [min, max] = this.range(axis);
        plot.setScale(axis, { min, max });
      }
    });
  }

  /** Which actions of the mouse a plot takes: what is dragged over is shown alone. */
  cursor(): uPlot.Cursor {
    const whole = (): null => {
      this.show({});
      return null;
    };
    return {
      drag: { x: true, y: this.axes.y !== undefined, uni: 30, dist: 5, setScale: false },
      bind: { dblclick: () => whole },
    } as uPlot.Cursor;
  }

  /** What is no plot: shows what is dragged over of a box. `drag` draws what that is so far. */
  dragged(chart: SVGSVGElement, over: () => DOMRect, drag: (shares: Range | undefined) => void): void {
    let from: number | undefined;
    const share = (event: PointerEvent) => {
      const box = over();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / Math.max(1, box.width)));
    };
    const shares = (event: PointerEvent): Range => [Math.min(from ?? 0, share(event)), Math.max(from ?? 0, share(event))];
    chart.addEventListener('pointerdown', (event) => {
      if (event.button === 0 && event.pointerType === 'mouse') from = share(event);
    });
    chart.addEventListener('pointermove', (event) => {
      if (from === undefined) return;
      chart.setPointerCapture(event.pointerId);
      drag(shares(event));
    });
    const end = (event: PointerEvent) => {
      const [first, last] = shares(event);
      if (from !== undefined && last - first > 0.01) this.within((_, [begin, all]) => [begin + first * (all - begin), begin + last * (all - begin)]);
      from = undefined;
      drag(undefined);
    };
    chart.addEventListener('pointerup', end);
    chart.addEventListener('pointercancel', end);
    chart.addEventListener('dblclick', () => this.show({}));
  }

  /** Shows what was dragged over. */
  selected(plot: uPlot): void {
    const { left, top, width, height } = plot.select;
    const { clientWidth, clientHeight } = plot.over;
    if (width < 3 && height < 3) return;
    const of = (from: number, to: number, all: number): Range => [from / Math.max(1, all), to / Math.max(1, all)];
    const dragged: Shares = { x: of(left, left + width, clientWidth), y: of(clientHeight - top - height, clientHeight - top, clientHeight) };
    // What reaches over all of an axis is not of it.
    this.within((axis, [first, last]) => {
      const [from, to] = dragged[axis] ?? [0, 1];
      return to - from < 0.02 ? [first, last] : [first + from * (last - first), first + to * (last - first)];
    });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  /** A chart in the page: what can be pressed at it, and what leads back to the whole. */
  frame(place: HTMLElement, over = () => (place.querySelector('.u-over') ?? place).getBoundingClientRect()): HTMLElement {
    const button = h('button', { type: 'button', class: 'whole', hidden: true, on: { click: () => (this.show({}), place.focus()) } }, 'Show all');
    this.buttons.push(button);
    place.setAttribute('tabindex', '0');
    place.setAttribute('aria-keyshortcuts', '+ - 0 ArrowLeft ArrowRight');
    place.addEventListener('keydown', (event) => this.key(event));
    place.addEventListener('wheel', (event) => this.wheel(over(), event), { passive: false });
    return h('div', { class: 'frame' }, place, button);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const zoomed = Object.keys(this.shares).length > 0;
    const moves: Record<string, [x: number, y: number]> = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
    const move = moves[event.key];
    if (event.key === '+' || event.key === '=') this.by(CLOSER);
    else if (event.key === '-') this.by(1 / CLOSER);
    else if (event.key === '0' || (event.key === 'Escape' && zoomed)) this.show({});
    // The page scrolls where there is nothing to move.
    else if (move && zoomed && (move[1] === 0 || this.axes.y)) this.move({ x: move[0], y: move[1] });
    else return;
    event.preventDefault();
  }

  private wheel(box: DOMRect, event: WheelEvent): void {
    // Without Ctrl it scrolls the page; touchpads tell of two fingers that part as of Ctrl and the wheel.
    if (!event.ctrlKey) return;
    event.preventDefault();
    const share = (at: number, from: number, all: number) => Math.min(1, Math.max(0, (at - from) / Math.max(1, all)));
    this.by(event.deltaY < 0 ? TURN : 1 / TURN, { x: share(event.clientX, box.left, box.width), y: 1 - share(event.clientY, box.top, box.height) });
  }

  private by(factor: number, at = { x: 0.5, y: 0.5 }): void {
    this.within((axis, [first, last]) => {
      const still = first + at[axis] * (last - first);
      const width = Math.min(1, Math.max(CLOSEST, (last - first) * factor));
      return kept(still - at[axis] * width, width);
    });
  }

  private move(by: Record<Axis, number>): void {
    this.within((axis, [first, last]) => kept(first + by[axis] * (last - first), last - first));
  }

  private within(next: (axis: Axis, shown: Range) => Range): void {
    const shares: Shares = {};
    for (const axis of AXES) {
      if (!this.axes[axis]) continue;
      let [first, last] = next(axis, this.shares[axis] ?? [0, 1]);
      if (last - first < CLOSEST) [first, last] = kept((first + last - CLOSEST) / 2, CLOSEST);
      if (last - first < 1 - 1e-9) shares[axis] = [first, last];
    }
    this.show(shares);
  }

  private show(shares: Shares): void {
    this.shares = shares;
    for (const button of this.buttons) button.hidden = Object.keys(shares).length === 0;
    for (const show of this.shown) show();
  }
}

/** A part of the whole, moved so that it lies within. */
function kept(first: number, width: number): Range {
  const from = Math.min(1 - width, Math.max(0, first));
  return [from, from + width];
}

function value({ whole: [first, last], log }: Reach, share: number): number {
  return log ? first * (last / first) ** share : first + share * (last - first);
}
