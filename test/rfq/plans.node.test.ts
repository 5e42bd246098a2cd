/** A command costs what it names, however many records there are, and so does its rejection. */
import { expect, it } from "vitest";
import { newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { ask } from "../../src/platform/preconditions.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import type { BookOperation } from "../../src/rfq/book-operation.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { cancelRequest } from "../../src/rfq/cancel-request.ts";
import { openRequest } from "../../src/rfq/open-request.ts";
import { placeQuote } from "../../src/rfq/place-quote.ts";
import { setAcceptPrice } from "../../src/rfq/standing-accept.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";
import { RecordingDatabase } from "../support/node/recording-database.ts";
import { testSettings } from "../support/settings.ts";

const database = migratedDatabase();
/** Of tables and indexes, by their root page. One has a row for each table that counts. */
const NAMES = new Map(
  database
    .prepare(
      "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND name <> 'sqlite_sequence'",
    )
    .all()
    .map(({ name, rootpage }) => [rootpage, name]),
);
const settings = config(testSettings());
const id = "0196f0c2-0000-7000-8000-000000000001";
const sent = {
  receivedAt: 0,
  actor: { userId: id, scopes: ["trade"], credential: { kind: "api_key", apiKeyId: id } },
} as const;
const terms = { asset: "venue_one:0x1", amount: 1n, usdcAmount: null, side: "Bid" } as const;
const limit = { price: 500_000, side: "Bid" } as const;
const quote = {
  ...sent,
  op: "place_quote",
  quoteId: id,
  requestId: id,
  price: 500_000,
  side: null,
  replaces: id,
  expiresInSecs: 60,
  backing: "usdc",
} as const;

const OPERATIONS: Record<string, BookOperation> = {
  "opening a request": openRequest(
    {
      ...sent,
      ...terms,
      amount: "1",
      op: "open_request",
      requestId: id,
      disclosed: false,
      expiresInSecs: 60,
      accept: limit,
    },
    settings,
  ),
  quoting: placeQuote(quote, terms, settings),
  "cancelling a quote": cancelQuote({ ...sent, op: "cancel_quote", operationId: id, quoteId: id }),
  "cancelling a request": cancelRequest({
    ...sent,
    op: "cancel_request",
    operationId: id,
    requestId: id,
  }),
  accepting: acceptQuote({ ...sent, op: "accept", matchId: id, quoteId: id }, settings),
  "accepting at a price": acceptQuote(
    { ...sent, op: "accept_price", matchId: id, requestId: id, ...limit },
    settings,
  ),
  "setting a standing accept": setAcceptPrice(
    { ...sent, op: "set_accept_price", operationId: id, requestId: id, ...limit },
    terms,
    settings,
  ),
};

it.each(Object.entries(OPERATIONS))(
  "%s reads no table from its beginning",
  async (_, operation) => {
    const rejection = new RecordingDatabase();
    await ask(rejection.d1, [operation.rejection()]);
    const texts = [...operation.statements(newGroup()), ...rejection.reads].map(({ text }) => text);
    expect(texts.length).toBeGreaterThan(1);
    expect(texts.flatMap(scannedBy)).toEqual([]);
  },
);

/** Tables and indexes of which the statement, or a trigger of it, begins a loop at the first row. */
function scannedBy(text: string): unknown[] {
  const scanned: unknown[] = [];
  let opened = new Map<unknown, unknown>();
  for (const { addr, opcode, p1, p2 } of database.prepare(`EXPLAIN ${text}`).all()) {
    // Each trigger is a program of its own, with cursors of its own.
    if (addr === 0) opened = new Map();
    if (opcode === "OpenRead" || opcode === "OpenWrite") opened.set(p1, NAMES.get(p2));
    else if (String(opcode).startsWith("Open")) opened.delete(p1);
    if (opcode === "Rewind" && opened.get(p1) !== undefined) scanned.push(opened.get(p1));
  }
  return scanned;
}
