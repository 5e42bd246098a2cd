import {
  SCHEMA,
  BOOK,
  LIMITS,
  MARKETS,
  MODEL,
  PRECONDITIONS,
  RACES,
  REGISTRATION,
  TERMS,
  WHO,
  node,
  workers,
  of,
  type Mutant,
} from "./mutant.ts";

const DUE = node("test/rfq/due-quotes.node.test.ts");

export const RFQ_MUTANTS: readonly Mutant[] = [
  ...of("group", "src/rfq/book-operation.ts", [
    [
      "commands overtake",
      "const from = Math.max(0, ...keys.map((key) => latest.get(key) ?? 0));",
      "const from = 0 * keys.length;",
      [node("test/rfq/operation.node.test.ts")],
    ],
  ]),
  ...of("open", "src/rfq/open-request.ts", [
    ["credential unchecked", "    actorMayWrite(actor, at),\n", "", [WHO]],
    ["closed market unchecked", '    marketOpen(atom("?", [asset]), at),\n', "", [MARKETS]],
    [
      "life beyond the close",
      "${expiry(command, group.at)}",
      "${group.at} + ${command.expiresInSecs * 1_000}",
      [MARKETS],
    ],
    ["unlisted asset allowed", "    ...marketListed(asset, settings),\n", "", [MARKETS]],
    [
      "paused venue unchecked",
      "expr`NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})`",
      "expr`${venue} IS NOT NULL`",
      [WHO],
    ],
    ["full database ignored", "    storageLeft,\n", "", [LIMITS]],
    ["key unchecked", "    ...keyIsUnused(keyUse(command), at),\n", "", [PRECONDITIONS]],
  ]),
  ...of("cancel-quote", "src/rfq/cancel-quote.ts", [
    [
      "credential unchecked",
      "rowMayWrite(c.user_id, c, c.at)",
      "expr`${rowMayWrite(c.user_id, c, c.at)} OR 1`",
      [WHO],
    ],
    [
      "owner unchecked",
      "expr`quotes.maker_id = ${c.user_id}`",
      "expr`quotes.maker_id IS NOT NULL`",
      [WHO],
    ],
    [
      "expired quote cancelled",
      "expr`quotes.status = 'open' AND quotes.expires_at > ${c.at}`",
      "expr`quotes.status = 'open'`",
      [RACES, MODEL],
    ],
  ]),
  ...of("cancel-request", "src/rfq/cancel-request.ts", [
    ["credential unchecked", "    actorMayWrite(actor, at),\n", "", [WHO]],
    [
      "owner unchecked",
      "expr`requests.requester_id = ${uuid(actor.userId)}`",
      "expr`requests.requester_id IS NOT NULL`",
      [WHO],
    ],
    [
      "matched request cancelled",
      "expr`requests.status <> 'matched'`",
      "expr`requests.status IS NOT NULL`",
      [BOOK],
      "`status = 'open'` in the last precondition excludes it too; only the reason would differ.",
    ],
    ["quotes stay open", "WHERE status = 'open' AND stuck_at IS NULL\n", "WHERE 0\n", [BOOK]],
  ]),
  ...of("cancel-quotes", "src/rfq/cancel-quotes.ts", [
    [
      "credential unchecked",
      "AND expires_at > ${group.at} AND ${mayWrite(actor, group.at)} AND ${which}`",
      "AND expires_at > ${group.at} AND ${which}`",
      [WHO],
    ],
    [
      "owner unchecked",
      "WHERE maker_id = ${uuid(actor.userId)} AND status = 'open' AND stuck_at IS NULL\n        AND expires_at",
      "WHERE maker_id IS NOT NULL AND status = 'open' AND stuck_at IS NULL\n        AND expires_at",
      [WHO],
    ],
    [
      "expired quotes cancelled",
      "AND expires_at > ${group.at} AND ${mayWrite",
      "AND ${mayWrite",
      [PRECONDITIONS],
    ],
  ]),
  ...of("terms", "src/rfq/trade-terms.ts", [
    [
      "cost rounded down",
      "(trade.amount * trade.price + PRICE_SCALE - 1n) / PRICE_SCALE",
      "(trade.amount * trade.price) / PRICE_SCALE",
      [TERMS],
    ],
    [
      "fee rounded up",
      "(usdcAmount * trade.makerFeeBps) / 10_000n",
      "(usdcAmount * trade.makerFeeBps + 9_999n) / 10_000n",
      [TERMS],
    ],
    ["maker's fee not reserved", "reserve: usdcAmount + makerFee", "reserve: usdcAmount", [TERMS]],
  ]),
  ...of("ended", "src/rfq/ended.ts", [
    [
      "late ends not expired",
      "iif(expires_at <= ${at}, 'expired', ",
      "iif(expires_at < 0, 'expired', ",
      [RACES, MODEL],
    ],
  ]),
  ...of("idempotency", "src/rfq/idempotency.ts", [
    [
      "terms not compared",
      "  if (terms !== hashOfTerms(idempotency)) {",
      '  if (terms === "") {',
      [BOOK, workers("test/rfq/routes.test.ts")],
    ],
    ["key lives on", ".${id} > ${oldestLive(at)}`", ".${id} IS NOT NULL`", [PRECONDITIONS]],
    ["life counts from the receipt", "literal(KEY_LIFE_MS)", "literal(3_600_000)", [PRECONDITIONS]],
    [
      "key of another user",
      "FROM ${record} AND ${owner} = ${uuid(userId)}`",
      "FROM ${record}`",
      [workers("test/rfq/place-quote.test.ts")],
    ],
  ]),
  ...of("committer", "src/rfq/group-committer.ts", [
    [
      "one bad command fails all",
      'outcome.reason === "constraint" && group.length > 1)',
      'outcome.reason === "constraint" && group.length > 1_000)',
      [BOOK, RACES],
    ],
    [
      "does not wait for an unknown outcome",
      '    while (outcome === "unknown") {',
      '    while (outcome === "voided") {',
      [REGISTRATION, RACES],
    ],
  ]),
  ...of("due-quotes", "src/rfq/due-quotes.ts", [
    [
      "a loss while reading forgotten",
      "this.#complete = version;",
      "this.#complete = this.#version;",
      [DUE],
    ],
    ["named quotes dropped early", "ids.has(id) && expiresAt <= at", "ids.has(id)", [DUE]],
    [
      "the rest of a full group dropped",
      "ids.has(id) && expiresAt <= at",
      "expiresAt <= at",
      [DUE],
    ],
  ]),
  ...of("expire", SCHEMA, [
    [
      "quotes in other books not looked for",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at <= NEW.at\n      LIMIT 200\n    )\n    AND",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at < 0\n      LIMIT 200\n    )\n    AND",
      [PRECONDITIONS],
    ],
    [
      "late requests not looked for",
      "        AND r.expires_at <= NEW.at\n    );",
      "        AND r.expires_at < 0\n    );",
      [PRECONDITIONS, RACES, MODEL],
    ],
    [
      "a minute late",
      "AND q.expires_at <= NEW.at\n        AND NEW.quote_ids IS NULL\n      LIMIT 200\n    )\n    UNION",
      "AND q.expires_at <= NEW.at - 60000\n        AND NEW.quote_ids IS NULL\n      LIMIT 200\n    )\n    UNION",
      [RACES, MODEL],
    ],
    [
      "a maker's quotes elsewhere stay open",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at <= NEW.at\n      LIMIT 200\n    )\n  )",
      "        AND q.stuck_at IS NULL\n        AND q.expires_at < 0\n      LIMIT 200\n    )\n  )",
      [PRECONDITIONS],
    ],
    [
      "request ends before its quotes",
      "AND q.status = 'open' AND q.stuck_at IS NULL\n      )",
      "AND q.status = 'accepted'\n      )",
      [PRECONDITIONS, RACES],
    ],
  ]),
];
