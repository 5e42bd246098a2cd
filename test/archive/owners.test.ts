/** `sealed_owners`, which decides what a user sees of the archive. */
import { isDeepStrictEqual } from "node:util";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { releaseRound } from "../../src/archive/release.ts";
import { type EntryPage, type EntryRow, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { getMatch } from "../../src/rfq/get-records.ts";
import { listMatches } from "../../src/rfq/list-matches.ts";
import { command, commitCommand } from "../support/market.ts";
import type { TestUser } from "../support/users.ts";
import { mendOwners } from "../../src/archive/check-owners.ts";
import { nextEpoch } from "../../src/archive/sealer-memory.ts";
import { readDatabaseState } from "../../src/archive/seal-round.ts";
import { verifyJournal } from "../../scripts/operator/verify-database.ts";
import { all, raw, type Sql, sql } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { edit } from "../support/ledger.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";
import { rounds } from "../support/depth.ts";

const journal = new SealedJournal(env.OWNERS_DB, "owners");
const { db } = journal;
const sealing = new Sealing(journal);
beforeAll(() => journal.open());
vi.setConfig({ testTimeout: 60_000 });

const hexOf = (id: string) => id.replaceAll("-", "");
const verified = () => verifyJournal(db, sealing.bucket, settings());

async function tradeAndSeal() {
  const market = await journal.trade();
  await sealing.sealAll();
  return { ...market, owner: sql`unhex(${hexOf(market.maker.userId)})` };
}

const EDITS: readonly (readonly [string, (owner: Sql) => Sql])[] = [
  ["deleted", (owner) => sql`DELETE FROM sealed_owners WHERE owner = ${owner}`],
  [
    "made to end earlier",
    (owner) => sql`UPDATE sealed_owners SET last_seal = last_seal - 1 WHERE owner = ${owner}`,
  ],
  [
    "made to begin later",
    (owner) => sql`UPDATE sealed_owners SET first_seal = first_seal + 1 WHERE owner = ${owner}`,
  ],
  [
    "made to hide quotes",
    (owner) => sql`UPDATE sealed_owners SET last_quote_at = NULL WHERE owner = ${owner}`,
  ],
  ["invented", () => sql`INSERT INTO sealed_owners SELECT randomblob(16), 1, 1, NULL, NULL, NULL`],
];

it.each(EDITS.slice(0, rounds(2, EDITS.length)))(
  "seals nothing after a row was %s, until it is mended",
  async (title, statement) => {
    const { owner, maker } = await tradeAndSeal();
    await tradeAndSeal();
    await edit(db, "sealed_owners", [statement(owner)]);
    await journal.trade();
    await journal.scanned();
    const seals = await journal.count("journal_seals");
    const round = await sealing.round();
    expect(round).toMatchObject({ status: "cut", detail: expect.stringContaining("journal mend") });
    if (title !== "invented")
      expect(round).toMatchObject({ detail: expect.stringContaining(hexOf(maker.userId)) });
    expect(await journal.count("journal_seals")).toBe(seals);
    expect(await verified()).toMatchObject({ ok: false, discrepancies: [{ kind: "history" }] });

    expect(await sealing.withOwners((owners) => mendOwners(db, owners))).toHaveLength(1);
    expect(await journal.count("owner_mends")).toBe(0);
    expect(await sealing.round()).toMatchObject({ status: "sealed" });
    expect(await verified()).toMatchObject({ ok: true, discrepancies: [] });
  },
);

/** Pages of the ledger, the list of matches, and one by its id. */
async function readsOf({ userId }: TestUser, matchId: string): Promise<unknown[]> {
  const records = journal.records(userId);
  const pages = async () => {
    const rows: EntryRow[] = [];
    for (let before: bigint | null = NEWEST; before !== null;) {
      const page = { before, limit: 3 };
      const read: EntryPage = await readEntries(db, userId, {}, page, records.old);
      rows.push(...read.rows);
      before = read.next;
    }
    return rows.length;
  };
  const reads = [
    pages(),
    listMatches(records, userId, {}, { limit: 3 }),
    getMatch(records, userId, { match_id: matchId }),
  ];
  return Promise.all(reads.map((one) => one.catch((error: { data?: unknown }) => error.data)));
}

const SHORTER = [
  ...EDITS.slice(0, 3),
  [
    "made to end with its first seal",
    (owner: Sql) => sql`UPDATE sealed_owners SET last_seal = first_seal WHERE owner = ${owner}`,
  ] as const,
];

it.each(SHORTER.slice(0, rounds(2, SHORTER.length)))(
  "shows no page that is short after a row was %s",
  async (title, statement) => {
    const { owner, maker, matchId, openRequestId, book } = await tradeAndSeal();
    const later = command.placeQuote(maker, openRequestId, 830_000, 300);
    await commitCommand(book, later, db);
    await commitCommand(book, command.cancelQuote(maker, later.quoteId), db);
    await sealing.sealAll();
    while (
      (
        await releaseRound({
          db,
          bucket: sealing.bucket,
          settings: settings(),
          lagMs: 0,
          matchesMs: 0,
        })
      ).status !== "idle"
    );
    const hot = command.placeQuote(maker, openRequestId, 840_000, 300);
    await commitCommand(book, hot, db);
    const right = await readsOf(maker, matchId);
    const long = sql`UPDATE journal_seals SET sealed_at = sealed_at - 100000`;
    await edit(db, "journal_seals", [long]);
    await edit(db, "sealed_owners", [statement(owner)]);
    const found = await readsOf(maker, matchId);
    await sealing.withOwners(async (owners) => {
      await owners.follow(db, sealing.bucket);
      await mendOwners(db, owners);
    });
    found.forEach((one, place) => {
      if (title !== "deleted" && isDeepStrictEqual(one, right[place])) return;
      expect(one).toMatchObject({ code: "unavailable" });
    });
  },
);

it("refuses every change of a row but growth", async () => {
  const { owner } = await tradeAndSeal();
  const is = sql`WHERE owner = ${owner}`;
  const refused: readonly Sql[] = [
    ...EDITS.map(([, statement]) => statement(owner)),
    sql`UPDATE sealed_owners SET last_seal = last_seal + 1 ${is}`,
    sql`UPDATE sealed_owners SET owner = randomblob(16) ${is}`,
    sql`UPDATE sealed_owners SET last_match_at = last_match_at - 1 ${is}`,
    sql`INSERT OR REPLACE INTO sealed_owners SELECT owner, last_seal, last_seal, NULL, NULL, NULL
      FROM sealed_owners ${is}`,
    sql`REPLACE INTO sealed_owners SELECT * FROM sealed_owners ${is}`,
    sql`UPDATE OR REPLACE sealed_owners SET owner = ${owner} WHERE owner <> ${owner}`,
  ];
  for (const statement of refused) await expect(all(db, statement)).rejects.toThrow("append-only");
  expect(await verified()).toMatchObject({ ok: true });
});

it("reads the whole archive again if its memory is lost", async () => {
  const { owner } = await tradeAndSeal();
  const other = () => Object.assign(new Sealing(journal), { memory: sealing.memory });
  await edit(db, "sealed_owners", [sql`DELETE FROM sealed_owners WHERE owner = ${owner}`]);
  expect(await other().round()).toMatchObject({ status: "cut" });
  await sealing.withOwners((owners) => mendOwners(db, owners));
  // A seal that cannot be read stops nothing, and is read later.
  await journal.trade();
  await journal.scanned();
  const late = other();
  const get = async () => null;
  expect(await late.round({ bucket: bucketWith(sealing.bucket, { get }) })).toMatchObject({
    status: "mismatch",
  });
  const unread = () => late.withOwners(async (owners) => owners.unread.size);
  expect(await unread()).toBe(await journal.count("journal_seals"));
  while ((await unread()) > 0) await late.round();
  expect((await sealing.sealAll()).at(-1)).toMatchObject({ status: "idle" });
  expect(await verified()).toMatchObject({ ok: true });
});

it("follows a database that was restored, in a new epoch", async () => {
  await tradeAndSeal();
  await journal.trade();
  const copied = ["sealed_owners", "sealed_balances"];
  for (const table of copied)
    await all(db, sql`CREATE TABLE ${raw(`kept_${table}`)} AS SELECT * FROM ${raw(table)}`);
  await sealing.sealAll();
  await edit(db, "journal_seals", [
    sql`DELETE FROM journal_seals WHERE number = (SELECT max(number) FROM journal_seals)`,
  ]);
  for (const table of copied)
    await edit(db, table, [
      sql`DELETE FROM ${raw(table)}`,
      sql`INSERT INTO ${raw(table)} SELECT * FROM ${raw(`kept_${table}`)}`,
      sql`DROP TABLE ${raw(`kept_${table}`)}`,
    ]);
  expect(await sealing.round()).toMatchObject({ status: "restored" });
  sealing.memory = nextEpoch(sealing.memory, await readDatabaseState(db));
  expect(await sealing.round()).toMatchObject({ status: "sealed" });
  expect(await verified()).toMatchObject({ ok: true });
});
