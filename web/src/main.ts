// The page: the document, what leads through it, and the view that the link names.

import type { Flow, TracePage } from './document';
import { append, h } from './dom';
import { load } from './load';
import type { Entry, Page, View } from './page';
import { Palette } from './palette';
import { here, href } from './router';
import './style.css';
import { themeButton } from './theme';
import { compare } from './views/compare';
import { costs } from './views/cost';
import { flows } from './views/flows';
import { overview } from './views/overview';
import { usage } from './views/usage';
import { variation } from './views/variation';
import { where } from './views/where';
import { who } from './views/who';
import { why } from './views/why';

const VIEWS: [name: string, told: string, show: (page: Page, ...names: string[]) => View, has: (of: TracePage) => boolean][] = [
  ['overview', 'Overview', overview, () => true],
  ['flows', 'Flows', flows, (of) => of.flows !== null],
  ['where', 'Where', where, (of) => of.flows !== null],
  ['why', 'Why', why, (of) => of.explained.length > 0],
  ['variation', 'Variation', variation, (of) => of.variation !== null],
  ['who', 'Who', who, (of) => of.machines !== null],
  ['usage', 'Use over time', usage, (of) => of.usage !== null],
  ['compare', 'Compare', compare, (of) => of.comparison !== null],
];

/** The views of a trace. */
function entries(loaded: TracePage): Entry[] {
  const flows = new Map<string, Flow>();
  for (const flow of loaded.flows?.flows ?? []) for (const own of [...flow.locals, flow.id]) flows.set(String(own), flow);
  const page: Page = { document: loaded, palette: new Palette(loaded.recording.domains.all.map((one) => one.name)), flows };
  return VIEWS.map(([name, told, show, has]): Entry => ({ name, told, show: (...names) => show(page, ...names), has: has(loaded) }));
}

function start(): void {
  const loaded = load();
  const views = 'cost' in loaded ? costs(loaded) : entries(loaded);
  const main = h('main', { id: 'main', tabindex: -1 });
  const links = new Map(views.filter(({ has }) => has).map(({ name, told }) => [name, h('a', { href: href(name) }, told)]));
  const header = h('header', {}, h('a', { class: 'skip', href: '#main', on: { click: skip } }, 'Skip to content'), h('nav', { 'aria-label': 'Views' }, [...links.values()]), themeButton());
  document.getElementById('page')?.replaceChildren(header, main);

  const show = (moved: boolean) => {
    const [name, ...names] = here();
    const view = views.find((one) => one.name === name) ?? views[0];
    if (!view) return;
    for (const [own, link] of links) {
      if (own === view.name) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    const shown = view.show(...names);
    const heading = h('h1', { tabindex: -1 }, shown.heading);
    main.replaceChildren(heading);
    append(main, shown.content);
    document.title = view === views[0] ? loaded.title : `${shown.heading} · ${loaded.title}`;
    scrollTo(0, 0);
    // Who reads with ears is told of the new view.
    if (moved) heading.focus({ preventScroll: true });
  };
  addEventListener('hashchange', () => show(true));
  addEventListener('keydown', (event) => keys(event, links));
  show(false);

  function skip(event: Event): void {
    event.preventDefault();
    main.focus();
  }
}

/** `/` searches, and digits lead to the views: for who does not want to leave the keyboard. */
function keys(event: KeyboardEvent, links: Map<string, HTMLAnchorElement>): void {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    event.preventDefault();
    const search = document.getElementById('search');
    if (search) search.focus();
    else if (links.has('flows')) {
      location.hash = href('flows');
      requestAnimationFrame(() => document.getElementById('search')?.focus());
    }
  } else if (/^[1-9]$/.test(event.key)) {
    [...links.values()][Number(event.key) - 1]?.click();
  }
}

start();
