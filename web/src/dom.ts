// Elements, made of text nodes and attributes only: what a guest calls a process is never anything but text.

export type Child = Node | string | number | null | undefined | false | Child[];

interface Attributes {
  class?: string | undefined;
  title?: string | undefined;
  href?: string;
  on?: Record<string, (event: Event) => void>;
  /** Set by the object model, which the policy of the page allows; in attributes it does not. */
  style?: Record<string, string>;
  [attribute: string]: unknown;
}

function dress(element: Element & ElementCSSInlineStyle, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') {
      for (const [event, does] of Object.entries(value as Attributes['on'] & object)) element.addEventListener(event, does);
    } else if (name === 'style') {
      for (const [property, to] of Object.entries(value as Record<string, string>)) element.style.setProperty(property, to);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
}

export function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (typeof child === 'string' || typeof child === 'number') element.append(String(child));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  dress(element, attributes, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  dress(element, attributes, children);
  return element;
}

/** Text of which the ends of names may be broken anywhere but whose words stay whole. */
export function code(text: string): HTMLElement {
  return h('code', {}, text);
}
