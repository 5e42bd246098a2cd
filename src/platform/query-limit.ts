/**
 * Counts the D1 queries of one invocation. D1 documents 1 000 for each invocation of a Worker or
 * call of an object, counts every statement of a batch, and rejects all later ones. A local D1
 * accepts any number, so the limit is enforced here.
 *
 * Work without a natural end asks `queriesLeft` and stops in time. What reaches the limit all the
 * same fails with `QueryLimitReached`.
 */
import { PLATFORM } from "./platform-limits.ts";
import { withSettingsOf } from "./config.ts";

/** Half of what D1 allows, because a lost response costs queries that nobody planned. */
const QUERIES_PER_INVOCATION = PLATFORM.queries / 2;

export class QueryLimitReached extends Error {
  constructor(limit: number) {
    super(`The invocation has made ${limit} queries of D1, which is its limit`);
    this.name = "QueryLimitReached";
  }
}

/** How many statements an invocation may still send. */
export function queriesLeft(db: D1Database): number {
  const { limit = Number.POSITIVE_INFINITY, statements = 0 } = counters.get(db) ?? {};
  return Math.max(limit - statements, 0);
}

/** How many statements and round trips an invocation has made. */
export function queriesMade(db: D1Database): { statements: number; calls: number } {
  const { statements = 0, calls = 0 } = counters.get(db) ?? {};
  return { statements, calls };
}

/** `env` for one invocation. Its settings are not parsed again. */
export function limited(env: Env, limit = QUERIES_PER_INVOCATION): Env {
  return withSettingsOf(env, { ...env, DB: limitedDatabase(env.DB, limit) });
}

/** Begins the next invocation of an object that keeps `db`: an alarm or a call. */
export function renewQueries(db: D1Database): void {
  const counter = counters.get(db);
  if (counter !== undefined) counter.statements = 0;
}

type Counter = { readonly limit: number; statements: number; calls: number };
const counters = new WeakMap<D1Database, Counter>();

/** Throws before anything is sent, so what is refused has certainly had no effect. */
function count(counter: Counter, statements: number): void {
  if (counter.statements + statements > counter.limit) throw new QueryLimitReached(counter.limit);
  counter.statements += statements;
  counter.calls += 1;
}

function limitedDatabase(db: D1Database, limit: number): D1Database {
  const counter: Counter = { limit, statements: 0, calls: 0 };
  /** A batch takes only D1's own statements. */
  const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const wrap = (statement: D1PreparedStatement): D1PreparedStatement => {
    const wrapped = new Proxy(statement, {
      get: (_, name) => {
        if (name === "bind") return (...values: unknown[]) => wrap(statement.bind(...values));
        const member = memberOf(statement, name);
        if (typeof member !== "function") return member;
        return async (...given: unknown[]) => {
          count(counter, 1);
          return Reflect.apply(member, statement, given) as unknown;
        };
      },
    });
    originals.set(wrapped, statement);
    return wrapped;
  };
  const database = new Proxy(db, {
    get: (_, name) => {
      if (name === "prepare") return (text: string) => wrap(db.prepare(text));
      if (name !== "batch") return memberOf(db, name);
      return async (statements: D1PreparedStatement[]) => {
        count(counter, statements.length);
        return db.batch(statements.map((one) => originals.get(one) ?? one));
      };
    },
  });
  counters.set(database, counter);
  return database;
}

/** A method keeps its object, whose private fields a proxy does not have. */
function memberOf(object: object, name: string | symbol): unknown {
  const member: unknown = Reflect.get(object, name);
  return typeof member === "function" ? member.bind(object) : member;
}
