/** The end of a seed: D1 is put back to before seals, `restore` runs, and everything continues. */
import type { OperatorContext } from "../../src/operator/context.ts";
import { unfreeze } from "../../src/operator/users.ts";
import { resume } from "../../src/operator/venues.ts";
import { Dice } from "../soak/dice.ts";
import { BOOKS, type People, sessionOf } from "./people.ts";
import type { Safeguards } from "./safeguards.ts";
import type { Scene } from "./scene.ts";
import type { Sealing } from "./sealing.ts";
import type { Streaming } from "./streaming.ts";
import type { Trading } from "./trading.ts";

/** Until what was traded is sealed and released. */
const SEALED_MS = 260_000;
/** Until cron has woken the sealer. */
const NOTICED_MS = 70_000;
const STEPS = 100;
const LIVE_KEY = "SELECT count(*) FROM api_keys WHERE api_key_id = unhex(?) AND revoked_at IS NULL";
const ACTIONS = { open_request: 3, place_quote: 6, accept: 3, cancel_quote: 1 } as const;

export type Parts = {
  readonly scene: Scene;
  readonly people: People;
  readonly trading: Trading;
  readonly streaming: Streaming;
  readonly sealing: Sealing;
  readonly safeguards: Safeguards;
  readonly context: (words: string[], options: Record<string, string>) => OperatorContext;
  readonly advance: (ms: number) => Promise<void>;
  /** Lets everything settle and checks all invariants. */
  readonly quiet: () => Promise<void>;
};

export async function timeTravel(parts: Parts): Promise<void> {
  const { scene, people, streaming, sealing, safeguards, context, advance } = parts;
  const dice = new Dice(`${scene.seed}/time-travel`);
  streaming.closeAll();
  await admitAll(parts);
  safeguards.calm();
  const snapshot = scene.database.snapshot();
  await trade(parts, dice);
  await sealing.loseMany();
  await trade(parts, dice);
  await advance(SEALED_MS);
  // The sealer does not see these any more.
  await trade(parts, dice);
  sealing.putBack(snapshot);
  people.forget();
  safeguards.forget();
  await trade(parts, dice);
  await advance(NOTICED_MS);
  await sealing.restore(context([], {}));
  const since = scene.time.now;
  await trade(parts, dice);
  await advance(SEALED_MS);
  await parts.quiet();
  sealing.checkRestored(since);
  await sealing.verify();
}

/** Everybody may trade everywhere. */
function admitAll({ scene, people, context }: Parts): Promise<void> {
  return scene.finish("admit", new Dice("admit"), async () => {
    for (const { venue } of BOOKS) await resume(context([venue], {}));
    for (const person of people.all) {
      await unfreeze(context([], { "user-id": person.userId }));
      person.frozen = false;
      // A freeze has ended the sessions, and the answer to a revocation may be lost.
      const id = person.userId.replaceAll("-", "");
      const epoch = "SELECT session_epoch FROM users WHERE user_id = unhex(?)";
      person.epoch = scene.database.count(epoch, id);
      person.credentials = person.credentials.filter(
        ({ actor }) =>
          actor.credential.kind === "api_key" &&
          scene.database.count(LIVE_KEY, actor.credential.apiKeyId.replaceAll("-", "")) > 0,
      );
      person.credentials.push(sessionOf(person, scene.time.now));
    }
  });
}

/** Commands in clear weather. */
async function trade({ scene, trading, advance }: Parts, dice: Dice): Promise<void> {
  for (let index = 0; index < STEPS; index++) {
    const kind = dice.weighted(ACTIONS);
    const step = { index: -1, kind, waitMs: 0, weather: "clear" };
    trading.act(kind, step, new Dice(`${scene.seed}/trade/${dice.hex(8)}`));
    await advance(dice.between(0, 100));
  }
}
