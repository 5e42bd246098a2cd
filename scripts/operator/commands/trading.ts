/** Commands about venues, trades, what the house owes and earns, and markets. */
import { ID, LIMIT, OF_USER, SINCE, type Some, type Flag } from "./command.ts";

const MARKET: readonly Flag[] = [
  { name: "venue", value: "<venue>", required: true, help: "venue of the asset" },
  { name: "asset-id", value: "<0x…>", required: true, help: "outcome token of the venue" },
];

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
      { name: "status", value: "<status>", help: "open, matched, cancelled or expired" },
      SINCE,
      LIMIT,
    ],
    help: "list requests that are open or ended within the hour; `history` has older ones",
  },
  "quotes list": {
    flags: [
      ...OF_USER,
      { name: "status", value: "<status>", help: "open, accepted, cancelled, expired or rejected" },
      SINCE,
      LIMIT,
    ],
    help: "list quotes that are open or ended within the hour; `history` has older ones",
  },
  "matches list": {
    flags: [...OF_USER, SINCE, LIMIT],
    help: "list trades of the last day, with both parties and fees; `history` has older ones",
  },
  history: {
    argument: { name: "requests|quotes|matches", required: true },
    user: [
      { name: "email", value: "<email>", help: "of the user with this email address" },
      { name: "user-id", value: "<id>", help: "of the user with this id" },
    ],
    flags: [{ name: "cursor", value: "<text>", help: "`next_cursor` of the last page" }, LIMIT],
    help: "list a user's own records of any age, newest first, from the archive too",
  },
  liabilities: {
    flags: [LIMIT],
    help: "show what the service owes its users, by asset and chain",
  },
  fees: {
    flags: [{ name: "days", value: "<n>", help: "period, 1 to 31 days; default 1" }],
    help: "show trades, volume and fees by venue, and the fees held",
  },
  "market set": {
    flags: [
      ...MARKET,
      { name: "title", value: "<text>", required: true, help: "the question that it settles" },
      { name: "outcome", value: "<text>", required: true, help: "for which the token pays" },
      { name: "url", value: "<url>", help: "where the venue describes it" },
      {
        name: "closes-at",
        value: "<time>",
        help: "RFC 3339; an earlier one cancels what is open; default: never",
      },
      { name: "test", value: "", help: "for trials: left out of lists, tape and candles" },
      { name: "reopen", value: "", help: "open it again after `market close`" },
    ],
    help: "list a market; what an open one is called cannot change, only when it closes",
  },
  "market import": {
    flags: [
      {
        name: "file",
        value: "<path>",
        required: true,
        help: "JSON list of up to 1 000 markets: GET /markets without status and result, with test",
      },
    ],
    help: "list many markets in one commit; others stay as they are",
  },
  "market close": {
    flags: [...MARKET],
    help: "stop trading in a market; open requests are cancelled and their quotes rejected",
  },
  "market resolve": {
    flags: [
      ...MARKET,
      {
        name: "result",
        value: "<millionths>",
        required: true,
        help: "what one token pays: 1000000 is one USDC",
      },
    ],
    help: "set or correct a market's result, which ends its trading; takes two operators",
  },
  "market list": {
    flags: [
      { name: "venue", value: "<venue>", help: "only markets of this venue" },
      { name: "status", value: "<status>", help: "open or closed" },
      { name: "q", value: "<words>", help: "only titles and outcomes that contain every word" },
      LIMIT,
    ],
    help: "list markets by title and outcome",
  },
  "stuck end": {
    flags: [ID],
    help: "end a quote or request that was set aside; releases what the journal has reserved for it",
  },
} satisfies Some;
