// What instructions cost: the groups by their medians, what is marked, and every figure.

import type { CostEnvironment, CostGroup, CostPage, CostRow, PageCost } from '../document';
import { h, type Child } from '../dom';
import { count, counted } from '../number';
import type { Entry, View } from '../page';
import { href } from '../router';
import { table, type Column } from '../table';

/** Why a figure is impossible, as the terminal says it. */
const MEANING = 'it took no time (emulators leave out what has no effect), or a guest is faster than the machine under it';

/** What a table of figures has a row for. */
type Row = CostGroup | CostRow;

export function costs({ cost, title }: CostPage): Entry[] {
  return [
    { name: 'groups', told: 'Groups', show: () => groups(cost, title), has: true },
    { name: 'marked', told: 'Marked', show: () => marked(cost), has: cost.marked + cost.impossible > 0 },
    { name: 'figures', told: 'All figures', show: (group) => figures(cost, group), has: true },
  ];
}

function groups(cost: PageCost, title: string): View {
  const { environments, microarchitecture, processor, rows } = cost;
  return {
    heading: title,
    content: [
      h('p', { class: 'recorded' }, h('b', {}, processor), ` ${microarchitecture.name} (${microarchitecture.certainty})`, environments.all.map(measured)),
      h('p', { class: 'headline' }, compared(cost).map((line, at) => [at > 0 ? h('br') : '', h('b', {}, line)])),
      h('p', { class: 'soft' }, `Core cycles for one instruction, and ratios; medians of ${counted(rows.of, 'figure', 'figures')} by group. A bar that is full is the largest ratio here, on a logarithmic scale.`),
      table<CostGroup>(
        [
          { title: 'Group', cell: (one) => h('a', { href: href('figures', one.group) }, one.group), by: (one) => one.group },
          { title: 'Kind', cell: (one) => one.kind, by: (one) => one.kind },
          { title: 'Figures', number: true, cell: (one) => count(one.figures), by: (one) => one.figures },
          ...cycles<CostGroup>(cost),
          ...ratios<CostGroup>(cost, cost.groups.all),
          { title: 'Marked', number: true, cell: (one) => (one.marked > 0 ? count(one.marked) : ''), by: (one) => one.marked },
        ],
        dearest(cost),
        'Medians of the groups, what costs most beside the machine under it first',
      ),
      rest(cost.groups.of - cost.groups.all.length, 'groups'),
    ],
  };
}

/** How an environment was measured, or why it was not. */
function measured(one: CostEnvironment): Child {
  if (one.error !== null) return [h('br'), h('strong', { class: 'bad' }, `${one.name}: ${one.error}`)];
  return [
    h('br'),
    h('b', {}, one.name),
    ` ${one.how ?? ''}`,
    one.emulated ? '; emulated: its times are not those of a CPU' : '',
    one.abort_reason === null ? '' : h('strong', { class: 'bad' }, `; not measured to the end: ${one.abort_reason}`),
  ];
}

/** What is within a tenth of 1 costs the same. */
const SAME = 0.1;

/** Of each environment how many groups cost there what they cost in the machine under it, and which costs most. */
function compared(cost: PageCost): string[] {
  const all = relative(cost).flatMap(({ name, base }) => {
    const groups = cost.groups.all.flatMap((group) => ({ group, ratio: of(group.ratio, name) ?? 0 })).filter(({ ratio }) => ratio > 0);
    const most = groups.reduce<(typeof groups)[number] | undefined>((most, one) => (most && most.ratio >= one.ratio ? most : one), undefined);
    if (!most) return [];
    const same = groups.filter(({ ratio }) => Math.abs(ratio - 1) <= SAME).length;
    const { group, ratio } = most;
    return `${name}: ${count(same)} of ${counted(groups.length, 'group', 'groups')} cost what they cost in ${base ?? ''}; ${group.group} (${group.kind}) costs most, ${ratio.toFixed(2)} times as much`;
  });
  return all.length > 0 ? all : [`${counted(cost.rows.of, 'figure', 'figures')} of ${counted(cost.environments.of, 'environment', 'environments')}`];
}

/** What costs most beside the machine under it first. */
function dearest(cost: PageCost): CostGroup[] {
  const most = new Map(cost.groups.all.map((group) => [group, Math.max(0, ...relative(cost).map(({ name }) => of(group.ratio, name) ?? 0))]));
  return [...cost.groups.all].sort((a, b) => (most.get(b) ?? 0) - (most.get(a) ?? 0));
}

function marked(cost: PageCost): View {
  const [impossible, other] = [(row: CostRow) => row.impossible.length > 0, (row: CostRow) => row.unexpected.length + row.contradicted.length > 0];
  const all = cost.rows.all;
  return {
    heading: 'Figures to look at',
    content: [
      section(cost, `${counted(cost.marked, 'figure', 'figures')} marked !`, 'Far from what was to be expected, or counted otherwise than they cost.', all.filter((row) => other(row) && !impossible(row))),
      section(cost, `${counted(cost.impossible, 'figure', 'figures')} marked !!`, `Impossible, and in no median: ${MEANING}.`, all.filter(impossible)),
    ],
  };
}

function section(cost: PageCost, title: string, why: string, rows: CostRow[]): Child {
  return rows.length === 0 ? null : h('section', {}, h('h3', {}, title), h('p', { class: 'soft' }, why), every(cost, rows, title));
}

function figures(cost: PageCost, group?: string): View {
  const names = [...new Set(cost.groups.all.map((one) => one.group))];
  const rows = cost.rows.all.filter((row) => group === undefined || row.group === group);
  const link = (to: string[], told: string, current: boolean) => h('a', { href: href('figures', ...to), 'aria-current': current ? 'page' : undefined }, told);
  return {
    heading: group === undefined ? 'All figures' : `Figures of ${group}`,
    content: [
      h('nav', { class: 'tabs', 'aria-label': 'Groups' }, link([], 'all', group === undefined), names.map((name) => link([name], name, name === group))),
      rows.length === 0 ? h('p', { class: 'nothing', role: 'alert' }, `There is no group ${group ?? ''}.`) : every(cost, rows, 'Figures'),
      rest(cost.rows.of - cost.rows.all.length, 'figures'),
    ],
  };
}

function rest(left: number, what: string): Child {
  return left > 0 ? h('p', { class: 'soft' }, `${count(left)} other ${what} are not in this page: xweave cost --all lists them.`) : null;
}

function every(cost: PageCost, rows: CostRow[], label: string): HTMLElement {
  const acted = rows.some((row) => Object.keys(row.hypervisor_action).length > 0);
  const actions = (row: CostRow) => Object.entries(row.hypervisor_action).map(([name, did]) => `${name}: ${did}`).join('; ');
  return table<CostRow>(
    [
      { title: 'Group', cell: (row) => row.group, by: (row) => row.group },
      { title: 'Instruction', class: 'code', cell: (row) => row.name, by: (row) => row.name },
      { title: 'Kind', cell: (row) => row.kind, by: (row) => row.kind },
      ...cycles<CostRow>(cost),
      ...ratios<CostRow>(cost, rows),
      ...(acted ? [{ title: 'What the hypervisor did', class: 'wide', cell: actions }] : []),
    ],
    rows,
    label,
  );
}

/** What is said of an environment: names are anybody's, and may be those of what every object has. */
function of<T>(all: Record<string, T> | undefined, name: string): T | undefined {
  return all !== undefined && Object.hasOwn(all, name) ? all[name] : undefined;
}

/** Those that were measured. */
function those(cost: PageCost): CostEnvironment[] {
  return cost.environments.all.filter((one) => one.error === null);
}

/** Those under which another machine was measured, too. */
function relative(cost: PageCost): CostEnvironment[] {
  const names = new Set(those(cost).map((one) => one.name));
  return those(cost).filter((one) => one.base !== null && one.base !== one.name && names.has(one.base));
}

function cycles<T extends Row>(cost: PageCost): Column<T>[] {
  return those(cost).map(({ name }) => ({
    title: name,
    number: true,
    cell: (row: T) => {
      const figure = of(row.cycles, name);
      const { impossible, note } = row as Partial<CostRow>;
      if (figure === undefined) return h('span', { class: 'soft' }, of(note, name) ?? '–');
      return `${figure.toFixed(2)}${impossible?.includes(name) ? ' !!' : ''}`;
    },
    by: (row: T) => of(row.cycles, name) ?? -1,
  }));
}

/** Ratios, with a bar on a logarithmic scale from 1 to the largest; that of what is faster is empty. */
function ratios<T extends Row>(cost: PageCost, rows: T[]): Column<T>[] {
  const most = Math.max(2, ...relative(cost).flatMap(({ name }) => rows.map((row) => of(row.ratio, name) ?? 0)));
  return relative(cost).map(({ name, base }) => ({
    title: `${name}/${base ?? ''}`,
    number: true,
    class: 'bars',
    cell: (row: T) => {
      const ratio = of(row.ratio, name);
      if (ratio === undefined) return null;
      const { unexpected, contradicted } = row as Partial<CostRow>;
      const mark = unexpected?.includes(name) || contradicted?.includes(name);
      const width = Math.min(1, Math.max(0, Math.log(ratio) / Math.log(most)));
      const bar = h('i', { class: mark ? 'second' : 'first', style: { width: `${100 * width}%` } });
      return h('span', { class: 'share' }, h('span', { class: 'track', 'aria-hidden': true }, bar), h('span', { class: 'told ratio' }, `${ratio.toFixed(ratio < 10 ? 3 : 1)}${mark ? ' !' : ''}`));
    },
    by: (row: T) => of(row.ratio, name) ?? -1,
  }));
}
