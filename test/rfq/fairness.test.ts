/** One user's flood is refused and does not change what other users receive. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { command, openMarket, outcomeOf, submit } from "../support/market.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newKey, newUser } from "../support/users.ts";

const { RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET: PER_SOCKET, RFQ_COMMANDS_IN_FLIGHT_PER_USER: PER_USER } =
  config(env);

/** How many results have each outcome. */
function countOutcomes(outcomes: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

awakeAndEvicted("a flood of commands", (maybeEvict) => {
  it("is refused beyond the user's commands in flight in a book", async () => {
    const { stream, maker, request } = await openMarket();
    const attacker = await newUser();
    await maybeEvict(stream);

    const flood = Array.from({ length: 200 }, () =>
      submit(command.placeQuote(attacker, request.request_id, 1)),
    );
    const bystander = await submit(command.placeQuote(maker, request.request_id, 1));

    expect(outcomeOf(bystander)).toBe("ok");
    expect(countOutcomes((await Promise.all(flood)).map(outcomeOf))).toEqual({
      insufficient_funds: PER_USER,
      rate_limited: 200 - PER_USER,
    });
    // What was refused is not in flight any more.
    expect(outcomeOf(await submit(command.placeQuote(attacker, request.request_id, 1)))).toBe(
      "insufficient_funds",
    );
  });

  it("on one socket is refused beyond its commands in flight", async () => {
    const { stream, maker, request } = await openMarket();
    const attacker = await connect(await newUser(), stream);
    const bystander = await connect(maker, stream);
    await maybeEvict(stream);

    const quote = { op: "quote", request_id: request.request_id, price: 1 };
    for (let n = 0; n < 100; n++) attacker.send({ id: String(n), ...quote });
    bystander.send({ id: "b", ...quote });

    expect((await bystander.until(({ id }) => id === "b")).type).toBe("result");
    await expect
      .poll(() => attacker.messages.filter(({ type }) => type === "error").length)
      .toBe(100);
    const codes = attacker.messages.flatMap(({ data }) => (data?.code as string) ?? []);
    const { insufficient_funds: carriedOut = 0, rate_limited: refused = 0 } = countOutcomes(codes);
    expect(carriedOut + refused).toBe(100);
    // The first commands may be answered before the last frames arrive.
    expect(carriedOut).toBeGreaterThanOrEqual(PER_SOCKET);
    expect(refused).toBeGreaterThan(0);
    expect(attacker.closed).toBeUndefined();
  });
});

it("closes the socket of a flood that the scope refuses", async () => {
  const { stream } = await openMarket();
  const readOnly = await connect(await newKey(await newUser(), ["read"]), stream);
  for (let n = 0; n <= 4_000; n++) readOnly.send({ id: "x", op: "accept", quote_id: uuidv7() });
  expect(await readOnly.untilClosed()).toBe(1008);
});
