/** A timestamp on the wire: RFC 3339, UTC, with milliseconds. D1 stores Unix milliseconds. */
export function toWireTime(unixMs: number): string {
  return new Date(unixMs).toISOString();
}

export function toWireTimeOrNull(unixMs: number | null): string | null {
  return unixMs === null ? null : toWireTime(unixMs);
}
