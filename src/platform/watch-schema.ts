/**
 * Compares the database with the schema that this code expects. A guard that is a trigger protects
 * only if the database has it, and one that somebody added may send money elsewhere.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { and, eq, isNull } from "drizzle-orm";
import { clearAlert, raiseAlert } from "./alert.ts";
import { commandText, type Deployed } from "./command-text.ts";
import schema from "../../migrations/expected.json" with { type: "json" };
import { read } from "./read.ts";
import { OWN_OBJECTS, schemaText } from "./schema-text.ts";
import { all, raw, sql } from "./sql.ts";
import { alerts } from "./tables.ts";

/** Written by `npm run migrations`. A test compares it with migrations/. */
const EXPECTED: {
  readonly migrations: readonly string[];
  readonly objects: Readonly<Record<string, string>>;
} = schema;
/** A database without any of its migrations differs in hundreds of objects. */
const MAX_ALERTS = 20;

/** Raises `schema_drift` for each difference, and closes it once the difference is gone. */
export async function watchSchema(db: D1Database, settings: Deployed): Promise<void> {
  const differences = await schemaDifferences(db, settings);
  for (const [subject, detail] of [...differences].slice(0, MAX_ALERTS))
    // oxlint-disable-next-line no-await-in-loop -- One at a time, and mostly there is none.
    await raiseAlert(db, "schema_drift", subject, detail);
  const open = await read(db, ({ select }) =>
    select()
      .from(alerts)
      .where(and(eq(alerts.kind, "schema_drift"), isNull(alerts.resolvedAt))),
  );
  for (const { subject } of open)
    if (!differences.has(subject)) await clearAlert(db, "schema_drift", subject);
}

/** What differs, each with the operator's next command. */
async function schemaDifferences(db: D1Database, settings: Deployed): Promise<Map<string, string>> {
  const applied = await all<{ name: string }>(db, sql`SELECT name FROM d1_migrations`);
  const names = new Set(applied.map(({ name }) => name));
  const due = EXPECTED.migrations.filter((name) => !names.has(name));
  const found = new Map<string, string>();
  if (due.length > 0)
    found.set(
      "migrations",
      `${due.join(", ")} not applied. Run: ${commandText(settings, "deploy")}`,
    );
  const later = [...names].filter((name) => !EXPECTED.migrations.includes(name));
  if (later.length > 0)
    found.set(
      "code",
      `The database has ${later.join(", ")}. If you have applied it, deploy the code that has it: ` +
        `${commandText(settings, "deploy")}. Otherwise treat it as a break-in`,
    );
  // In any case, because a row of d1_migrations must hide no trigger.
  await findObjects(db, settings, found);
  return found;
}

async function findObjects(
  db: D1Database,
  settings: Deployed,
  found: Map<string, string>,
): Promise<void> {
  const rows = await all<{ type: string; name: string; sql: string }>(db, sql`${raw(OWN_OBJECTS)}`);
  const present = new Map(rows.map((row) => [`${row.type} ${row.name}`, digestOf(row.sql)]));
  const differing = new Set([...present.keys(), ...Object.keys(EXPECTED.objects)]);
  for (const object of differing) {
    const expected = EXPECTED.objects[object];
    const actual = present.get(object);
    if (expected === actual) continue;
    const how = actual === undefined ? "is missing" : expected === undefined ? "is new" : "differs";
    const next = object.startsWith("table ")
      ? "see docs/handbook.md"
      : `run: ${commandText(settings, "migrations", "mend", object)}`;
    found.set(
      object,
      `${object} ${how}. Treat it as a break-in until it is explained, and ${next}`,
    );
  }
}

function digestOf(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(schemaText(text)))).slice(0, 32);
}
