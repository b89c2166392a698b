// One flow: its way through the domains, every step with where it was made, and what it is a part of.

import { legend } from '../bars';
import { CLOSER } from '../chart';
import type { Flow, Hop } from '../document';
import { h, svg, type Child } from '../dom';
import { ends, lack, path, place, source, total } from '../flow';
import { lanes } from '../lanes';
import { count, counted, id, micros, percent, span } from '../number';
import type { Page } from '../page';
import { GROUPS, state } from '../palette';
import { href } from '../router';

const LANE = 34;
const NAMES = 90;

/** Steps that only say that another object carries the flow from now on. */
const CARRIES = new Set(['move', 'copy', 'split', 'merge']);

export function waterfall(page: Page, flow: Flow): Child[] {
  const bytes = flow.frame?.bytes ? `, ${counted(flow.frame.bytes, 'byte', 'bytes')}` : '';
  const told = `${ends(flow.frame)}${bytes}`.replace(/^, /, '');
  return [
    h(
      'p',
      { class: 'headline' },
      h('b', {}, `${flow.kind}: ${span(total(flow))}`),
      told ? [h('br'), told] : null,
      `; ${counted(flow.crossings, 'crossing', 'crossings')}`,
      lack(flow) ? [h('br'), h('strong', { class: 'bad' }, lack(flow))] : null,
    ),
    ways(page, flow),
    steps(page, flow),
    family(page, flow),
  ];
}

interface Stay {
  domain: string;
  from: number;
  to: number;
}

/** When its path was in which domain; from the last step in one to the first in the next it is on the boundary. */
function stays(flow: Flow): Stay[] {
  const all: Stay[] = [];
  for (const hop of path(flow)) {
    const last = all.at(-1);
    if (last?.domain === hop.domain) last.to = hop.t_ns;
    else all.push({ domain: hop.domain, from: hop.t_ns, to: hop.t_ns });
  }
  return all;
}

/** A lane for each domain, and one for why; slanted lines are the boundary: from when the flow was put on to when it was taken off. */
function ways(page: Page, flow: Flow): Child {
  const all = stays(flow);
  const domains = [...new Set(all.map((stay) => stay.domain))].sort((a, b) => page.palette.order(a) - page.palette.order(b));
  const whole = Math.max(1, total(flow));
  const why = page.document.explained.find((one) => one.transaction.startsWith('flow'))?.transactions.find((one) => String(one.id) === String(flow.id));
  const told = all.map((stay) => `${stay.domain} ${span(stay.to - stay.from)}`).join(', then ');
  const names = [...domains, ...(why?.steps ? ['why'] : [])];
  const { figure, x, y: top, high, add } = lanes(names.map((told) => ({ told })), LANE, NAMES, flow.start_ns, whole, `In ${told}`);
  const y = (domain: string) => top(domains.indexOf(domain));
  all.forEach((stay, at) => {
    const width = Math.max(2, x(stay.to) - x(stay.from));
    const label = `${stay.domain}: ${span(stay.to - stay.from)} (${percent((stay.to - stay.from) / whole)})`;
    add(svg('rect', { x: x(stay.from), y: y(stay.domain), width, height: high, class: page.palette.domain(stay.domain) }, svg('title', {}, label)));
    const next = all[at + 1];
    if (!next) return;
    const down = y(next.domain) > y(stay.domain);
    const [from, to] = [y(stay.domain) + (down ? high : 0), y(next.domain) + (down ? 0 : high)];
    const wait = next.from - stay.to;
    const crossing = `boundary ${stay.domain} → ${next.domain}: ${span(wait)} (${percent(wait / whole)})`;
    // What it is next to is on both sides at once: an area, as wide as it took.
    const points = `${x(stay.to)},${from} ${x(next.from)},${from} ${x(next.from)},${to} ${x(stay.to)},${to}`;
    add(svg('polygon', { points, class: 'gap' }, svg('title', {}, crossing)), svg('line', { x1: x(stay.to), y1: from, x2: x(next.from), y2: to, class: 'crossing' }, svg('title', {}, crossing)));
  });
  for (const hop of path(flow)) {
    add(svg('line', { x1: x(hop.t_ns), x2: x(hop.t_ns), y1: y(hop.domain), y2: y(hop.domain) + high, class: 'hop' }, svg('title', {}, `${place(hop)} ${source(hop)}, ${hop.comm}/${hop.tid}: ${micros(hop.t_ns - flow.start_ns)} µs`)));
  }
  if (why?.steps) {
    for (const step of why.steps) {
      const label = `${step.state}: ${step.object}, ${step.domain}, ${span(step.ns)}${step.why ? `; ${step.why}` : ''}`;
      add(svg('rect', { x: x(step.t_ns), y: top(domains.length), width: Math.max(0.5, x(step.t_ns + step.ns) - x(step.t_ns)), height: high, class: state(step.state) }, svg('title', {}, label)));
    }
  }
  const colours: [string, string][] = [['boundary', 'on the boundary']];
  const states = new Set(why?.steps?.map((step) => state(step.state)));
  for (const [of, told] of Object.entries(GROUPS)) if (states.has(of)) colours.push([of, told]);
  const link = why ? h('p', { class: 'soft' }, h('a', { href: href('why', explainedBy(page), id(flow.id)) }, 'Why it took that long: who had the time, step by step')) : null;
  return h('figure', {}, figure, h('p', { class: 'soft' }, CLOSER), legend(colours), link);
}

function explainedBy(page: Page): string {
  return page.document.explained.find((one) => one.transaction.startsWith('flow'))?.transaction ?? 'flow';
}

/** As `hops::of_path` of crates/report chooses what a flow is told by. */
function ofPath(flow: Flow): Hop[] {
  const all = path(flow);
  const marked = all.some((hop) => hop.kind === 'hop' || hop.kind === 'frame');
  const kept: Hop[] = [];
  all.forEach((hop, at) => {
    const last = kept.at(-1);
    const again = last && last.domain === hop.domain && last.function === hop.function && last.tid === hop.tid && last.kind !== 'xin' && hop.kind !== 'xout';
    if (at === 0 || at === all.length - 1 || !((marked && CARRIES.has(hop.kind)) || again)) kept.push(hop);
  });
  return kept;
}

/** Whether all steps are shown, for as long as the page is open. */
let every = false;

function steps(page: Page, flow: Flow): Child {
  const place = h('div');
  const draw = () => place.replaceChildren(table(page, flow, every ? flow.hops : ofPath(flow)));
  const box = h('input', { type: 'checkbox', id: 'every', on: { change: () => ((every = box.checked), draw()) } });
  box.checked = every;
  draw();
  const beside = flow.hops.length - ofPath(flow).length;
  return h('section', {}, h('h3', {}, 'Step by step'), beside > 0 ? h('p', { class: 'bar-of-controls' }, box, h('label', { for: 'every' }, `Also the ${count(beside)} steps where it was only handed on, or went on beside the path`)) : null, place);
}

function table(page: Page, flow: Flow, hops: Hop[]): HTMLElement {
  const whole = Math.max(1, total(flow));
  const withSource = hops.some((hop) => source(hop) !== '');
  const body = h('tbody');
  let before: Hop | undefined;
  for (const hop of hops) {
    const after = hop.on_path && before ? hop.t_ns - before.t_ns : null;
    const crosses = hop.on_path && before !== undefined && before.domain !== hop.domain;
    const since = hop.t_ns - flow.start_ns;
    const bar = h('span', { class: 'fall' });
    if (after !== null) {
      const from = Math.max(0, (since - after) / whole);
      bar.append(h('i', { class: crosses ? 'boundary' : page.palette.domain(hop.domain), style: { left: `${100 * from}%`, width: `${Math.max(0.2, (100 * after) / whole)}%` } }));
    }
    if (crosses && before) {
      body.append(h('tr', { class: 'crossing' }, h('td', { colspan: withSource ? 8 : 7 }, `${before.domain} → ${hop.domain}: ${span(hop.t_ns - before.t_ns)} on the boundary`)));
    }
    const row = h(
      'tr',
      { class: [hop.on_path ? '' : 'off', page.palette.domain(hop.domain)].join(' ').trim(), title: `site ${hop.site}, ${hop.kind}, CPU ${hop.cpu}${hop.values.length > 0 ? `, stored ${hop.values.join(', ')}` : ''}` },
      h('td', { class: 'n' }, hop.on_path ? micros(since) : `(${micros(since)})`),
      h('td', { class: 'n' }, after === null ? '' : micros(after)),
      h('td', {}, h('i', { class: `dot ${page.palette.domain(hop.domain)}` }), hop.domain),
      h('td', { class: 'code' }, place(hop)),
      withSource ? h('td', { class: 'code' }, source(hop)) : null,
      h('td', {}, hop.kind),
      h('td', {}, `${hop.comm}/${hop.tid}, CPU ${hop.cpu}`),
      h('td', { class: 'falls' }, bar),
    );
    body.append(row);
    if (hop.on_path) before = hop;
  }
  const headings = [['Time (µs)', 'n'], ['+µs', 'n'], ['Domain'], ['Function'], ...(withSource ? [['Source']] : []), ['Kind'], ['Process'], ['', 'falls']];
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Steps' },
    h('table', { class: 'waterfall' }, h('caption', { class: 'hidden' }, 'Steps of the flow'), h('thead', {}, h('tr', {}, headings.map(([title, of]) => h('th', { class: of, scope: 'col' }, title === '' ? h('span', { class: 'hidden' }, 'When') : title)))), body),
  );
}

/** What it was cut off, and what was cut off it or put together of it: of what is in the page. */
function family(page: Page, flow: Flow): Child {
  const own = new Set(flow.locals.map(String));
  const children = [...new Set(page.flows.values())].filter((other) => other !== flow && other.parents.some((parent) => own.has(String(parent))));
  if (flow.parents.length === 0 && children.length === 0) return null;
  const line = (other: Flow | undefined, name: string) => {
    const told = other ? `${other.kind}, ${span(total(other))}` : 'not in this page';
    return h('li', {}, other ? h('a', { href: href('flows', id(other.id)) }, name) : name, ` ${told}`);
  };
  const self = h('li', { 'aria-current': 'true' }, h('b', {}, id(flow.id)), ` ${flow.kind}, this one`, children.length > 0 ? h('ul', {}, children.slice(0, 100).map((child) => line(child, id(child.id)))) : null);
  const parents = flow.parents.slice(0, 100);
  const tree = parents.length > 0 ? h('ul', { class: 'tree' }, parents.map((parent) => line(page.flows.get(String(parent)), id(parent))), h('li', {}, h('ul', {}, self))) : h('ul', { class: 'tree' }, self);
  return h('section', {}, h('h3', {}, 'What it was cut off, and put together to'), tree);
}
