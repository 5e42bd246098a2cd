/** Commands about venues, trades, what the house owes and earns, and markets. */
import { flag, ID, needed, OF_USER, PAGE, SINCE, type Some } from "./command.ts";

const MARKET = [
  needed("venue <venue>", "venue of the asset"),
  needed("asset-id <0x…>", "outcome token of the venue"),
];

const CORRECT = flag(
  "correct",
  "change what a closed market without a result is called; takes two operators",
);

export const TRADING_COMMANDS = {
  "venue pause": {
    argument: { name: "venue", required: true },
    help: "stop trading; open requests are cancelled and their quotes rejected",
  },
  "venue resume": {
    argument: { name: "venue", required: true },
    help: "resume trading; ended requests and quotes stay ended",
  },
  "requests list": {
    flags: [
      ...OF_USER,
      flag("status <status>", "open, matched, cancelled or expired"),
      SINCE,
      ...PAGE,
    ],
    help: "list requests that are open or ended within the hour; `history` has older ones",
  },
  "quotes list": {
    flags: [
      ...OF_USER,
      flag("status <status>", "open, accepted, cancelled, expired or rejected"),
      SINCE,
      ...PAGE,
    ],
    help: "list quotes that are open or ended within the hour; `history` has older ones",
  },
  "matches list": {
    flags: [...OF_USER, SINCE, ...PAGE],
    help: "list trades of the last day, with both parties and fees; `history` has older ones",
  },
  history: {
    argument: { name: "kind", required: true },
    user: [
      flag("email <email>", "of the user with this email address"),
      flag("user-id <id>", "of the user with this id"),
    ],
    flags: [...PAGE],
    help:
      "list a user's matches, deposit-addresses or withdrawal-addresses of any age, newest first, " +
      "or the requests or quotes that are in the archive, in the order of seals",
  },
  liabilities: {
    flags: [flag("at <day>", "as that UTC day began, such as 2026-02-01; default: now"), ...PAGE],
    help: "show what the service owes its users, by asset and chain",
  },
  holdings: {
    flags: [...PAGE],
    help: "show what vaults and deposit addresses hold and what was issued, by chain and asset",
  },
  makers: {
    flags: [...PAGE],
    help: "show how makers answered the requests of the last hour, the slowest first",
  },
  fees: {
    flags: [
      flag("days <n>", "period, 1 to 31 days; default 1"),
      flag("month <month>", "instead, a UTC month, such as 2026-01"),
    ],
    help: "show trades, volume and fees by venue, and the fees held",
  },
  "market set": {
    flags: [
      ...MARKET,
      needed("title <text>", "the question that it settles"),
      needed("outcome <text>", "for which the token pays"),
      flag("url <url>", "where the venue describes it"),
      flag("event-id <id>", "of the question; all its outcomes have the same"),
      flag("description <text>", "what decides the result, in at most 1 000 characters"),
      flag("rules-url <url>", "where the rules of the result are"),
      flag("category <text>", "under which lists show it"),
      flag("closes-at <time>", "RFC 3339; an earlier one cancels what is open; default: never"),
      flag("complement <0x…>", "the other token of its pair, for good; a venue without a chain"),
      flag("condition <0x…>", "of the venue's contract: pairs its two tokens, for good"),
      flag("test", "for trials: left out of lists, tape and candles"),
      flag("reopen", "open it again after `market close`"),
      CORRECT,
    ],
    help: "list a market; what a listed one is called changes only with --correct",
  },
  "market import": {
    flags: [
      needed(
        "file <path>",
        "JSON list of up to 1 000 markets: GET /markets without status and result, with test",
      ),
      CORRECT,
    ],
    help: "list many markets in one commit; others stay as they are",
  },
  "market close": {
    flags: [...MARKET],
    help: "stop trading in a market; open requests are cancelled and their quotes rejected",
  },
  "market resolve": {
    flags: [...MARKET, needed("result <millionths>", "what one token pays: 1000000 is one USDC")],
    help: "set or correct a market's result, which ends its trading; takes two operators",
  },
  "market list": {
    flags: [
      flag("venue <venue>", "only markets of this venue"),
      flag("status <status>", "open or closed"),
      flag("q <words>", "only titles and outcomes that contain every word"),
      ...PAGE,
    ],
    help: "list markets by title and outcome",
  },
  "stuck end": {
    flags: [ID],
    help: "end a quote or request that was set aside; releases what the journal has reserved for it",
  },
} satisfies Some;
