// Tables: columns that may be sorted, rows that are made as they are asked for.

import { append, h, type Child } from './dom';
import { count } from './number';

export interface Column<T> {
  title: string;
  /** Numbers stand to the right. */
  number?: boolean;
  class?: string;
  cell: (row: T) => Child;
  /** What the column is sorted by, if it can be. */
  by?: (row: T) => number | string;
}

/** More rows than this are shown when asked for, where nothing else is said. */
const ROWS = 100;

export function table<T>(columns: Column<T>[], rows: T[], label: string, rowClass?: (row: T) => string, first = ROWS): HTMLElement {
  const body = h('tbody');
  const more = h('button', { class: 'more', type: 'button' });
  let shown = first;
  let order = rows;
  const fill = () => {
    body.replaceChildren(...order.slice(0, shown).map((row) => line(columns, row, rowClass?.(row))));
    const left = order.length - shown;
    more.hidden = left <= 0;
    more.textContent = `Show ${count(Math.min(left, 10 * ROWS))} more of ${count(Math.max(left, 0))}`;
  };
  more.addEventListener('click', () => {
    shown += 10 * ROWS;
    fill();
  });
  const headings = columns.map((column) => heading(column));
  headings.forEach((cell, at) => {
    const by = columns[at]?.by;
    if (!by) return;
    cell.firstElementChild?.addEventListener('click', () => {
      // What is most comes first; of names, what comes first.
      const down = cell.getAttribute('aria-sort') !== 'descending' && columns[at]?.number;
      headings.forEach((other) => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      order = [...rows].sort((a, b) => (down ? compare(by(b), by(a)) : compare(by(a), by(b))));
      fill();
    });
  });
  fill();
  const inner = h('table', {}, h('caption', { class: 'hidden' }, label), h('thead', {}, h('tr', {}, headings)), body);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, inner, more);
}

function heading<T>(column: Column<T>): HTMLTableCellElement {
  const title = column.by ? h('button', { type: 'button', title: 'Sort' }, column.title) : column.title;
  // A column of bars, which the one beside it names.
  if (title === '') return h('td', { class: classes(column) }) as HTMLTableCellElement;
  return h('th', { class: classes(column), scope: 'col' }, title);
}

function line<T>(columns: Column<T>[], row: T, rowClass?: string): HTMLTableRowElement {
  const tr = h('tr', { class: rowClass || undefined });
  append(tr, columns.map((column) => h('td', { class: classes(column) }, column.cell(row))));
  return tr;
}

function classes<T>(column: Column<T>): string | undefined {
  return [column.number && 'n', column.class].filter(Boolean).join(' ') || undefined;
}

function compare(a: number | string, b: number | string): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}
