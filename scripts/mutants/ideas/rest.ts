import { ideas, type Mutant } from "../mutant.ts";

export const REST: readonly Mutant[] = [
  ...ideas("src/cron.ts", "platform/cron", {
    "runs a late task twice": [
      "since !== undefined && began - since < TASK_LOST_MS",
      "since !== undefined && began - since < 0",
    ],
  }),
  ...ideas("src/http/request.ts", "http/edge", {
    "the stated length believed": [
      "  return first.byteLength <= stated ? first : readRest(body, [first]);",
      "  return first;",
    ],
    "a byte too many accepted": [
      "  if (first.byteLength > BODY_LIMIT_BYTES) throw bodyTooLarge();\n",
      "",
    ],
  }),
  ...ideas("src/http/define-route.ts", "auth/key-limits", {
    "key in the body not required": [
      '  return actor?.credential.kind === "api_key" && actor.credential.requireIdempotency === true;',
      "  return actor === undefined;",
    ],
  }),
  ...ideas("src/reconcile/liabilities/build-slice.ts", "reconcile/liabilities", {
    "what moved since the cut is kept": [
      "BigInt(balance) - since;",
      "BigInt(balance) - 0n * since;",
    ],
    "what is pending is not owed": ["a.balance + coalesce(p.balance, 0)", "a.balance"],
    "a cut that the archive overtook goes on": ["head?.fresh !== 1", "head === undefined"],
  }),
  ...ideas("src/reconcile/liabilities/publish-proof.ts", "reconcile/liabilities", {
    "a wrong total is published": ['if (total !== (owed?.total ?? "0x0"))', 'if (total === "")'],
    "another cut of a published day": [
      "if (entryId !== cut.entry_id)",
      "if (entryId < 0 && cut.entry_id < 0)",
    ],
  }),
  ...ideas("src/reconcile/liabilities/sum-tree.ts", "client/liability", {
    "only the total is hashed": [
      "[sumBytes(left.sum), left.hash, sumBytes(right.sum), right.hash]",
      "[sumBytes(left.sum + right.sum), left.hash, right.hash]",
    ],
    "a negative sum": ["if (sum < 0n || sum >> 127n > 0n)", "if (sum >> 127n > 0n)"],
  }),
  ...ideas("src/ledger/history.ts", "archive/cold-entries archive/release", {
    "archive not asked": [
      "if (archived === undefined || here.unsearched !== null) return here;",
      "if (archived !== null) return here;",
    ],
    "held transfers taken for the whole record": [
      "BigInt(newest.entry_id) >= aboveSeal(archived)",
      "BigInt(newest.entry_id) >= 0n",
    ],
    "a seal that is not delivered is read twice": [
      "least(page.before, aboveSeal(archived))",
      "page.before",
    ],
  }),
  ...ideas(
    "src/ledger/withdrawal-mac.ts",
    "custody/withdrawal-policy reconcile/edits chain/withdrawals",
    {
      "its destination not covered": ["asset, amount, to];", "asset, amount];"],
      "its amount not covered": ["asset, amount, to];", "asset, to];"],
      "its user not covered": ["[state, withdrawalId, userId,", "[state, withdrawalId,"],
      "what waits passes for what need not": [
        "return [state, withdrawalId,",
        "return [withdrawalId,",
      ],
      "approval not needed": ["row.waited === 0 ||", "row.waited <= 1 ||"],
      "any approval counts": [
        '["approved", bareId(withdrawalId)]',
        '["approved", withdrawalId.slice(99)]',
      ],
    },
  ),
  ...ideas("src/platform/announce.ts", "platform/event-forms", {
    "another event's ids": ["OVER earlier - length(e.ids)) / 32", "OVER earlier) / 32"],
  }),
  ...ideas("src/platform/commit.ts", "rfq/races streams/registration ledger/amounts", {
    "fence skipped": [
      "    return fence(db, group, cause);",
      '    return { committed: false, reason: "lost", cause };',
    ],
    "unknown taken for none": [
      '    if (claim === "voided") return',
      '    if (claim !== "committed") return',
    ],
    "time goes back": [
      "  coalesce((SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 0))`",
      "  0)`",
    ],
  }),
  ...ideas("src/platform/event-forms.ts", "platform/event-forms", {
    "values end too early": ["',nul]') AS body", "',nul]\"') AS body"],
  }),
  ...ideas("src/platform/query-limit.ts", "platform/cron", {
    "is not kept": ["statements > counter.limit) throw", "statements < 0) throw"],
  }),
  ...ideas("src/reconcile/check-balances.ts", "reconcile/reconcile", {
    "stuck reserves ignored": [
      "GROUP BY owner, asset HAVING sum(held) <> sum(expected)",
      "GROUP BY owner, asset HAVING sum(held) < sum(expected)",
    ],
  }),
  ...ideas("src/reconcile/check-journal.ts", "reconcile/full-scan", {
    "a chunk is compared although it has been released": [" AND ${DELIVERED} <= ${after}`", "`"],
  }),
  ...ideas("src/reconcile/check-records.ts", "reconcile/tampering", {
    "late postings ignored": [
      "SELECT DISTINCT ref AS id FROM transfers WHERE ${",
      "SELECT DISTINCT ref AS id FROM transfers WHERE 0 AND ${",
    ],
    "payments not compared": [
      "AND e.chain = w.chain AND e.kind = 'Paid' AND e.to_address = w.to_address",
      "AND e.chain = w.chain AND e.kind = 'Paid'",
    ],
  }),
  ...ideas("src/reconcile/reconcile.ts", "platform/cron", {
    "ignores the limit": ["if (queriesLeft(db) < 2 * QUERIES_PER_CHUNK) return false;", ""],
  }),
  ...ideas("src/streams/close-ended.ts", "streams/registration", {
    "unfrozen users disconnected": ["u.frozen_at IS NOT NULL AS frozen,", "1 AS frozen,"],
  }),
  ...ideas("src/streams/notify.ts", "streams/streams", {
    "cron notifies nobody": [
      "WHERE s.pushed_seq < s.last_seq ORDER",
      "WHERE s.pushed_seq < s.last_seq - 1 ORDER",
    ],
  }),
  ...ideas("src/streams/replay.ts", "streams/registration", {
    "late registration replaces the next": ["WHERE excluded.token > token", ""],
    "gap not noticed": [
      "if (last?.seq !== from + page.length) throw",
      "if (last === undefined) throw",
    ],
  }),
  ...ideas("src/streams/sent-position.ts", "streams/registration", {
    "memory off by one": [
      "if (since + 1 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
      "if (since + 2 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
    ],
  }),
  ...ideas("src/streams/socket-host.ts", "streams/registration", {
    "push ignores a gap": [
      "      else await this.#catchUpTo(last.seq);",
      "      else this.#broadcast(fresh);",
    ],
    "join sends nothing of the meantime": [
      "{ after: stands, upTo }",
      "{ after: stands, upTo: stands }",
    ],
    "join leaves the others behind": [
      "    } else if ((await this.#position.read()) < stands) {",
      "    } else if ((await this.#position.read()) < 0) {",
    ],
    "never registers again": ["at - this.#checkedAt < CHECK_MS", "at - this.#checkedAt >= 0"],
  }),
  ...ideas("src/streams/subscription.ts", "streams/registration", {
    "token not renewed": ["    this.#ctx.storage.kv.delete(TOKEN);\n", ""],
  }),
  ...ideas("src/reconcile/check-balances.ts", "archive/release reconcile/tampering", {
    "sums in the archive not compared": [
      'WHERE ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}',
      'WHERE 0 AND ${within("a.account_id", chunk)} AND ${notTradedAfter(DELIVERED)}',
    ],
    "sums of recent trades not compared": [
      "WHERE ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}",
      "WHERE 0 AND ${notTradedAfter(expr`${upTo}`)} AND ${isNext(scan, chunk)}",
    ],
  }),
  ...ideas("src/archive/seal-row.ts", "archive/release", {
    "a seal forgets what was traded": [
      'SET ${addClosing("sealed_balances")}',
      "SET balance = excluded.balance",
    ],
  }),
  ...ideas("src/rfq/candles/write-candles.ts", "rfq/candles", {
    "a doubled run adds twice": [
      "AND EXISTS (SELECT 1 FROM candle_cursor WHERE moved_group = ${group.seq})",
      "",
    ],
  }),
  ...ideas("src/archive/candles.ts", "rfq/candles", {
    "a candle forgets its earlier low": [
      "low = min(candles.low, excluded.low)",
      "low = excluded.low",
    ],
    "a candle's close stays its first": ["close = excluded.close", "close = candles.close"],
    "a candle keeps its first amount": [
      '${addBounded("candles", "amount")}',
      "amount = candles.amount",
    ],
  }),
  ...ideas("src/archive/release.ts", "archive/release", {
    "a release loses the trades of candles": [
      "      addToCandles(settings, sql`m.match_id IN (${matches}) AND ${NOT_IN_CANDLES} AND ${applied}`),\n",
      "",
    ],
  }),
  ...ideas("src/rfq/markets/tell-holders.ts", "rfq/results", {
    "a result told to who holds nothing": ["AND b.balance > 0)`", "AND b.balance >= 0)`"],
    "a doubled run tells twice": ["AND r.told_group = ${group.seq} AND", "AND"],
  }),
  ...ideas("src/operator/commands.ts", "rfq/results", {
    "one operator sets a result": [
      'command === "market resolve" || options["correct"] !== undefined',
      'options["correct"] !== undefined',
    ],
  }),
];
