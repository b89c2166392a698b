// Links within the page: `#view/name/id`. Each names what it leads to, and can be sent to others.

export type Route = [view: string, ...names: string[]];

export function href(...route: string[]): string {
  return `#${route.map(encodeURIComponent).join('/')}`;
}

export function here(): Route {
  const parts = location.hash.replace(/^#/, '').split('/').map(decode);
  return [parts[0] || 'overview', ...parts.slice(1)];
}

/** A link that somebody broke leads to a name that there is not. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
