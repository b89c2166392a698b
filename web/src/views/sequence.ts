// A transaction as a sequence diagram: a lifeline for each object, and the basic events of Horikawa's model between them.

import type { Message, PageTransaction } from '../document';
import { h, svg } from '../dom';
import { count, micros } from '../number';

const COLUMN = 150;
const ROW = 20;
const TOP = 44;
const LEFT = 90;

/** Events that are drawn; of more the first. */
const MOST = 160;

export function sequence(one: PageTransaction, all: Message[]): HTMLElement {
  const messages = all.slice(0, MOST);
  const objects: string[] = [];
  const place = (of: [string, string]) => {
    const name = `${of[0]}: ${of[1]}`;
    if (!objects.includes(name)) objects.push(name);
    return objects.indexOf(name);
  };
  const drawn = messages.map((message) => ({ message, from: place(message.from), to: place(message.to) }));
  const [width, height] = [LEFT + objects.length * COLUMN, TOP + messages.length * ROW + 16];
  const x = (object: number) => LEFT + COLUMN / 2 + object * COLUMN;
  const label = `${count(all.length)} basic events between ${objects.slice(0, 6).join('; ')}`;
  const chart = svg('svg', { class: 'sequence', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
  objects.forEach((name, at) => {
    const [domain, object] = split(name);
    chart.append(
      svg('text', { x: x(at), y: 14, class: 'domain' }, cut(domain), svg('title', {}, name)),
      svg('text', { x: x(at), y: 30, class: 'object' }, cut(object), svg('title', {}, name)),
      svg('line', { x1: x(at), x2: x(at), y1: TOP - 8, y2: height - 6, class: 'lifeline' }),
    );
  });
  drawn.forEach(({ message, from, to }, at) => {
    const y = TOP + at * ROW + 8;
    const told = `${message.basic} ${micros(message.t_ns - one.start_ns)} µs`;
    chart.append(svg('text', { x: LEFT - 6, y: y + 4, class: 'time' }, `${micros(message.t_ns - one.start_ns)}`));
    if (from === to) {
      chart.append(svg('circle', { cx: x(from), cy: y, r: 4, class: message.basic.toLowerCase() }, svg('title', {}, told)), svg('text', { x: x(from) + 8, y: y + 4, class: 'note' }, message.basic));
      return;
    }
    const [a, b] = [x(from), x(to)];
    const tip = b > a ? -7 : 7;
    chart.append(
      svg('line', { x1: a, x2: b, y1: y, y2: y, class: message.basic.toLowerCase() }, svg('title', {}, told)),
      svg('polygon', { points: `${b},${y} ${b + tip},${y - 4} ${b + tip},${y + 4}`, class: 'tip' }),
      svg('text', { x: (a + b) / 2, y: y - 3, class: 'told' }, message.basic),
    );
  });
  const more = all.length > messages.length ? ` The first ${count(messages.length)} of ${count(all.length)} are drawn.` : '';
  return h(
    'details',
    { open: all.length <= 60 },
    h('summary', {}, 'Sequence diagram: who asked and woke whom'),
    h('p', { class: 'soft' }, `Times in µs since it began. Request: asks, and waits. Accept: begins. Finish: is done, and the other goes on. Pause, Resume: loses its CPU, has it again.${more}`),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sequence diagram' }, chart),
  );
}

function split(name: string): [string, string] {
  const at = name.indexOf(': ');
  return [name.slice(0, at), name.slice(at + 2)];
}

function cut(text: string): string {
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}
