import { ideas, type Mutant } from "../mutant.ts";

export const RFQ: readonly Mutant[] = [
  ...ideas("src/rfq/accept-quote.ts", "rfq/set-aside", {
    "refused because of a damaged quote elsewhere": [
      "cancelsOthers ? { fallback:",
      "cancelsOthers && false ? { fallback:",
    ],
  }),
  ...ideas("src/rfq/quote-preconditions.ts", "rfq/backing", {
    "a pair backs an unpaired asset": [
      'AND ${backingOf(atom("r.asset"), c.backing)} IS NOT NULL)`',
      ")`",
    ],
    "a complement backs a Bid": ["= iif(${c.side} = 'Bid', 'usdc', 'complement')", "IS NOT NULL"],
    "the maker gives the pair nothing": [
      ">= iif(${c.side} = 'Bid', 1,",
      ">= iif(${c.side} = 'Bid', 0,",
    ],
    "the pair gives the maker nothing": ["max(1, ${c.maker_fee})", "${c.maker_fee}"],
  }),
  ...ideas("src/rfq/quote-command.ts", "rfq/backing rfq/pairs-model", {
    "a minting quote reserves tokens": ["{ reserveAsset: USDC, reserve:", "{ reserve:"],
    "a merging quote reserves USDC": [
      "= 'complement', ${complementOf",
      "= 'asset', ${complementOf",
    ],
  }),
  ...ideas("src/rfq/replaced-quote.ts", "rfq/backing", {
    "a reserve of another asset is used": [
      "\n      AND (o.complement IS NULL) = (${c.backing} IS NULL)",
      "",
    ],
  }),
  ...ideas("src/rfq/trade-terms.ts", "rfq/backing rfq/pairs-model", {
    "a minting quote reserves no fee": ["terms.usdcAmount + terms.makerFee;", "terms.usdcAmount;"],
  }),
  ...ideas("migrations/0020_accept_quote.sql", "rfq/book ledger/amounts rfq/accept-price", {
    "funds compared wrongly": [
      "AND (balance - promised) >= s.given_amount",
      "AND (balance - promised) > s.given_amount",
    ],
    "promised funds spent": [
      "AND (balance - promised) >= s.given_amount",
      "AND balance >= s.given_amount",
    ],
  }),
  ...ideas("src/rfq/accept-preconditions.ts", "rfq/accept-price", {
    "a worse match is a repeat": ["&& !isWithin(row, command)", "&& false"],
  }),
  ...ideas("src/rfq/standing-accept.ts", "rfq/standing-accept", {
    "a row that was edited since": ["standing: terms,", "standing: null,"],
    "a row without a MAC": [
      "if (isMacOf(settings.macKeys, PURPOSE, { values: [terms], mac })) trust",
      "if (mac !== undefined) trust",
    ],
    "tried with every quote": ["(limit !== null && isWithin(by, limit))", "limit !== null"],
    "not read": ["return limit === undefined || (", "return ("],
    "said with each quote": ["AND refused_for IS NULL`", "`"],
    "whose session may not trade": ['["credential_ended", sessionAllowed(TRADER, GROUP_AT)],', ""],
    "beyond the key's limit": ['["key_limit", keyAllows(TRADER, TRADED_SIDE, GROUP_AT)],', ""],
    "beyond the account's limit": [
      '["account_limit", accountAllows(TRADER, TRADED_SIDE.exposure, GROUP_AT)],',
      "",
    ],
    "more than a balance holds": ['["balance_limit", balancesHold],', ""],
    "open quotes are left": ["mayFulfil: { requestId, terms: termsText(saved) }", ""],
  }),
  ...ideas("src/rfq/last-price.ts", "rfq/protection", {
    "the limit itself is too far": ["> p.max_deviation", ">= p.max_deviation"],
    "only above the last price": ["abs(${c.price} - ${", "(${c.price} - ${"],
  }),
  ...ideas("src/rfq/price-limit.ts", "rfq/accept-price", {
    "a Bid at a worse price": ["o.price <= ${price}", "o.price >= ${price}"],
    "an Ask at a worse price": ["o.price >= ${price}", "o.price <= ${price}"],
    "the price itself is too bad": ["expr`o.price <= ${price}`", "expr`o.price < ${price}`"],
    "the lowest Ask": ['ofSide("Ask", "o.price DESC"', 'ofSide("Ask", "o.price"'],
    "the newest of equal prices": ["o.opened_at, o.quote_id", "o.opened_at DESC, o.quote_id DESC"],
  }),
  ...ideas("src/rfq/book-operation.ts", "rfq/operation", {
    "commands overtake": [
      "const from = Math.max(0, ...keys.map((key) => latest.get(key) ?? 0));",
      "const from = 0 * keys.length;",
    ],
  }),
  ...ideas("src/rfq/cancel-after.ts", "auth/who-may rfq/cancel-after", {
    "moved by anyone": ["WHERE ${mayWrite(actor, NOW)}\n", "WHERE 1\n"],
    "moved after it ran out": ["WHERE cancel_at > ${NOW}\n", "WHERE 1\n"],
  }),
  ...ideas("src/rfq/cancel-on-disconnect.ts", "rfq/disconnect", {
    "cancels nothing": [
      "AND EXISTS (SELECT 1 FROM armed_sockets a WHERE ${live} AND NOT ${newer})",
      "AND 0",
    ],
    "taken over by an older socket": [
      "AND n.taken_over_at IS NULL AND n.armed_id > a.armed_id",
      "AND n.taken_over_at IS NULL AND n.armed_id <> a.armed_id",
    ],
    "late quotes of a socket that was taken over refused": [
      "taken_over_at = ${at} WHERE ${live} AND ${newer}",
      "taken_over_at = NULL WHERE ${live} AND ${newer}",
    ],
    "cron asks the same streams again": ["SET asked_at = ${NOW}\n", "SET asked_at = asked_at\n"],
    "cron asks about sockets that were taken over": [
      "SELECT stream FROM armed_sockets WHERE taken_over_at IS NULL\n",
      "SELECT stream FROM armed_sockets\n",
    ],
    "cron ends sockets that are open": ["!open.has(readUuid(id))", "true"],
  }),
  ...ideas("src/rfq/cancel-request.ts", "rfq/book", {
    "quotes stay open": ["WHERE status = 'open' AND stuck_at IS NULL\n", "WHERE 0\n"],
  }),
  ...ideas("src/rfq/due-quotes.ts", "rfq/due-quotes", {
    "a loss while reading forgotten": [
      "this.#complete = version;",
      "this.#complete = this.#version;",
    ],
    "named quotes dropped early": ["ids.has(id) && expiresAt <= at", "ids.has(id)"],
    "the rest of a full group dropped": ["ids.has(id) && expiresAt <= at", "expiresAt <= at"],
  }),
  ...ideas("src/rfq/ended.ts", "rfq/races rfq/model", {
    "late ends not expired": [
      "iif(expires_at <= ${at}, 'expired', ",
      "iif(expires_at < 0, 'expired', ",
    ],
  }),
  ...ideas("src/rfq/group-committer.ts", "rfq/book rfq/races streams/registration", {
    "one bad command fails all": ["if (group.length > 1) {", "if (group.length > 1_000) {"],
    "does not wait for an unknown outcome": [
      '    while (outcome === "unknown") {',
      '    while (outcome === "voided") {',
    ],
  }),
  ...ideas("src/rfq/group-committer.ts", "rfq/waiting", {
    "a slow read makes commands late": [
      "group = waiting.filter((command) => this.#inTime(command));",
      "group = waiting;",
    ],
  }),
  ...ideas("src/rfq/idempotency.ts", "rfq/book rfq/routes rfq/preconditions", {
    "terms not compared": ["  if (terms !== hashOfTerms(idempotency)) {", '  if (terms === "") {'],
    "life counts from the receipt": ["literal(KEY_LIFE_MS)", "literal(3_600_000)"],
  }),
  ...ideas("src/rfq/open-request.ts", "rfq/markets", {
    "life beyond the close": [
      "${expiry(command, group.at)}",
      "${group.at} + ${command.expiresInSecs * 1_000}",
    ],
  }),
  ...ideas("src/rfq/protection.ts", "auth/who-may rfq/protection", {
    "saved by anyone": [
      "WHERE ${mayWrite(actor, group.at)}\n      ON CONFLICT",
      "WHERE 1\n      ON CONFLICT",
    ],
    "not counted anew when saved": [
      "excluded.cooldown_secs,\n        period = period + 1",
      "excluded.cooldown_secs,\n        period = period",
    ],
  }),
  ...ideas("src/rfq/export-records.ts", "archive/cold-records", {
    "records of another day exported": ["row.opened_at >= from && row.opened_at <= to", "true"],
  }),
  ...ideas("src/rfq/list-matches.ts", "archive/cold-records", {
    "a match on both sides is listed twice": [
      "Math.min(filter.to ?? Infinity, archived.lastAt)",
      "filter.to ?? Infinity",
    ],
    "the history is not asked": ["if (archived === undefined ||", "if (archived !== null ||"],
  }),
  ...ideas("src/rfq/trade-limits.ts", "rfq/trade-limits auth/policy", {
    "a day unchecked": [
      "          AND ${usedByKey(trader, at)} + ${exposure}\n            > (k.limits",
      "          AND ${exposure}\n            > (k.limits",
    ],
    "account unchecked": [
      "      AND ${usedByUser(trader, at)} + ${exposure} > p.max_trade_usdc_per_day)`;",
      "      AND ${exposure} > p.max_trade_usdc_per_day)`;",
    ],
  }),
  ...ideas("src/rfq/trade-terms.ts", "rfq/trade-terms", {
    "cost rounded down": [
      "(trade.amount * trade.price + PRICE_SCALE - 1n) / PRICE_SCALE",
      "(trade.amount * trade.price) / PRICE_SCALE",
    ],
    "fee rounded up": [
      "(usdcAmount * trade.makerFeeBps) / 10_000n",
      "(usdcAmount * trade.makerFeeBps + 9_999n) / 10_000n",
    ],
    "maker's fee not reserved": ["reserve: usdcAmount + makerFee", "reserve: usdcAmount"],
  }),
  ...ideas("src/rfq/pairs/redeem.ts", "rfq/pairs", {
    "more than is free": ["BETWEEN 1 AND ${O.free}`", "BETWEEN 1 AND ${O.free} + 1`"],
    "a key acts again": ["expr: expr`NOT EXISTS (SELECT 1 ${ofKey(order, O.at)})`", "expr: TRUE"],
    "a short pair pays": ["[PAIR_PAYS] : [PAIR_PAYS, chainPays(order)]", "[] : [chainPays(order)]"],
    "a closed market issues": ["thrown(marketOpen(O.asset, O.at)), ", ""],
    "a paused venue redeems": ["WHERE p.venue = ${O.venue})`", "WHERE p.venue = '')`"],
    "a merge counts the price twice": ["WHEN j.key = 0 THEN", "WHEN 1 THEN"],
  }),
  ...ideas("src/rfq/pairs/redemptions.ts", "rfq/pairs rfq/pairs-model", {
    "a result above its value": ["% ${scale} * ${price} / ${scale}`", "% ${scale} * ${price}`"],
    "what is promised is free": [
      "coalesce((SELECT balance - promised FROM",
      "coalesce((SELECT balance FROM",
    ],
    "a pair is always covered": ["m.result + c.result <= ${scale} AND", "1 OR"],
  }),
  ...ideas("src/rfq/pairs/pay-holders.ts", "rfq/pairs rfq/pairs-model", {
    "paid before it settles": ["m.settles_at <= ${at} AND", "m.settles_at IS NOT NULL AND"],
    "a paused venue is paid": [
      "NOT EXISTS (\n        SELECT 1 FROM paused_venues p",
      "EXISTS (\n        SELECT 1 FROM paused_venues p",
    ],
    "paid while somebody holds": ["AND ${ISSUED} =", "AND ${ISSUED} >="],
    "nobody is told that holders wait": ["m.settles_at <= ${NOW} - ${literal(LATE_MS)}", "0"],
  }),
  ...ideas("src/rfq/pairs/pay-holders.ts", "rfq/pairs-model chain/pairs", {
    "the float account is paid": [" AND a.owner IS NOT d.float_owner", ""],
    "the first holders are paid": [
      "max(0, CAST(${ALL} * (usdc * 1.0 / owes) AS INTEGER) - 1)",
      "${ALL}",
    ],
    "what is paid in part costs too few": [
      "(usdc % result * ${ALL} + result - 1)",
      "(usdc % result * ${ALL})",
    ],
    "the float account buys too much": ["expr`owes - usdc`", "expr`owes`"],
  }),
  ...ideas("src/rfq/pairs/redeem.ts", "chain/pairs", {
    "a pair redeems what others wait for": [">= coalesce((${owed}), 0)", ">= 0"],
    "a pair redeems more than it issued": [
      "${pairBalance(O.pair, IN_USDC)} >= ${O.amount})`,\n    ({ held })",
      "1)`,\n    ({ held })",
    ],
  }),
  ...ideas("src/rfq/pairs/read-results.ts", "chain/pairs", {
    "another result is paid": ["if (!isSame)", "if (false)"],
  }),
  ...ideas("src/chain/conditions.ts", "chain/pairs", {
    "one endpoint suffices": ["witnessesOf(chain) < 2", "witnessesOf(chain) < 1"],
    "a resolved condition is paired": ["&& facts[2 * index + 1] === 0n", ""],
  }),
  ...ideas("src/reconcile/check-pairs.ts", "rfq/pairs", {
    "a short pair unseen": ["&& usdc * ONE >= owed", ""],
  }),
];
