// What every view is given.

import type { Document, Flow, Id } from './document';
import type { Child } from './dom';
import type { Palette } from './palette';

export interface Page {
  document: Document;
  palette: Palette;
  /** The flows that the page has, by their IDs: those of all domains that they passed. */
  flows: Map<string, Flow>;
}

/** A view: its heading and what it shows, for the names behind it in the link. */
export interface View {
  heading: string;
  content: Child[];
}

export function flowOf(page: Page, of: Id): Flow | undefined {
  return page.flows.get(String(of));
}
