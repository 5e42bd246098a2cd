/** What a reader must know before any single call: the head of the reference. */

export const TAGS = [
  {
    name: "Service",
    description: "What anyone may ask: time, health, what is served, and this description.",
  },
  {
    name: "Auth",
    description: "Sessions, API keys, websocket tickets, and what happened to the account.",
  },
  {
    name: "Custody",
    description: "Deposit addresses, balances, the journal, deposits and withdrawals.",
  },
  { name: "RFQ", description: "Requests, quotes and matches." },
  {
    name: "Streams",
    description: "Websockets; their messages and commands are described in `docs/asyncapi.yaml`.",
  },
];

export const INTRODUCTION = `People deposit USDC and outcome tokens; takers ask for prices; makers answer with firm quotes; an accepted quote settles at once.

## Credentials

Every call but the public ones takes either credential; the header \`APIKEY\` chooses.

- **Session**: \`Authorization: Bearer <token>\` from \`POST /auth/login\`. Scopes \`read\` and \`trade\`, never \`withdraw\`.
- **API key**: \`APIKEY\` (the key's id), \`X-Hmac-Timestamp\` (Unix milliseconds, within 30 s of the server's clock) and \`X-Hmac-Signature\`:
  Base64 of HMAC-SHA256, keyed with the UTF-8 bytes of the secret's text, over

\`\`\`
{timestamp_ms}\\n{METHOD}\\n{PATH_AND_QUERY}\\n{BODY}
\`\`\`

Sign the request target with its query as it goes over the wire, in normal form (no \`//\`, no needless escapes, upper-case \`%2F\`), and exactly
the bytes of the body that you send. Without a body the message still ends with the third line feed. A \`signature_invalid\` answer carries
\`signed\`, what the server signed. \`GET /auth/whoami\` is the call to test a signer with.

## Wire formats

- Amounts are U256 in native units (6 decimals): decimal text, \`0x\` hex text or a JSON number in; minimal lower-case hex out.
- Prices are integers scaled by 1e6: \`650000\` is 0.65. A trade costs \`ceil(amount × price / 1000000)\`.
- An asset is \`venue_id\` with \`asset_id\`; USDC is the asset without both.
- Times are RFC 3339; out in UTC with milliseconds.
- Bodies are JSON of at most 64 KiB with \`content-type: application/json\`. Unknown and repeated fields are refused, in the query too.
- \`DELETE\` takes its fields in the query or in a JSON body; one given in both must say the same.
- \`GET\` routes answer \`HEAD\` too, signed as \`HEAD\`.

## Pages

Lists take \`limit\` (50 unless given, 500 at most) and \`last_cursor\`, and answer \`items\` and \`next_cursor\`, which is null exactly when nothing
further matches. Newest first unless said otherwise.

## Errors

Every error is \`application/problem+json\` (RFC 9457) with a stable \`code\`; decide codes that you do not know by their status. Besides what
the operations list, a path that does not exist is 404 \`route_unknown\`, and another method on a path that does is 405 \`method_not_allowed\` with
\`Allow\`. The first fault wins, in the order 404, 405, 413, 429 by address, 401, 403, 429 by credential, 415, 400, then what the call itself refuses.

500 and 503 \`unavailable\` say in \`outcome\` whether anything was done: after \`unknown\`, repeat only what is idempotent or carries an
idempotency key.

## Idempotency

\`POST /rfq/request\` and \`POST /rfq/quote\` take \`Idempotency-Key\`, or \`idempotency_key\` in the body, where a signature covers it. For 24 hours
the same key with the same body answers what the first call answered, with the header \`idempotency-replayed: true\`; with another body it is 422. A withdrawal's
\`client_withdrawal_id\` does the same for ever.

## Request ids

Every answer carries \`x-request-id\`, a UUID made by the server. Name it when you ask the operator about a call.
`;
