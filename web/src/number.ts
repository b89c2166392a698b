// Times, counts and sizes as the terminal's tables write them: crates/report/src/number.rs.

import type { Id } from './value';

/** Nanoseconds as microseconds, thousands apart: `1 234.5`. */
export function micros(ns: number): string {
  const tenths = Math.floor((Math.abs(ns) + 50) / 100);
  const sign = ns < 0 && tenths > 0 ? '-' : '';
  return `${sign}${count(Math.floor(tenths / 10))}.${tenths % 10}`;
}

/** A count, its thousands apart: `1 234 567`. */
export function count(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, '\u00a0');
}

/** A count and what it counts: `1 flow`, `2 flows`. */
export function counted(n: number, one: string, many: string): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share: `42 %`. */
export function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

/** A time: `850 ns`, `12.3 µs`, `4.56 ms`, `54.560 s`. */
export function span(ns: number): string {
  const sign = ns < 0 ? '-' : '';
  const n = Math.abs(ns);
  if (n < 1e3) return `${sign}${Math.round(n)} ns`;
  if (n < 1e6) return `${sign}${(n / 1e3).toFixed(1)} µs`;
  if (n < 1e9) return `${sign}${(n / 1e6).toFixed(2)} ms`;
  return `${sign}${(n / 1e9).toFixed(3)} s`;
}

/** A time on an axis: as short as it can be told apart from those a step away. */
export function tick(ns: number, step = 0): string {
  const [unit, scale] = ns < 1e3 ? ['ns', 1] : ns < 1e6 ? ['µs', 1e3] : ns < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  const digits = step > 0 && step < ns ? Math.min(15, Math.max(4, Math.ceil(Math.log10(ns / step)) + 2)) : 4;
  return ns === 0 ? '0' : `${Number((ns / (scale as number)).toPrecision(digits))} ${unit}`;
}

/** Bytes in the unit that suits them: `512 B`, `4.9 KiB`. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 'B';
  for (const next of ['KiB', 'MiB', 'GiB', 'TiB']) {
    if (value < 1024) break;
    [value, unit] = [value / 1024, next];
  }
  return unit === 'B' || value >= 9.95 ? `${value.toFixed(0)} ${unit}` : `${value.toFixed(1)} ${unit}`;
}

/** An ID as the terminal has it: `0x200000000000001`; small ones, which are numbers of transactions, in decimal. */
export function id(of: Id): string {
  const value = BigInt(of);
  return value < 1n << 32n ? String(value) : `0x${value.toString(16)}`;
}

/** The time of the day of nanoseconds since 1970, in UTC. */
export function date(ns: string): string {
  const ms = Number(BigInt(ns) / 1_000_000n);
  return ms > 0 ? `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC` : '';
}
