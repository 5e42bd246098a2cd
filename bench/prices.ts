/** List prices of the paid plan in dollars. docs/costs.md names the source of each. */

export const NOTHING_BILLED = {
  requests: 0,
  objectCalls: 0,
  frames: 0,
  d1Calls: 0,
  rowsRead: 0,
  rowsWritten: 0,
};
export type Meter = Readonly<typeof NOTHING_BILLED>;

/** For a million. A frame is a twentieth of a call. */
export const PRICE = {
  requests: 0.3,
  objectCalls: 0.15,
  frames: 0.15 / 20,
  rowsRead: 0.001,
  rowsWritten: 1,
  r2Writes: 4.5,
  r2Reads: 0.36,
};
const PLAN = 5;
/** For a month. */
const D1_GB = 0.75;
export const R2_GB = 0.015;
/** What the plan includes in a month. */
const INCLUDED = {
  requests: 10e6,
  objectCalls: 1e6,
  rowsRead: 25e9,
  rowsWritten: 50e6,
  r2Writes: 1e6,
  r2Reads: 10e6,
  d1Gb: 5,
  r2Gb: 10,
};

export type Bill = { readonly calls: number; readonly meter: Meter };

/** For a million calls, beyond what is included. */
export function dollarsOf({ calls, meter }: Bill): number {
  const each = (name: keyof Meter) => meter[name] / calls;
  return (
    each("requests") * PRICE.requests +
    each("objectCalls") * PRICE.objectCalls +
    each("frames") * PRICE.frames +
    each("rowsRead") * PRICE.rowsRead +
    each("rowsWritten") * PRICE.rowsWritten
  );
}

/**
 * What is used in a month. `r2Gb` is what the month seals: it stays, and every month adds to it.
 */
export type Month = Readonly<Record<keyof typeof INCLUDED, number>>;

/** What is beyond the plan, and the sum with the plan. */
export function billOf(month: Month) {
  const beyond = (name: keyof Month) => Math.max(0, month[name] - INCLUDED[name]);
  const ofMillions = (name: keyof Month & keyof typeof PRICE) => (beyond(name) / 1e6) * PRICE[name];
  const rows = ofMillions("rowsRead") + ofMillions("rowsWritten");
  const requests = ofMillions("requests") + ofMillions("objectCalls");
  const archive = ofMillions("r2Writes") + ofMillions("r2Reads") + beyond("r2Gb") * R2_GB;
  const storage = archive + beyond("d1Gb") * D1_GB;
  return { rows, requests, storage, sum: PLAN + rows + requests + storage };
}
