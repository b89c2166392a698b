// The way of transactions from place to place, as a diagram: a lifeline for each domain, the places in turn, and beside
// each interval how long it takes.

import { h, svg } from '../dom';
import { split } from '../kind';
import type { Page } from '../page';

const [TOP, ROW, BETWEEN, NAMES, BAR, TOLD] = [40, 46, 210, 190, 170, 250];

/** From one place to the next: its share of the whole, how long it takes, and what more is to be known on pointing at it. */
export interface Leg {
  share: number;
  told: string;
  title: string;
}

/** There is one leg less than there are places. */
export function passage(page: Page, places: string[], legs: Leg[], label: string): HTMLElement {
  const points = places.map(split);
  const order = (domain: string) => page.palette.order(domain);
  const domains = [...new Set(points.map(([, domain]) => domain ?? ''))].sort((a, b) => order(a) - order(b));
  const x = (domain: string | undefined) => NAMES + domains.indexOf(domain ?? '') * BETWEEN;
  const y = (at: number) => TOP + 18 + at * ROW;
  const right = NAMES + (domains.length - 1) * BETWEEN + (domains.length > 1 ? NAMES : 40);
  const [width, height] = [right + BAR + TOLD, y(places.length - 1) + 26];
  const chart = svg('svg', { class: 'passage', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
  for (const domain of domains) {
    chart.append(svg('text', { x: x(domain), y: 16, class: 'domain' }, domain || 'in any domain'), svg('line', { x1: x(domain), x2: x(domain), y1: 24, y2: height - 6, class: 'lifeline' }));
  }
  const most = legs.reduce((most, leg, at) => (leg.share > (legs[most]?.share ?? 0) ? at : most), 0);
  legs.forEach((leg, at) => {
    const [from, to] = [x(points[at]?.[1]), x(points[at + 1]?.[1])];
    const of = at === most ? 'leg most' : 'leg';
    const title = svg('title', {}, leg.title);
    if (from === to) chart.append(svg('line', { x1: from, x2: to, y1: y(at), y2: y(at + 1), class: `${of} stays` }, title));
    else {
      const angle = (Math.atan2(ROW, to - from) * 180) / Math.PI;
      chart.append(svg('line', { x1: from, x2: to, y1: y(at), y2: y(at + 1), class: of }, title), svg('polygon', { points: '-5,0 -14,-5 -14,5', transform: `translate(${to} ${y(at + 1)}) rotate(${angle})`, class: at === most ? 'tip most' : 'tip' }));
    }
    const middle = (y(at) + y(at + 1)) / 2;
    chart.append(
      svg('rect', { x: right, y: middle - 7, width: BAR - 12, height: 14, class: 'track' }),
      svg('rect', { x: right, y: middle - 7, width: Math.max(1, (BAR - 12) * Math.min(1, leg.share)), height: 14, class: at === most ? 'bar most' : 'bar' }, svg('title', {}, leg.title)),
      svg('text', { x: right + BAR, y: middle + 4, class: 'told' }, leg.told),
    );
  });
  points.forEach(([what, domain], at) => {
    const first = domains.indexOf(domain ?? '') === 0;
    chart.append(
      svg('circle', { cx: x(domain), cy: y(at), r: 5, class: page.palette.domain(domain ?? '') }),
      svg('text', { x: x(domain) + (first ? -12 : 12), y: y(at) + 4, class: first ? 'place before' : 'place' }, cut(what), svg('title', {}, places[at] ?? '')),
    );
  });
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'From place to place' }, chart);
}

function cut(text: string): string {
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}
