// What the parts of the document are made of.

/** The first of a list, and how long that is. */
export interface Cut<T> {
  of: number;
  all: T[];
}

/** A number as it is; a string where a browser could not hold it. */
export type Id = string | number;

/** Nanoseconds since the recording began: `load` makes times that. */
export type Time = number;

/** A figure of two runs, or of two groups of transactions. */
export type Pair = [first: number, second: number];
