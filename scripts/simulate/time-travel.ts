/** The end of a seed: D1 is put back to before seals, `restore` runs, and everything continues. */
import type { OperatorContext } from "../../src/operator/context.ts";
import { unfreeze } from "../../src/operator/users.ts";
import { resume } from "../../src/operator/trading.ts";
import { setPaused } from "../../src/operator/withdrawals.ts";
import { Dice } from "../actors/dice.ts";
import { calmRound, type RoundParts } from "./calm-round.ts";
import type { OldRecords } from "./old-records.ts";
import { BOOKS } from "./people.ts";
import type { Safeguards } from "./safeguards.ts";
import type { Sealing } from "./sealing.ts";

/** Until what was traded is sealed and released. */
const SEALED_MS = 260_000;
/** Until cron has woken the sealer. */
const NOTICED_MS = 70_000;
const STEPS = 100;
const ACTIONS = { open_request: 3, place_quote: 6, accept: 3, cancel_quote: 1 } as const;

export type Parts = RoundParts & {
  readonly old: OldRecords;
  readonly sealing: Sealing;
  readonly safeguards: Safeguards;
  readonly context: (words: string[], options: Record<string, string>) => OperatorContext;
  readonly advance: (ms: number) => Promise<void>;
  /** Lets everything settle and checks all invariants. */
  readonly quiet: () => Promise<void>;
};

export async function timeTravel(parts: Parts): Promise<void> {
  const { scene, streaming, sealing, safeguards, context, advance } = parts;
  const dice = new Dice(`${scene.seed}/time-travel`);
  streaming.closeAll();
  await admitAll(parts);
  safeguards.calm();
  await calmRound(parts);
  streaming.closeAll();
  // Its withdrawals are paid.
  await parts.quiet();
  const snapshot = scene.database.snapshot();
  const takenAt = scene.time.now;
  await trade(parts, dice);
  await sealing.loseMany();
  await trade(parts, dice);
  await advance(SEALED_MS);
  // The sealer does not see these any more.
  await trade(parts, dice);
  sealing.putBack(snapshot);
  scene.people.forget();
  parts.old.forgetAfter(takenAt);
  safeguards.forget();
  await trade(parts, dice);
  await advance(NOTICED_MS);
  await sealing.restore(context([], {}));
  await calmRound(parts);
  streaming.closeAll();
  const since = scene.time.now;
  await trade(parts, dice);
  await advance(SEALED_MS);
  await parts.quiet();
  sealing.checkRestored(since);
  await sealing.verify();
}

/** Everybody may trade everywhere. */
function admitAll({ scene, context }: Parts): Promise<void> {
  return scene.finish("admit", new Dice("admit"), async () => {
    for (const { venue } of BOOKS) await resume(context([venue], {}));
    await setPaused(context([], {}), false);
    for (const person of scene.people.all) {
      await unfreeze(context([], { "user-id": person.userId }));
      person.frozen = false;
      scene.credentials.login(person);
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
