// Why requests vary: the part of the document that the view Variation shows.

import type { Cut, Id } from './value';

/** Why requests vary: what `xweave vary --json` prints, with what it says first; the requests as columns. */
export interface Varied {
  transaction: string;
  said: string[];
  requests: number;
  kept: number;
  startup: { requests: number; ns: number; p50_ns: number } | null;
  p50_ns: number;
  p99_ns: number;
  steady: boolean;
  segments: Cut<VariedSegment>;
  causes: Cut<VariedCause>;
  settings: Cut<VariedSetting>;
  each: Each;
}

export interface VariedShares {
  share_of_variance: number;
  variance_bounds: [low: number, high: number];
  share_of_tail: number;
  tail_bounds: [low: number, high: number];
}

export interface VariedSegment extends VariedShares {
  name: string;
  p50_ns: number;
  p99_ns: number;
  if_steady: { p50_ns: number; p99_ns: number; deviation_ns: number };
  others: { p50: number; p99: number; max: number; mean_in_tail: number; mean_typically: number } | null;
}

export interface VariedCause extends VariedShares {
  kind: string;
  cause: string;
  by: string | null;
  offenders: { who: string; ns: number }[];
  requests: number;
  ns: number;
  segment: string | null;
  named: boolean;
  evidence: string[];
  remedy: string | null;
  gain: { remedied: 'gone' | 'steady'; p50_ns: number; p99_ns: number };
  example: Id;
}

export interface VariedSetting {
  what: string;
  domain: string;
  setting: string;
  now: string;
  ns: number;
  requests: number;
  remedy: string;
}

/** Of each `every` requests that follow each other the slowest: their numbers, and what they were, side by side. */
export interface Each {
  every: number;
  number: number[];
  id: Id[];
  total_ns: number[];
  /** Of the segments that vary most, that one first, by their places in the list of all. */
  segments: { segment: number; values: number[] }[];
  /** How many others requests found in those where they found some. */
  others: { segment: number; values: number[] }[];
}
