// Shares as bars.

import { h } from './dom';
import { percent } from './number';

export interface Piece {
  share: number;
  class: string;
  title: string;
  /** What stands under it, where there is room. */
  label?: string;
}

/** A bar of a share, and the share in words. */
export function shareBar(share: number, of = 'bar'): HTMLElement {
  const fill = h('i', { class: of, style: { width: `${Math.min(100, Math.max(0, 100 * share))}%` } });
  return h('span', { class: 'share' }, h('span', { class: 'track' }, fill), h('span', { class: 'told' }, percent(share)));
}

/** Two bars, of the first run and the second; the longest of all is as wide as there is room. */
export function pairOf(values: [first: number, second: number], most: number): HTMLElement {
  return h('span', { class: 'pair', 'aria-hidden': true }, values.map((value) => h('span', { class: 'track' }, h('i', { style: { width: `${(100 * value) / Math.max(1, most)}%` } }))));
}

/** Pieces side by side; together they take that share of the width. */
export function stack(pieces: Piece[], label: string, width = 1): HTMLElement {
  const inner = pieces
    .filter((piece) => piece.share > 0)
    .map((piece) => h('i', { class: piece.class, title: piece.title, style: { 'flex-grow': String(piece.share) } }));
  return h('span', { class: 'stack', role: 'img', 'aria-label': label, style: { width: `${100 * width}%` } }, inner);
}

/** What stands under the pieces of a bar as wide as the page: those wide enough to be read are named. */
export function labels(pieces: Piece[]): HTMLElement {
  const named = pieces.filter((piece) => piece.share > 0).map((piece) => {
    const text = piece.share >= READABLE ? `${piece.label ?? piece.title} ${percent(piece.share)}` : '';
    return h('span', { class: piece.share < 3 * READABLE ? 'narrow' : undefined, style: { 'flex-grow': String(piece.share) }, title: text || undefined }, text);
  });
  return h('span', { class: 'labels', 'aria-hidden': true }, named);
}

/** A smaller share of the page's width has no room for a name. */
const READABLE = 0.08;

/** What the colours of a chart mean. */
export function legend(entries: [of: string, told: string][]): HTMLElement {
  return h(
    'ul',
    { class: 'legend' },
    entries.map(([of, told]) => h('li', {}, h('i', { class: of }), told)),
  );
}
