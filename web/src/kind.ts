// Kinds of transactions, as `--transaction` writes them.

import { count } from './number';

/** The places that transactions pass in turn, if that is what they are. */
export function placesOf(transaction: string): string[] {
  const places = /^between:(.*?)(,by=[^,]*)?$/.exec(transaction)?.[1];
  return places === undefined ? [] : places.split('..');
}

/** Short enough for a heading: of several places the first and the last. */
export function called(transaction: string): string {
  const places = placesOf(transaction);
  return places.length < 3 ? transaction : `${places[0]} to ${places.at(-1)}, ${count(places.length)} points`;
}

/** `accept@vm2`: what happens, and in which domain, if that is said. */
export function split(place: string): [what: string, domain: string | undefined] {
  const at = place.lastIndexOf('@');
  return at < 0 ? [place, undefined] : [place.slice(0, at), place.slice(at + 1)];
}
