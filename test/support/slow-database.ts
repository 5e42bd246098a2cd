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

/** D1 where `before` runs before each statement that is sent alone, and once before each batch. */
export function withStatements(
  db: D1Database,
  before: (texts: readonly string[]) => Promise<void>,
): D1Database {
  const originals = new WeakMap<object, { statement: D1PreparedStatement; text: string }>();
  const wrap = (statement: D1PreparedStatement, text: string): D1PreparedStatement => {
    const wrapped = new Proxy(statement, {
      get: (_, name: "bind" | "all") => {
        if (name === "bind") return (...params: unknown[]) => wrap(statement.bind(...params), text);
        return async (...params: []) => {
          await before([text]);
          return statement[name](...params);
        };
      },
    });
    originals.set(wrapped, { statement, text });
    return wrapped;
  };
  return new Proxy(db, {
    get: (target, name: "prepare" | "batch") => {
      if (name === "prepare") return (text: string) => wrap(target.prepare(text), text);
      if (name !== "batch") return undefined;
      return async (statements: D1PreparedStatement[]) => {
        const known = statements.flatMap((one) => originals.get(one) ?? []);
        await before(known.map(({ text }) => text));
        return target.batch(known.map(({ statement }) => statement));
      };
    },
  });
}
