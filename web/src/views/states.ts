// The states of a domain's threads, and how often they went from one to another: a diagram.

import type { States } from '../document';
import { h, svg } from '../dom';
import { count, span } from '../number';

const [WIDTH, HEIGHT, ACROSS, DOWN] = [640, 250, 150, 48];
/** The left upper corners of the boxes. */
const PLACES = { ready: [40, 30], running: [450, 30], waiting: [245, 180] } as const;
type Place = keyof typeof PLACES;

export function states(of: States, domain: string): HTMLElement {
  const told = `threads of ${domain}: dispatched ${count(of.dispatched)} times, preempted ${count(of.preempted)}, blocked ${count(of.blocked)}, woken ${count(of.woken)}`;
  const chart = svg('svg', { class: 'states', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: 'img', 'aria-label': told });
  const box = (name: Place, ns: number) => {
    const [x, y] = PLACES[name];
    chart.append(
      svg('rect', { x, y, width: ACROSS, height: DOWN, rx: 6, class: name }),
      svg('text', { x: x + ACROSS / 2, y: y + 20, class: 'name' }, name),
      svg('text', { x: x + ACROSS / 2, y: y + 38, class: 'time' }, span(ns)),
    );
  };
  const arrow = (from: [number, number], to: [number, number], text: string, at: [number, number]) => {
    const angle = (Math.atan2(to[1] - from[1], to[0] - from[0]) * 180) / Math.PI;
    chart.append(
      svg('line', { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }),
      svg('polygon', { points: '0,0 -8,-4 -8,4', transform: `translate(${to[0]} ${to[1]}) rotate(${angle})`, class: 'tip' }),
      svg('text', { x: at[0], y: at[1], class: 'told' }, text),
    );
  };
  arrow([190, 44], [450, 44], `dispatched ${count(of.dispatched)}`, [320, 38]);
  arrow([450, 64], [190, 64], `preempted ${count(of.preempted)}`, [320, 80]);
  arrow([525, 78], [380, 180], `blocked ${count(of.blocked)}`, [515, 150]);
  arrow([260, 180], [115, 78], `woken ${count(of.woken)}`, [125, 150]);
  arrow([115, 4], [115, 30], `began ${count(of.began)}`, [180, 20]);
  arrow([525, 30], [525, 4], `ended ${count(of.ended)}`, [590, 20]);
  box('ready', of.ready_ns);
  box('running', of.running_ns);
  box('waiting', of.waiting_ns);
  return h(
    'section',
    {},
    h('h3', {}, 'What threads did'),
    h('p', { class: 'soft' }, 'How long all threads together were in each state, and how often they went from one to another. Waiting: for a disk, the network, a lock, a timer or another thread, until they were woken.'),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `States of the threads of ${domain}` }, chart),
  );
}
