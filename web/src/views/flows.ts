// The flows, and the requests and answers that they carried: to be searched, filtered and looked at one by one.

import { shareBar, stack } from '../bars';
import type { Flow, NumberedExchange } from '../document';
import { h, type Child } from '../dom';
import { ends, lack, total, way } from '../flow';
import { count, counted, id, micros, span } from '../number';
import type { Page, View } from '../page';
import { href } from '../router';
import { table } from '../table';
import { waterfall } from './waterfall';

/** What the list shows, for as long as the page is open. */
const filter = { text: '', kind: '', whole: 'all' };

export function flows(page: Page, name?: string): View {
  const { flows } = page.document;
  if (!flows) return { heading: 'Flows', content: [h('p', {}, 'This trace has no flows.')] };
  const shown = [...new Set(page.flows.values())];
  if (name !== undefined) {
    const flow = shown.find((one) => [one.id, ...one.locals].some((own) => id(own) === name || String(own) === name));
    if (flow) return one(page, shown, flow);
    const told = `Flow ${name} is not in this page, which has ${count(shown.length)} of ${count(flows.summary.flows)} flows. `;
    return {
      heading: 'Flows',
      content: [h('p', { class: 'nothing', role: 'alert' }, told, h('code', {}, `xweave flows DIR --flow ${name}`), ' shows it.'), ...list(page, shown)],
    };
  }
  return { heading: 'Flows', content: [...requests(page), ...list(page, shown)] };
}

function one(page: Page, shown: Flow[], flow: Flow): View {
  const order = [...shown].filter((other) => other.kind === flow.kind).sort((a, b) => total(b) - total(a));
  const at = order.indexOf(flow);
  const step = (to: number, told: string) => {
    const next = order[to];
    return next ? h('a', { href: href('flows', id(next.id)) }, told) : h('span', { class: 'soft' }, told);
  };
  const steps = h(
    'nav',
    { class: 'steps', 'aria-label': 'Flows of this kind' },
    h('a', { href: href('flows') }, 'All flows'),
    step(at - 1, 'slower'),
    step(at + 1, 'faster'),
    h('span', { class: 'soft' }, `${flow.kind}: ${at === 0 ? 'the slowest' : `number ${count(at + 1)} by time`} of ${count(order.length)} in this page`),
  );
  return { heading: `Flow ${id(flow.id)}`, content: [steps, ...waterfall(page, flow)] };
}

function requests(page: Page): Child[] {
  const exchanges = page.document.flows?.exchanges;
  if (!exchanges || exchanges.of === 0) return [];
  const longest = Math.max(1, ...exchanges.all.map((one) => one.end_ns - one.start_ns));
  const first = (one: NumberedExchange) => [...one.request.flows, ...one.answer.flows].find((flow) => page.flows.has(String(flow)));
  const link = (one: NumberedExchange): Child => {
    const told = `${one.connection.client} → ${one.connection.server}`;
    const flow = first(one);
    return flow === undefined ? told : h('a', { href: href('flows', id(flow)) }, told);
  };
  const parts = (one: NumberedExchange) => {
    const all = Math.max(1, one.end_ns - one.start_ns);
    const pieces = one.parts.map((part) => ({ share: part.ns / all, class: partClass(page, part), title: `${part.name}: ${span(part.ns)}` }));
    const label = one.parts.map((part) => `${part.name} ${span(part.ns)}`).join(', ');
    return stack(pieces, label, all / longest);
  };
  const total = (one: NumberedExchange) => one.end_ns - one.start_ns;
  return [
    h('h3', {}, `Requests and their answers: ${count(exchanges.of)}`),
    h('p', { class: 'soft' }, 'Colours are domains; what is between two of them is hatched. The link leads to the first flow of the request.', exchanges.of > exchanges.all.length ? ` ${count(exchanges.all.length)} are in this page: the slowest, and others at even shares.` : ''),
    table<NumberedExchange>(
      [
        { title: 'Began', number: true, cell: (one) => span(one.start_ns), by: (one) => one.start_ns },
        { title: '', cell: (one) => one.connection.protocol },
        { title: 'Connection', cell: link, by: (one) => one.connection.server },
        { title: 'From', cell: (one) => one.client_domain },
        { title: 'To', cell: (one) => one.server_domain },
        { title: 'Asked', number: true, cell: (one) => `${count(one.request.bytes)} B`, by: (one) => one.request.bytes },
        { title: 'Answered', number: true, cell: (one) => `${count(one.answer.bytes)} B`, by: (one) => one.answer.bytes },
        { title: 'Time', number: true, cell: (one) => span(total(one)), by: total },
        { title: 'Where it went', class: 'stacks', cell: parts },
      ],
      [...exchanges.all].sort((a, b) => total(b) - total(a)),
      'Requests and their answers',
    ),
  ];
}

/** `server in vm1` is the domain's; `request, vm1 → host` lies between. */
function partClass(page: Page, part: NumberedExchange['parts'][number]): string {
  return part.domain !== null ? page.palette.domain(part.domain) : part.crosses ? 'boundary' : 'idle';
}

function list(page: Page, shown: Flow[]): Child[] {
  const kinds = [...new Set(shown.map((flow) => flow.kind))].sort();
  const place = h('div');
  const told = h('p', { class: 'soft', role: 'status' });
  const longest = Math.max(1, ...shown.map(total));
  const draw = () => {
    const found = shown.filter(matches).sort((a, b) => total(b) - total(a));
    const all = page.document.flows?.summary.flows ?? shown.length;
    const choice = all > shown.length ? ` (the page has ${count(shown.length)} of ${counted(all, 'flow', 'flows')}: of each kind the slowest, and others at even shares)` : '';
    told.textContent = `${counted(found.length, 'flow', 'flows')}${found.length < shown.length ? ` of ${count(shown.length)}` : ''}${choice}`;
    place.replaceChildren(rows(page, found, longest));
  };
  const control = (control: HTMLInputElement | HTMLSelectElement, of: keyof typeof filter) => {
    control.value = filter[of];
    control.addEventListener('input', () => {
      filter[of] = control.value;
      draw();
    });
    return control;
  };
  const search = control(h('input', { type: 'search', id: 'search', placeholder: 'function, process, address, ID', autocomplete: 'off' }), 'text');
  const of = control(h('select', { id: 'of' }, h('option', { value: '' }, 'all kinds'), kinds.map((name) => h('option', { value: name }, name))), 'kind');
  const whole = control(
    h('select', { id: 'whole' }, h('option', { value: 'all' }, 'all'), h('option', { value: 'crossed' }, 'that crossed a boundary'), h('option', { value: 'incomplete' }, 'incomplete or dropped')),
    'whole',
  );
  draw();
  return [
    h('h3', {}, 'Flows'),
    h('form', { class: 'bar-of-controls', role: 'search', on: { submit: (event) => event.preventDefault() } }, h('label', { for: 'search' }, 'Search'), search, h('label', { for: 'of' }, 'Kind'), of, h('label', { for: 'whole' }, 'Only'), whole),
    told,
    place,
  ];
}

function matches(flow: Flow): boolean {
  if (filter.kind && flow.kind !== filter.kind) return false;
  if (filter.whole === 'crossed' && flow.crossings === 0) return false;
  if (filter.whole === 'incomplete' && flow.complete && !flow.dropped) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0 || words.every((word) => text(flow).includes(word));
}

const texts = new WeakMap<Flow, string>();

/** All that may be searched for in a flow. */
function text(flow: Flow): string {
  let found = texts.get(flow);
  if (found === undefined) {
    const hops = flow.hops.map((hop) => `${hop.function} ${hop.comm}/${hop.tid} ${hop.file ?? ''} ${hop.domain}`);
    found = [id(flow.id), ...flow.locals.map(id), flow.kind, ends(flow.frame), lack(flow), ...hops].join(' ').toLowerCase();
    texts.set(flow, found);
  }
  return found;
}

function rows(page: Page, found: Flow[], longest: number): HTMLElement {
  return table<Flow>(
    [
      { title: 'Flow', class: 'code', cell: (flow) => h('a', { href: href('flows', id(flow.id)) }, id(flow.id)) },
      { title: 'Kind', cell: (flow) => flow.kind, by: (flow) => flow.kind },
      { title: 'From → to', cell: (flow) => ends(flow.frame), by: (flow) => ends(flow.frame) },
      { title: 'Way', cell: (flow) => way(flow).map((domain, at) => [at > 0 ? ' → ' : '', h('i', { class: `dot ${page.palette.domain(domain)}` }), domain]) },
      { title: 'Began', number: true, cell: (flow) => span(flow.start_ns), by: (flow) => flow.start_ns },
      { title: 'Time (µs)', number: true, cell: (flow) => micros(total(flow)), by: total },
      { title: '', class: 'bars', cell: (flow) => shareBar(total(flow) / longest).firstElementChild as HTMLElement },
      { title: 'State', cell: (flow) => (flow.complete ? '' : h('span', { class: 'bad' }, lack(flow))) },
    ],
    found,
    'Flows, the slowest first',
  );
}
