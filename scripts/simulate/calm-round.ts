/**
 * Calls each verb once in a calm, in which no fault is injected. So each must succeed: if the
 * model's users were refused, the properties would hold for lack of trade.
 */
import { withdraw } from "../../src/custody/withdraw.ts";
import { cancelAfter } from "../../src/rfq/cancel-after.ts";
import { resetProtection, saveProtection } from "../../src/rfq/protection.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { cancelQuotes } from "../../src/rfq/cancel-quotes.ts";
import type { Command } from "../../src/rfq/command.ts";
import { accountStream, bookStream, venueStream } from "../../src/streams/event-log.ts";
import { Dice } from "../actors/dice.ts";
import { APPROVAL_ABOVE, type Approvals } from "./approvals.ts";
import { codeOf } from "./calls.ts";
import { openRequest, placeQuote } from "./commands.ts";
import { type Custody, RECIPIENTS } from "./custody.ts";
import type { Operating } from "./operating.ts";
import { BOOKS, type Person } from "./people.ts";
import type { Scene } from "./scene.ts";
import type { Streaming } from "./streaming.ts";
import type { Trading } from "./trading.ts";
import { Violation } from "./violation.ts";
import { openRequestTerms, placeQuoteTerms } from "../actors/terms.ts";

export type RoundParts = {
  readonly scene: Scene;
  readonly trading: Trading;
  readonly streaming: Streaming;
  readonly custody: Custody;
  readonly approvals: Approvals;
  readonly operating: Operating;
};

type Kind = Actor["credential"]["kind"];

export async function calmRound(parts: RoundParts): Promise<void> {
  const { scene } = parts;
  const [requester, maker] = scene.people.all;
  if (requester === undefined || maker === undefined) throw new Error("there are too few users");
  const dice = new Dice(`${scene.seed}/round/${scene.time.now}`);
  await scene.finish("round", dice, async () => {
    for (const person of [requester, maker]) await scene.credentials.refresh(person);
    for (const kind of ["session", "api_key"] as const) {
      for (const { asset } of BOOKS) await trade(parts, { requester, maker, kind, asset });
      await guard(parts, actorOf(maker, kind));
      await subscribe(parts, maker, dice);
    }
    await useCustody(parts, requester);
    await parts.operating.round(maker);
  });
}

/** Turns any error of the verb into a violation that names the verb. */
async function must<T>(verb: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Violation) throw error;
    const detail = error instanceof Problem ? error.data.detail : String(error);
    throw new Violation("verb_works_in_calm", `${verb}: ${codeOf(error)} ${detail}`);
  }
}

type Trade = {
  readonly requester: Person;
  readonly maker: Person;
  readonly kind: Kind;
  readonly asset: string;
};

/** A match of a quote that replaced another one, and then cancels of each kind. */
async function trade({ scene, trading }: RoundParts, of: Trade): Promise<void> {
  const carryOut = async (command: Command) => {
    const result = await trading.carryOut(command);
    if (!result.ok)
      throw new Violation("verb_works_in_calm", `${command.op}: ${JSON.stringify(result)}`);
  };
  const requester = { actor: actorOf(of.requester, of.kind) };
  const maker = { actor: actorOf(of.maker, of.kind) };
  const received = () => ({ receivedAt: scene.time.now });
  const open = async () => {
    const terms = openRequestTerms({ asset: of.asset, expiresInSecs: 60 });
    const request = openRequest({ ...requester, ...received() }, uuidv7(), terms, uuidv7());
    await carryOut(request);
    return request.requestId;
  };
  const place = async (requestId: string, replaces: string | null = null) => {
    const terms = placeQuoteTerms({ requestId, replaces });
    const quote = placeQuote({ ...maker, ...received() }, uuidv7(), terms, uuidv7());
    await carryOut(quote);
    return quote.quoteId;
  };
  const sent = () => ({ ...received(), operationId: uuidv7() });
  const matched = await open();
  const quoteId = await place(matched, await place(matched));
  const accept = { op: "accept", matchId: uuidv7(), quoteId } as const;
  await carryOut({ ...requester, ...accept, ...received() });
  const requestId = await open();
  const cancelled = await place(requestId);
  await carryOut({ ...maker, ...sent(), op: "cancel_quote", quoteId: cancelled });
  await place(requestId);
  await must("cancel_quotes", () => cancelQuotes(scene.env, maker.actor, {}));
  await carryOut({ ...requester, ...sent(), op: "cancel_request", requestId });
}

/** A protection that no match reaches, and a timer that is removed. */
async function guard({ scene: { env } }: RoundParts, actor: Actor): Promise<void> {
  const terms = { windowSecs: 1, maxMatches: 100, maxUsdc: null, cooldownSecs: 1 };
  await must("save_protection", () => saveProtection(env, actor, terms));
  await must("reset_protection", () => resetProtection(env, actor));
  await must("cancel_after", () => cancelAfter(env, actor, 600));
  await must("cancel_after", () => cancelAfter(env, actor, 0));
}

async function subscribe({ streaming }: RoundParts, person: Person, dice: Dice): Promise<void> {
  const [{ asset, venue }] = BOOKS;
  for (const stream of [accountStream(person.userId), bookStream(asset), venueStream(venue)])
    if (!(await must("subscribe", () => streaming.open(person, stream, dice))))
      throw new Violation("verb_works_in_calm", `subscribe: ${stream} refused the socket`);
}

/** A new address and three withdrawals, of which two wait: one is approved, one is cancelled. */
async function useCustody(parts: RoundParts, person: Person): Promise<void> {
  const { scene, custody, approvals } = parts;
  const settings = config(scene.env);
  const { chain } = defaultChain(settings);
  const actor = actorOf(person, "api_key");
  await must("new_address", () => custody.newAddress(person, actor));
  const order = (amount: bigint) =>
    must("withdraw", () =>
      withdraw(scene.env.DB, settings, {
        actor,
        terms: {
          clientWithdrawalId: uuidv7(),
          amount,
          asset: "usdc",
          toAddress: RECIPIENTS[0]!,
          chain,
        },
        ip: undefined,
      }),
    );
  await order(1_000_000n);
  for (const change of ["approve", "cancel"] as const) {
    const { row } = await order(APPROVAL_ABOVE + 1n);
    await must(`${change}_withdrawal`, () =>
      approvals.change(change, person, readUuid(row.withdrawal_id)),
    );
  }
}

function actorOf({ credentials, name }: Person, kind: Kind): Actor {
  const found = credentials.find(({ actor }) => actor.credential.kind === kind);
  if (found === undefined) throw new Violation("verb_works_in_calm", `${name} has no ${kind}`);
  return found.actor;
}
