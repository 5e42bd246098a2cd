import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { migratedDatabase } from "../../scripts/migrations/files.ts";
import {
  type Edit,
  mutantsOfSource,
  mutantsOfTriggers,
  parse,
} from "../../scripts/mutants/generate.ts";
import { allMutants, generated } from "../../scripts/mutants/list.ts";
import { EQUIVALENT, SCOPE } from "../../scripts/mutants/scope.ts";
import { termsOf } from "../../scripts/mutants/sql-terms.ts";
import { verdictOf } from "../../scripts/mutants/verdict.ts";
import { FULL } from "../support/depth.ts";

const without = (edits: readonly Edit[]) => edits.map(({ name }) => name.split(": without ")[1]);
const apply = (text: string, { start, end, replace }: Edit) =>
  text.slice(0, start) + replace + text.slice(end);

const SOURCE = `
async function pay(db: D1Database, actor: Actor, at: Expr) {
  await requireStorage(db);
  await notify(db);
  if (at === NOW) checkActor(actor);
  const checks = [
    actorPrecondition(actor, at),
    ...own(actor),
    ...elsewhere(actor),
    { expr: expr\`w.amount > 0\`, reject: () => undefined },
  ];
  return sql\`UPDATE w SET paid = 1 WHERE id = \${actor.id} AND (\${guardOf(checks)})\`;
}

function own(actor: Actor) {
  return [{ expr: expr\`w.a BETWEEN 1 AND 2 AND w.b\`, reject: () => undefined }];
}

const READ = sql\`SELECT a FROM w WHERE a AND b\`;
const EXISTS = sql\`SELECT 1 FROM w WHERE a OR b\`;
`;

describe("mutants of a source", () => {
  const edits = mutantsOfSource(SOURCE, "pay.ts");

  it("drop calls that only throw, preconditions and terms, but leave reads alone", () => {
    expect(edits.map(({ name, replace }) => `${name} → ${replace}`)).toEqual([
      "pay.ts pay: without await requireStorage(db); → ;",
      "pay.ts pay: without checkActor(actor); → ;",
      "pay.ts pay: without actorPrecondition(actor, at) → ...[]",
      "pay.ts pay: without ...elsewhere(actor) → ...[]",
      "pay.ts pay: without w.amount > 0 → ...[]",
      "pay.ts pay: without id = ${actor.id} → 1",
      "pay.ts pay: without (${guardOf(checks)}) → 1",
      "pay.ts own: without w.a BETWEEN 1 AND 2 → 1",
      "pay.ts own: without w.b → 1",
      "pay.ts EXISTS: without a → 0",
      "pay.ts EXISTS: without b → 0",
    ]);
  });

  it("are sources that parse", () => {
    for (const edit of edits) expect(() => parse("pay.ts", apply(SOURCE, edit))).not.toThrow();
  });
});

describe("mutants of triggers", () => {
  const TRIGGER = `CREATE TABLE t (a, b, c);
CREATE TRIGGER t_insert BEFORE INSERT ON t WHEN NEW.a = 1 AND NEW.b = 1 BEGIN
  -- a; b
  SELECT RAISE(ABORT, 'a; b') WHERE NEW.c;
  SELECT RAISE(ABORT, 'c') WHERE NEW.c = 2 OR (NEW.c = 3 AND NEW.a = 4);
  DELETE FROM t WHERE a = NEW.b;
END;
`;

  it("drop statements and terms", () => {
    expect(mutantsOfTriggers(TRIGGER).map(({ name, replace }) => `${name} → ${replace}`)).toEqual([
      "trigger t_insert: without NEW.a = 1 → 1",
      "trigger t_insert: without NEW.b = 1 → 1",
      "trigger t_insert: without NEW.c = 2 → 0",
      "trigger t_insert: without NEW.c = 3 → 1",
      "trigger t_insert: without NEW.a = 4 → 1",
      "trigger t_insert: without (NEW.c = 3 AND NEW.a = 4) → 0",
      "trigger t_insert: without SELECT RAISE(ABORT, 'a; b') WHERE NEW.c; → SELECT 1;",
      "trigger t_insert: without DELETE FROM t WHERE a = NEW.b; → SELECT 1;",
    ]);
  });

  it("number equal texts", () => {
    expect(without(mutantsOfTriggers(TRIGGER.replaceAll("NEW.b", "NEW.a")))).toContain(
      "NEW.a = 1 (2)",
    );
  });
});

it.each([
  ["x = 1 AND y", ["x = 1|1", "y|1"]],
  [" AND x = ${f({ a: 1 })}", ["x = ${f({ a: 1 })}|1"]],
  ["a = 'x AND y' OR b", ["a = 'x AND y'|0", "b|0"]],
  ["SET a = CASE WHEN b AND c THEN 1 END, d = 2 WHERE e -- AND f", ["b|1", "c|1"]],
  ["((a AND b) AND (c OR d))", ["a|1", "b|1", "c|0", "d|0", "(c OR d)|1"]],
  ["JOIN t ON a = b AND c WHERE d ORDER BY e", ["a = b|1", "c|1"]],
])("the terms of %s", (sql, expected) => {
  const terms = termsOf(sql);
  expect(terms.map(({ start, end, neutral }) => `${sql.slice(start, end)}|${neutral}`)).toEqual(
    expected,
  );
});

describe("the list of mutants", () => {
  const made = generated();
  const mutants = allMutants(made);
  const names = mutants.map(({ name }) => name);

  it("has a name for each", () => {
    expect(mutants.filter(({ name }, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("has texts of today's sources, which differ afterwards and still parse", () => {
    // The release run also parses those that the parser itself has made.
    const parsed = FULL ? mutants : mutants.slice(made.length);
    for (const mutant of parsed) {
      const { name, file, start, end } = mutant;
      const text = readFileSync(file, "utf8");
      expect(text.slice(start, end), `the text of ${name} is not found once`).not.toBe("");
      const changed = apply(text, mutant);
      expect(changed, name).not.toBe(text);
      if (file.endsWith(".ts")) expect(() => parse(file, changed), name).not.toThrow();
    }
  });

  it("has no trigger that SQLite refuses", () => {
    const db = migratedDatabase();
    const triggersOf = (text: string) => text.match(/^CREATE TRIGGER [^]*?\nEND;/gm) ?? [];
    for (const mutant of mutants.filter(({ file }) => file.endsWith(".sql"))) {
      const text = readFileSync(mutant.file, "utf8");
      const changed = triggersOf(apply(text, mutant)).filter((trigger) => !text.includes(trigger));
      for (const trigger of changed) {
        db.exec(`DROP TRIGGER ${trigger.split(" ")[2]}`);
        expect(() => db.exec(trigger), mutant.name).not.toThrow();
      }
    }
  });

  it("uses every line of the scope and every equivalent mutant", () => {
    for (const start of Object.keys(SCOPE))
      expect(
        made.some(({ name }) => name.startsWith(start)),
        start,
      ).toBe(true);
    expect(Object.keys(EQUIVALENT).filter((name) => !names.includes(name))).toEqual([]);
  });

  it("covers every file through which money enters, leaves or is reported", () => {
    const files = globSync("src/{chain,custody,feeds}/**/*.ts");
    const mutated = files.filter(
      (file) => mutantsOfSource(readFileSync(file, "utf8"), file).length > 0,
    );
    const starts = Object.keys(SCOPE).filter((start) => start.startsWith("src/"));
    expect(mutated.filter((file) => !starts.some((start) => file.startsWith(start)))).toEqual([]);
  });
});

describe("a verdict", () => {
  const files = ["test/a.test.ts", "test/b.test.ts"];
  const module = (file: string, state: string, ...states: string[]) => ({
    file,
    state,
    tests: states.map((one) => ({ name: one, state: one })),
    error: "no such export",
  });
  const of = (second: ReturnType<typeof module>, ...errors: unknown[]) =>
    verdictOf({ files, modules: [module(files[0] ?? "", "passed", "passed"), second], errors });
  const poolError = new AggregateError([
    new Error("[vitest-pool]: Timeout starting forks runner."),
  ]);

  it.each([
    ["SURVIVED", of(module("test/b.test.ts", "passed", "passed"))],
    ["caught", of(module("test/b.test.ts", "failed", "passed", "failed"))],
    ["caught", of(module("test/b.test.ts", "passed", "passed"), new Error("unhandled"))],
    ["INVALID", of(module("test/b.test.ts", "failed"))],
    ["INVALID", of(module("test/b.test.ts", "skipped", "skipped"))],
    ["INVALID", of(module("test/b.test.ts", "queued"))],
    ["INVALID", of(module("test/c.test.ts", "passed", "passed"))],
    ["INVALID", of(module("test/b.test.ts", "passed", "passed"), poolError)],
  ])("is %s only by what ran", (verdict, result) => {
    expect(result.verdict).toBe(verdict);
  });
});
