// Where flows of a kind spend their time: place by place, how the times are distributed, and step by step.

import { distribution } from '../chart';
import { legend, shareBar, stack } from '../bars';
import type { FlowKind, PageFlows, Place, Segment } from '../document';
import { h, type Child } from '../dom';
import { total } from '../flow';
import { count, id, micros, span } from '../number';
import type { Page, View } from '../page';
import { href } from '../router';
import { table } from '../table';

export function placesOf(flows: PageFlows, kind: string): Place[] {
  return flows.places.all.filter((place) => place.kind === kind);
}

/** `bridge`, `ring vm1→host (vhost asleep)`: as the terminal calls it. */
export function called(place: Place): string {
  return place.taker ? `${place.place} (${place.taker})` : place.place;
}

/** Whether it lies between two domains. */
export function crosses(place: Place): boolean {
  return place.place_kind === 'ring' || place.place_kind === 'carrier';
}

/** What lies between two domains has a colour of its own. */
export function placeClass(page: Page, place: Place): string {
  return crosses(place) ? 'boundary' : page.palette.domain(place.domain);
}

export function where(page: Page, name?: string): View {
  const { flows } = page.document;
  if (!flows) return { heading: 'Where the time of flows goes', content: [h('p', {}, 'This trace has no flows.')] };
  const kinds = flows.kinds.all;
  const typical = flows.typical === null ? undefined : page.flows.get(String(flows.typical));
  const kind = kinds.find((one) => one.name === (name ?? (typical && typical.kind))) ?? kinds[0];
  if (!kind) return { heading: 'Where the time of flows goes', content: [h('p', {}, 'No flow was followed.')] };
  return {
    heading: 'Where the time of flows goes',
    content: [choice(kinds, kind), headline(flows, kind), time(page, flows, kind), spread(flows, kind), examples(page, kind), steps(flows, kind), all(flows)],
  };
}

function choice(kinds: FlowKind[], chosen: FlowKind): HTMLElement {
  const select = h(
    'select',
    { id: 'kind', on: { change: (event) => (location.hash = href('where', (event.target as HTMLSelectElement).value)) } },
    kinds.map((kind) => h('option', { value: kind.name, selected: kind === chosen }, `${kind.name} (${count(kind.flows)})`)),
  );
  return h('p', { class: 'bar-of-controls' }, h('label', { for: 'kind' }, 'Kind of flow'), select);
}

function headline(flows: PageFlows, kind: FlowKind): HTMLElement {
  const lines = (flows.headlines[flows.kinds.all.indexOf(kind)] ?? '').split('\n');
  return h('p', { class: 'headline' }, h('b', {}, lines[0] ?? ''), lines.slice(1).map((line) => [h('br'), line]));
}

function time(page: Page, flows: PageFlows, kind: FlowKind): Child {
  const places = placesOf(flows, kind.name);
  if (places.length === 0) return null;
  const pieces = places.map((place) => ({ share: place.share, class: placeClass(page, place), title: `${called(place)}, ${place.domain}` }));
  const domains = [...new Set(places.map((place) => place.domain))];
  return [
    stack(pieces, `Where the time of ${kind.name} went, in order`),
    legend([...domains.map((domain): [string, string] => [page.palette.domain(domain), domain]), ['boundary', 'between domains']]),
    table<Place>(
      [
        { title: 'Domain', cell: (place) => [h('i', { class: `dot ${placeClass(page, place)}` }), place.domain] },
        { title: 'Where', cell: called },
        { title: 'Flows', number: true, cell: (place) => count(place.flows) },
        { title: 'typical (µs)', number: true, cell: (place) => micros(place.p50_ns), by: (place) => place.p50_ns },
        { title: 'p99 (µs)', number: true, cell: (place) => micros(place.p99_ns), by: (place) => place.p99_ns },
        { title: 'max (µs)', number: true, cell: (place) => micros(place.max_ns), by: (place) => place.max_ns },
        { title: 'Share of all time', class: 'bars', cell: (place) => shareBar(place.share, `bar ${placeClass(page, place)}`), by: (place) => place.share },
      ],
      places,
      'Places in the order in which flows come there',
    ),
  ];
}

function spread(flows: PageFlows, kind: FlowKind): Child {
  const bins = flows.distributions.all.find((one) => one.kind === kind.name)?.bins ?? [];
  if (bins.length === 0 || kind.flows < 2) return null;
  const marks: [string, number][] = [['p50', kind.p50_ns], ['p99', kind.p99_ns], ['max', kind.max_ns]];
  return h(
    'section',
    {},
    h('h3', {}, 'How long they took'),
    h('p', { class: 'soft' }, `p50 ${span(kind.p50_ns)}, p99 ${span(kind.p99_ns)}, max ${span(kind.max_ns)}; flows by their time, on a logarithmic scale.`),
    distribution(bins, marks),
  );
}

/** From the figures to the flows behind them. */
function examples(page: Page, kind: FlowKind): Child {
  const flows = [...new Set(page.flows.values())].filter((flow) => flow.kind === kind.name).sort((a, b) => total(b) - total(a));
  if (flows.length === 0) return null;
  const link = (at: number, told: string) => {
    const flow = flows[at];
    return flow && h('li', {}, h('a', { href: href('flows', id(flow.id)) }, `${told}: ${span(total(flow))}`));
  };
  const middle = Math.floor(flows.length / 2);
  return h(
    'section',
    {},
    h('h3', {}, 'Flows of this kind'),
    h('ul', { class: 'links' }, link(0, 'The slowest'), flows.length > 2 ? link(1, 'the next') : null, flows.length > 3 ? link(middle, 'a typical one') : null, flows.length > 1 ? link(flows.length - 1, 'the fastest here') : null),
  );
}

function steps(flows: PageFlows, kind: FlowKind): Child {
  const segments = flows.segments.all.filter((segment) => segment.kind === kind.name);
  if (segments.length === 0) return null;
  const sum = segments.reduce((all, one) => all + (one.main ? Math.max(0, one.p50_ns) : 0), 0);
  return h(
    'section',
    {},
    h('h3', {}, 'Step by step'),
    h('p', { class: 'soft' }, 'Times between consecutive steps; shares are of the sum of the medians on the commonest path. Steps off that path are dimmed.'),
    table<Segment>(
      [
        { title: 'From', class: 'code', cell: (one) => one.from },
        { title: 'To', class: 'code', cell: (one) => one.to },
        { title: 'Count', number: true, cell: (one) => count(one.count) },
        { title: 'p50 (µs)', number: true, cell: (one) => micros(one.p50_ns), by: (one) => one.p50_ns },
        { title: 'p99 (µs)', number: true, cell: (one) => micros(one.p99_ns), by: (one) => one.p99_ns },
        { title: 'max (µs)', number: true, cell: (one) => micros(one.max_ns), by: (one) => one.max_ns },
        { title: 'Share', class: 'bars', cell: (one) => (one.main && sum > 0 ? shareBar(Math.max(0, one.p50_ns) / sum) : null) },
      ],
      segments,
      'Times between steps',
      (one) => (one.main ? '' : 'off'),
    ),
  );
}

function all(flows: PageFlows): HTMLElement {
  const left = flows.kinds.of - flows.kinds.all.length;
  return h(
    'section',
    {},
    h('h3', {}, 'All kinds'),
    table<FlowKind>(
      [
        { title: 'Kind', cell: (kind) => h('a', { href: href('where', kind.name) }, kind.name), by: (kind) => kind.name },
        { title: 'Flows', number: true, cell: (kind) => count(kind.flows), by: (kind) => kind.flows },
        { title: 'Complete', number: true, cell: (kind) => count(kind.complete), by: (kind) => kind.complete },
        { title: 'p50 (µs)', number: true, cell: (kind) => micros(kind.p50_ns), by: (kind) => kind.p50_ns },
        { title: 'p99 (µs)', number: true, cell: (kind) => micros(kind.p99_ns), by: (kind) => kind.p99_ns },
        { title: 'max (µs)', number: true, cell: (kind) => micros(kind.max_ns), by: (kind) => kind.max_ns },
      ],
      flows.kinds.all,
      'All kinds of flow',
    ),
    left > 0 ? h('p', { class: 'soft' }, `${count(left)} other kinds are not in this page: xweave flows --all shows them.`) : null,
  );
}
