import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { carryOut, type CommandName } from "../../src/operator/commands.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import { pauseVenue, resumeVenue } from "../../src/rfq/close-books.ts";
import { accountStream, bookStream, venueStream } from "../../src/streams/event-log.ts";
import { apiOf } from "../support/http.ts";
import { balances, newAsset } from "../support/ledger.ts";
import {
  command,
  openMarket,
  openRequest,
  outcomeOf,
  placeQuote,
  quotedMarket,
  submit,
} from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import {
  newKey,
  newUser,
  newUserWithPassword,
  PASSWORD,
  type TestKey,
  type TestUser,
} from "../support/users.ts";

const operate = (name: CommandName, options: Record<string, string>) =>
  carryOut(name, { env, settings: config(env), operator: "test", words: [], options });

awakeAndEvicted("a paused venue", (maybeEvict) => {
  // Other tests use the venue too.
  afterEach(async () => {
    await resumeVenue(env.DB, "venue_two");
  });

  it("cancels open requests, releases reserves and rejects new requests", async () => {
    const { book, stream, requester, maker, request, quote } = await quotedMarket({
      venue: "venue_two",
    });
    const venue = venueStream("venue_two");
    const subscriber = await connect(maker, venue);
    await maybeEvict(stream, venue);

    await pauseVenue(env, "venue_two");

    const closed = await subscriber.until(
      ({ type, data }) => type === "request.closed" && data.request_id === request.request_id,
    );
    expect(closed.data).toEqual({ request_id: request.request_id, reason: "cancelled" });
    expect(await balances(maker.userId, book)).toEqual([1_000n, 0n]);
    const accepted = await submit(command.accept(requester, quote.quote_id));
    expect(outcomeOf(accepted)).toBe("quote_not_open");
    const late = await submit(command.openRequest(requester, book, { amount: 1n }));
    expect(outcomeOf(late)).toBe("venue_paused");
    expect(await resumeVenue(env.DB, "venue_two")).toBe(true);
    await openRequest(requester, book, { amount: 10n });
  });
});

awakeAndEvicted("a freeze", (maybeEvict) => {
  it("cancels the user's requests and quotes and rejects further commands", async () => {
    const { book, stream, requester: other, maker: frozen, request } = await quotedMarket();
    const own = await openRequest(frozen, book, { amount: 10n });
    await placeQuote(other, own.request_id, 1);
    const account = accountStream(frozen.userId);
    const subscriber = await connect(frozen, account);
    await maybeEvict(stream, account);

    await operate("user freeze", { email: frozen.email });

    await subscriber.until(
      ({ type, data }) => type === "account.notice" && data.kind === "account_frozen",
    );
    expect(
      subscriber
        .events()
        .map(({ type }) => type)
        .toSorted(),
    ).toEqual(["account.notice", "quote.closed", "quote.closed", "request.closed"]);
    expect(await balances(frozen.userId, book)).toEqual([1_000n, 0n]);
    expect(await balances(other.userId, book)).toEqual([1_000n, 0n]);
    const late = await submit(command.placeQuote(frozen, request.request_id, 1));
    expect(outcomeOf(late)).toBe("account_frozen");
  });
});

const REVOCATIONS: readonly [
  by: string,
  revoke: (user: TestUser, key: TestKey) => Promise<unknown> | undefined,
][] = [
  ["its owner", (user, key) => apiOf(user).delete("/auth/api-keys", { api_key_id: key.apiKeyId })],
  ["itself", (_, key) => apiOf(key).delete("/auth/api-keys", { api_key_id: key.apiKeyId })],
  [
    "the end of all sessions",
    (user) => apiOf(user).delete("/auth/sessions", { revoke_keys: true }),
  ],
  [
    "a change of password",
    async (user, key) => {
      await asIfMintedBySession(key);
      const change = { password: PASSWORD, new_password: `${PASSWORD}!`, revoke_keys: true };
      return apiOf(user).post("/auth/change-password", change);
    },
  ],
  ["an operator", (_, key) => operate("api-key revoke", { id: key.apiKeyId })],
  [
    "a reset of TOTP",
    async (user, key) => {
      await asIfMintedBySession(key);
      return operate("user reset-totp", { email: user.email });
    },
  ],
];
const asIfMintedBySession = ({ apiKeyId }: TestKey) =>
  all(env.DB, sql`UPDATE api_keys SET minted_by = 'session' WHERE api_key_id = ${uuid(apiKeyId)}`);

it.each(REVOCATIONS)("a key revoked by %s loses its open quotes at once", async (_, revoke) => {
  const { book, requester, request } = await openMarket();
  const maker = await newUserWithPassword({ [book]: 1_000n });
  const key = await newKey(maker);
  const quote = await placeQuote(key, request.request_id, 1);
  const ofSession = await placeQuote(maker, request.request_id, 1);
  const subscriber = await connect(requester, accountStream(requester.userId));

  await revoke(maker, key);

  const revoked = sql`SELECT q.status, g.at = k.revoked_at AS at_once
    FROM quotes q JOIN api_keys k ON k.api_key_id = q.credential
      JOIN commit_groups g ON g.seq = q.ended_group
    WHERE q.quote_id = ${uuid(quote.quote_id)}`;
  expect(await all(env.DB, revoked)).toEqual([{ status: "cancelled", at_once: 1 }]);
  const [session] = await all<{ status: string; ended: number }>(
    env.DB,
    sql`SELECT status, session_epoch AS ended FROM quotes JOIN users ON user_id = maker_id
      WHERE quote_id = ${uuid(ofSession.quote_id)}`,
  );
  const left = session?.ended === 0;
  expect(session?.status).toBe(left ? "open" : "cancelled");
  expect(await balances(maker.userId, book)).toEqual(left ? [990n, 10n] : [1_000n, 0n]);
  const { data } = await subscriber.until(({ type }) => type === "quote.closed");
  expect(data).toMatchObject({ quote_id: quote.quote_id, reason: "cancelled" });
});

awakeAndEvicted("cancelling all quotes", (maybeEvict) => {
  it("cancels the maker's own, in every book or in those of a filter", async () => {
    const [one, two] = [newAsset().key, newAsset("venue_two").key];
    const requester = await newUser();
    const maker = await newUser({ [one]: 100n, [two]: 100n });
    const other = await newUser({ [one]: 100n });
    const first = await openRequest(requester, one, { amount: 10n });
    const second = await openRequest(requester, two, { amount: 10n });
    for (const { request_id } of [first, second]) await placeQuote(maker, request_id, 1);
    await placeQuote(other, first.request_id, 1);

    await maybeEvict(bookStream(one), bookStream(two));
    expect(await cancelQuotes(env, maker.actor, { venue: "venue_two" })).toBe(1);
    expect(await cancelQuotes(env, maker.actor, {})).toBe(1);
    expect(await cancelQuotes(env, maker.actor, {})).toBe(0);
    expect(await balances(maker.userId, one)).toEqual([100n, 0n]);
    expect(await balances(other.userId, one)).toEqual([90n, 10n]);
  });
});

awakeAndEvicted("an ended session", (maybeEvict) => {
  it("rejects commands from the next commit group on", async () => {
    const { stream, maker, request } = await openMarket();
    await all(
      env.DB,
      sql`UPDATE users SET session_epoch = session_epoch + 1
        WHERE user_id = ${uuid(maker.userId)}`,
    );
    await maybeEvict(stream);
    const result = await submit(command.placeQuote(maker, request.request_id, 1));
    expect(outcomeOf(result)).toBe("session_invalid");
  });
});
