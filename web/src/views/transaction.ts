// One transaction: who had its time when, what its time was spent on, and who asked and woke whom.

import { legend, shareBar } from '../bars';
import { CLOSER } from '../chart';
import type { Explained, PageTransaction, Part, Step } from '../document';
import { h, svg, type Child } from '../dom';
import { called, placesOf } from '../kind';
import { lanes, type Lane } from '../lanes';
import { count, id, micros, percent, span } from '../number';
import type { Page, View } from '../page';
import { GROUPS, state } from '../palette';
import { href } from '../router';
import { table } from '../table';
import { passage, type Leg } from './passage';
import { sequence } from './sequence';

const NAMES = 190;
const LANE = 22;
/** Objects that have a lane: those with the most time. */
const LANES = 12;

export function transaction(page: Page, kind: Explained, one: PageTransaction): View {
  const order = [...kind.transactions].sort((a, b) => b.total_ns - a.total_ns);
  const at = order.indexOf(one);
  const step = (to: number, told: string) => {
    const next = order[to];
    return next ? h('a', { href: href('why', kind.transaction, id(next.id)) }, told) : h('span', { class: 'soft' }, told);
  };
  const flow = kind.transaction.startsWith('flow') ? page.flows.get(String(one.id)) : undefined;
  const largest = one.parts[0];
  return {
    heading: placesOf(kind.transaction).length > 2 || !one.name ? `${id(one.id)}: ${called(kind.transaction)}` : `${one.name} ${id(one.id)}`,
    content: [
      h(
        'nav',
        { class: 'steps', 'aria-label': 'Transactions of this kind' },
        h('a', { href: href('why', kind.transaction) }, `All of ${called(kind.transaction)}`),
        step(at - 1, 'slower'),
        step(at + 1, 'faster'),
        flow ? h('a', { href: href('flows', id(flow.id)) }, 'The flow, step by step') : null,
      ),
      h(
        'p',
        { class: 'headline' },
        h('b', {}, `${span(one.total_ns)} in ${one.domain}, begun at ${span(one.start_ns)}`),
        largest ? [h('br'), `${percent(largest.ns / Math.max(1, one.total_ns))} of it: ${largest.state}, ${largest.object} (${largest.domain})${largest.why ? `; ${largest.why}` : ''}`] : null,
      ),
      one.steps ? timeline(one, one.steps) : h('p', { class: 'soft' }, `It has too many steps for this page: xweave explain DIR --transaction ${kind.transaction} --id ${id(one.id)} shows them.`),
      places(page, kind, one),
      parts(one),
      one.messages && one.messages.length > 0 ? sequence(one, one.messages) : null,
      one.steps ? steps(one, one.steps) : null,
    ],
  };
}

/** A lane for each object that had the time; they neither overlap nor leave gaps. */
function timeline(one: PageTransaction, all: Step[]): HTMLElement {
  const name = (step: Step) => `${step.object}, ${step.domain}`;
  const sums = new Map<string, number>();
  for (const step of all) sums.set(name(step), (sums.get(name(step)) ?? 0) + step.ns);
  const kept = new Set([...sums].sort((a, b) => b[1] - a[1]).slice(0, LANES).map(([lane]) => lane));
  // In the order in which they have the time first.
  const names = [...sums.keys()].filter((lane) => kept.has(lane));
  if (sums.size > kept.size) names.push(`${count(sums.size - kept.size)} others`);
  const told = (lane: string): Lane => ({ told: lane.length > 26 ? `${lane.slice(0, 25)}…` : lane, title: lane });
  const { figure, x, y, high, add } = lanes(names.map(told), LANE, NAMES, one.start_ns, one.total_ns, `Who had the time: ${names.slice(0, 5).join('; ')}`);
  for (const step of all) {
    const own = names.indexOf(name(step));
    const label = `${span(step.ns)} ${step.state}: ${name(step)}${step.why ? `; ${step.why}` : ''}, from ${micros(step.t_ns - one.start_ns)} µs`;
    add(svg('rect', { x: x(step.t_ns), y: y(own >= 0 ? own : names.length - 1), width: Math.max(0.6, x(step.t_ns + step.ns) - x(step.t_ns)), height: high, class: state(step.state) }, svg('title', {}, label)));
  }
  const states = new Set(all.map((step) => state(step.state)));
  return h('figure', {}, figure, h('p', { class: 'soft' }, CLOSER), legend(Object.entries(GROUPS).filter(([of]) => states.has(of))));
}

/** When it passed which place, if it passed several. */
function places(page: Page, kind: Explained, one: PageTransaction): Child {
  const names = placesOf(kind.transaction);
  const passed = one.points_ns?.map(BigInt) ?? [];
  if (passed.length < 2 || passed.length !== names.length) return null;
  const legs = passed.slice(1).map((ns, at): Leg => {
    const took = Number(ns - (passed[at] ?? ns));
    const share = took / Math.max(1, one.total_ns);
    return { share, told: `${percent(share)}; ${span(took)}`, title: `${names[at]} to ${names[at + 1]}: ${span(took)}` };
  });
  return h('section', {}, h('h3', {}, 'From place to place'), passage(page, names, legs, legs.map((leg) => leg.title).join(', ')));
}

function parts(one: PageTransaction): HTMLElement {
  const all = Math.max(1, one.total_ns);
  return h(
    'section',
    {},
    h('h3', {}, 'What its time was spent on'),
    table<Part>(
      [
        { title: 'Share', class: 'bars', cell: (part) => shareBar(part.ns / all, `bar ${state(part.state)}`), by: (part) => part.ns },
        { title: 'Time', number: true, cell: (part) => span(part.ns), by: (part) => part.ns },
        { title: 'Times', number: true, cell: (part) => count(part.count), by: (part) => part.count },
        { title: 'State', cell: (part) => part.state, by: (part) => part.state },
        { title: 'Object', cell: (part) => part.object, by: (part) => part.object },
        { title: 'Domain', cell: (part) => part.domain, by: (part) => part.domain },
        { title: 'Why', class: 'wide', cell: (part) => part.why ?? '' },
      ],
      one.parts,
      'Parts of the transaction, the largest first',
    ),
  );
}

function steps(one: PageTransaction, all: Step[]): HTMLElement {
  return h(
    'details',
    {},
    h('summary', {}, `Step by step: ${count(all.length)} steps`),
    table<Step>(
      [
        { title: 'Time (µs)', number: true, cell: (step) => micros(step.t_ns - one.start_ns) },
        { title: 'µs', number: true, cell: (step) => micros(step.ns), by: (step) => step.ns },
        { title: 'Domain', cell: (step) => step.domain },
        { title: 'Object', cell: (step) => `${'· '.repeat(Math.min(step.depth, 8))}${step.object}` },
        { title: 'State', cell: (step) => [h('i', { class: `dot ${state(step.state)}` }), step.state] },
        { title: 'Why', class: 'wide', cell: (step): Child => step.why ?? '' },
      ],
      all,
      'Steps of the transaction',
    ),
  );
}
