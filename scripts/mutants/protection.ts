import {
  DISCONNECT,
  POLICY,
  PROTECTION,
  PROTECTION_CLOCK,
  TIMERS,
  TRADE_LIMITS,
  WHO,
  of,
  type Mutant,
} from "./mutant.ts";

export const PROTECTION_MUTANTS: readonly Mutant[] = [
  ...of("disconnect", "src/rfq/cancel-on-disconnect.ts", [
    [
      "cancels nothing",
      "AND EXISTS (SELECT 1 FROM armed_sockets a WHERE ${live} AND NOT ${newer})",
      "AND 0",
      [DISCONNECT],
    ],
    ["never taken over", "WHERE ${live} AND NOT ${newer})", "WHERE ${live})", [DISCONNECT]],
    [
      "taken over by an older socket",
      "AND n.taken_over_at IS NULL AND n.armed_id > a.armed_id",
      "AND n.taken_over_at IS NULL AND n.armed_id <> a.armed_id",
      [DISCONNECT],
    ],
    ["taken over on another stream", "AND n.stream = a.stream", "", [DISCONNECT]],
    ["taken over by another key", "WHERE n.api_key_id = a.api_key_id\n", "WHERE 1\n", [DISCONNECT]],
    ["quotes of other keys cancelled", " AND credential = ${uuid(apiKeyId)}", "", [DISCONNECT]],
    [
      "late quotes of a socket that was taken over refused",
      "taken_over_at = ${at} WHERE ${live} AND ${newer}",
      "taken_over_at = NULL WHERE ${live} AND ${newer}",
      [DISCONNECT],
    ],
    [
      "late quotes of a socket that was taken over placed after the last end",
      " OR taken_over_at IS NOT NULL)",
      ")",
      [DISCONNECT],
    ],
    [
      "cron asks the same streams again",
      "SET asked_at = ${NOW}\n",
      "SET asked_at = asked_at\n",
      [DISCONNECT],
    ],
    [
      "cron asks about sockets that were taken over",
      "SELECT stream FROM armed_sockets WHERE taken_over_at IS NULL\n",
      "SELECT stream FROM armed_sockets\n",
      [DISCONNECT],
    ],
    ["cron ends sockets that are open", "!open.has(readUuid(id))", "true", [DISCONNECT]],
  ]),
  ...of("timer", "src/rfq/cancel-timer.ts", [
    ["never runs out", "t.cancel_at <= ${at}", "t.cancel_at < 0", [TIMERS]],
  ]),
  ...of("timer", "src/rfq/cancel-after.ts", [
    ["moved by anyone", "WHERE ${mayWrite(actor, NOW)}\n", "WHERE 1\n", [WHO]],
    ["moved after it ran out", "WHERE cancel_at > ${NOW}\n", "WHERE 1\n", [TIMERS]],
    [
      "removed by anyone",
      "DELETE FROM cancel_timers WHERE credential = ${credential} AND ${mayWrite(actor, at)}",
      "DELETE FROM cancel_timers WHERE credential = ${credential}",
      [WHO],
    ],
    [
      "closes quotes of other keys",
      "\n      AND credential = ${credential} AND EXISTS",
      "\n      AND EXISTS",
      [TIMERS],
    ],
    [
      "closes before it runs out",
      "WHERE credential = ${credential} AND cancel_at <= ${at}`",
      "WHERE credential = ${credential}`",
      [TIMERS],
    ],
  ]),
  ...of("timer", "src/rfq/accept-quote.ts", [
    ["accepted after it ran out", 'timerNotPassed(atom("s.credential"), at)', "expr`1`", [TIMERS]],
  ]),
  ...of("protection", "src/rfq/protection-record.ts", [
    [
      "never blocks",
      "p.tripped_at IS NOT NULL AND ifnull",
      "p.tripped_at IS NULL AND ifnull",
      [PROTECTION, PROTECTION_CLOCK],
    ],
    [
      "blocks after its cooldown",
      "p.blocked_until > ${at}, 1)",
      "p.blocked_until IS NOT NULL, 1)",
      [PROTECTION_CLOCK],
    ],
  ]),
  ...of("protection", "src/rfq/protection.ts", [
    [
      "saved by anyone",
      "WHERE ${mayWrite(actor, group.at)}\n      ON CONFLICT",
      "WHERE 1\n      ON CONFLICT",
      [WHO],
    ],
    ["reset by anyone", "WHERE ${mine} AND ${mayWrite(actor, group.at)}", "WHERE ${mine}", [WHO]],
    [
      "not counted anew when saved",
      "cooldown_secs = excluded.cooldown_secs, period = period + 1",
      "cooldown_secs = excluded.cooldown_secs, period = period",
      [PROTECTION],
    ],
  ]),
  ...of("key-limits", "src/rfq/trade-limits.ts", [
    [
      "venue unchecked",
      "    AND ((k.limits ->> 'venues' IS NOT NULL",
      "    AND ((k.limits ->> 'venues' IS NULL",
      [TRADE_LIMITS],
    ],
    [
      "one trade unchecked",
      "      : expr`${exposure} > (k.limits ->> 'max_usdc_per_trade')\n        OR",
      "      : expr`",
      [TRADE_LIMITS],
    ],
    [
      "a day unchecked",
      "          AND ${usedByKey(trader, at)} + ${exposure}\n            > (k.limits",
      "          AND ${exposure}\n            > (k.limits",
      [TRADE_LIMITS],
    ],
    [
      "account unchecked",
      "      AND ${usedByUser(trader, at)} + ${exposure} > p.max_trade_usdc_per_day)`;",
      "      AND ${exposure} > p.max_trade_usdc_per_day)`;",
      [POLICY],
    ],
    [
      "session allowed",
      "  return expr`${key} IS NOT NULL OR ${sessionsMayTrade(user, at)}`;",
      "  return expr`${key} IS NOT NULL OR ${at} > 0`;",
      [POLICY],
    ],
  ]),
];
