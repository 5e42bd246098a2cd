/** D1 whose batches a test delays, loses or refuses. */
export function withBatch(
  db: D1Database,
  batch: (statements: D1PreparedStatement[]) => Promise<unknown>,
): D1Database {
  return new Proxy(db, {
    get(target, name) {
      if (name === "batch") return batch;
      return typeof target[name as "prepare"] === "function"
        ? target[name as "prepare"].bind(target)
        : undefined;
    },
  });
}
