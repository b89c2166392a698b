// What every view of a trace is given.

import type { Flow, TracePage } from './document';
import type { Id } from './value';
import type { Child } from './dom';
import type { Palette } from './palette';

export interface Page {
  document: TracePage;
  palette: Palette;
  /** The flows that the page has, by their IDs: those of all domains that they passed. */
  flows: Map<string, Flow>;
}

/** What leads to a view: what it is called in links and in words, what shows it, and whether it has anything to show. */
export interface Entry {
  name: string;
  told: string;
  show: (...names: string[]) => View;
  has: boolean;
}

/** A view: its heading and what it shows, for the names behind it in the link. */
export interface View {
  heading: string;
  content: Child[];
}

export function flowOf(page: Page, of: Id): Flow | undefined {
  return page.flows.get(String(of));
}
