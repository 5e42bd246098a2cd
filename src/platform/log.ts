/** Writes one JSON line per event. Only this file uses the console. */

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

export function log(level: "info" | "warn" | "error", event: string, fields: LogFields = {}): void {
  const line = JSON.stringify({ level, event, ...fields });
  if (level === "error") console.error(line);
  else if (level === "warn") console.warn(line);
  else console.log(line);
}

/** D1's messages may quote SQL, but no bound values. RPC clients quote URLs with keys. */
export function errorFields(error: unknown): LogFields {
  if (!(error instanceof Error)) return { error: typeof error };
  const cause = error.cause instanceof Error ? error.cause.message : undefined;
  return {
    error: error.name,
    message: hostsOnly(error.message).slice(0, 500),
    cause: cause === undefined ? undefined : hostsOnly(cause).slice(0, 500),
    stack: error.stack === undefined ? undefined : hostsOnly(error.stack).slice(0, 2_000),
  };
}

/** For `catch` of a call whose failure only matters to operators. */
export function logged(level: "warn" | "error", event: string, fields: LogFields = {}) {
  return (error: unknown): void => log(level, event, { ...fields, ...errorFields(error) });
}

/** Replaces each URL by its scheme and host. */
function hostsOnly(text: string): string {
  return text.replaceAll(/(https?:\/\/)(?:[^\s/@]*@)?([^\s/?#"')]*)[^\s"')]*/g, "$1$2");
}
