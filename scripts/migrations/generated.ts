/** Triggers that are generated from src, and the migration that brings a changed one. */
import { acceptTrigger } from "../../src/rfq/accept-quote.ts";
import { expiryTrigger } from "../../src/rfq/expire.ts";
import { quoteTrigger } from "../../src/rfq/place-quote.ts";
import type { Sql } from "../../src/platform/sql.ts";
import { lastFileWith, migrationFiles, readMigration, readReleased } from "./files.ts";
import { printTrigger } from "./print-sql.ts";

type Generated = {
  readonly trigger: string;
  readonly on: string;
  /** Ends the name of the migration. */
  readonly file: string;
  readonly source: string;
  readonly what: string;
  readonly statements: () => Sql[];
};

const GENERATED: readonly Generated[] = [
  {
    trigger: "quote_commands_place",
    on: "quote_commands",
    file: "place_quote",
    source: "src/rfq/place-quote.ts",
    what: "Places the quotes of a commit group, one command after the other.",
    statements: quoteTrigger,
  },
  {
    trigger: "accept_commands_accept",
    on: "accept_commands",
    file: "accept_quote",
    source: "src/rfq/accept-quote.ts",
    what: "Accepts the quotes of a commit group, one command after the other.",
    statements: acceptTrigger,
  },
  {
    trigger: "expiry_commands_expire",
    on: "expiry_commands",
    file: "expire",
    source: "src/rfq/expire.ts",
    what: "Ends what is due before the operations of a commit group.",
    statements: expiryTrigger,
  },
];

export type Due = { readonly file: string; readonly text: string; readonly replaces?: string };

/**
 * The files to write so that the migrations make each generated trigger as src states it now. A
 * file that no release contained yet is written again. Otherwise the change is a new file, because
 * a database that has applied the old one never reads it again.
 */
export function dueMigrations(): Due[] {
  const released = readReleased().files;
  let next = Number(migrationFiles().at(-1)?.slice(0, 4) ?? 0);
  return GENERATED.flatMap((generated) => {
    const text = `CREATE TRIGGER ${generated.trigger} `;
    const header = `${text}BEFORE INSERT ON ${generated.on} BEGIN\n`;
    const create = printTrigger(header, generated.statements());
    const last = lastFileWith(text);
    if (last !== undefined && readMigration(last).includes(create)) return [];
    const isOwn = last !== undefined && !released.has(last);
    const number = isOwn ? last.slice(0, 4) : String(++next).padStart(4, "0");
    const file = `${number}_${generated.file}.sql`;
    const replaces = isOwn && last !== file ? { replaces: last } : {};
    const wasReleased = [...released.keys()].some((name) => readMigration(name).includes(text));
    const drop = wasReleased ? `DROP TRIGGER ${generated.trigger};\n` : "";
    return [{ file, text: `${headerOf(generated)}${drop}${create}`, ...replaces }];
  });
}

function headerOf({ what, source }: Generated): string {
  return `-- ${what}
--
-- Generated from ${source}. Do not edit: npm run migrations writes it.
`;
}
