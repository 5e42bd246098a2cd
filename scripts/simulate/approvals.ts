/** Withdrawals that wait for approval. An approval races with a cancel and with the payer. */
import { approveAfterStepUp } from "../../src/custody/approve-withdrawal.ts";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { config } from "../../src/platform/config.ts";
import { checkedActor } from "../../src/platform/actor.ts";
import { Problem } from "../../src/platform/problem.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { notifyStreams } from "../../src/streams/notify.ts";
import type { Dice } from "../actors/dice.ts";
import { type Person, sessionOf } from "./people.ts";
import type { Scene } from "./scene.ts";
import { Violation } from "./violation.ts";

/** Native units that these users withdraw in a day without approval. */
export const APPROVAL_ABOVE = 20_000_000n;
const CANCEL_CHANCE = 0.4;
const MAX_APART_MS = 100;

type Change = "approve" | "cancel";

export class Approvals {
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
  }

  /** Approves one of the latest that wait, and sometimes cancels it at the same time. */
  approve(name: string, dice: Dice): void {
    const { database, start, time } = this.#scene;
    const waiting = database.rows(
      `SELECT lower(hex(withdrawal_id)) AS id, lower(hex(user_id)) AS user FROM withdrawals
        WHERE status = 'awaiting_approval' ORDER BY created_at DESC, withdrawal_id LIMIT 5`,
    );
    if (waiting.length === 0) return;
    const { id, user } = dice.pick(waiting);
    const withdrawalId = readUuid(String(id));
    const person = this.#scene.people.all.find(({ userId }) => userId === readUuid(String(user)));
    if (person === undefined) return;
    time.after(dice.between(0, MAX_APART_MS), () =>
      start(name, dice, () => this.#try("approve", person, withdrawalId)),
    );
    if (!dice.chance(CANCEL_CHANCE)) return;
    time.after(dice.between(0, MAX_APART_MS), () =>
      start(`cancel/${name}`, dice, () => this.#try("cancel", person, withdrawalId)),
    );
  }

  async #try(what: Change, person: Person, withdrawalId: string): Promise<void> {
    try {
      await this.change(what, person, withdrawalId);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** Throws what the service answers. */
  async change(what: Change, person: Person, withdrawalId: string): Promise<void> {
    const { env } = this.#scene;
    const actor = sessionOf(person)?.actor;
    if (actor === undefined) return;
    const ip = undefined;
    await this.#scene.credentials.call(`${what}_waiting`, actor, async () => {
      if (what === "cancel") {
        const id = { withdrawal_id: withdrawalId };
        const { events } = await cancelWithdrawal(env.DB, { actor, id, ip });
        return notifyStreams(env, events);
      }
      const approval = { actor: checkedActor(actor, null), withdrawalId, ip };
      const { row, events } = await approveAfterStepUp(env.DB, config(env), approval);
      const sent = env.WITHDRAWALS.send({ withdrawal_id: withdrawalId, chain: row.chain });
      await Promise.all([notifyStreams(env, events), sent]);
    });
  }

  /** [W12] What was paid without approval is within the policy. A seed lasts less than a day. */
  check(): void {
    const over = this.#scene.database.rows(
      `SELECT hex(w.user_id) AS user, sum(w.amount) AS unapproved, p.withdraw_approval_above AS above
        FROM withdrawals w JOIN account_policies p ON p.user_id = w.user_id
        WHERE w.approved_at IS NULL AND w.status IN ('queued', 'submitted', 'settled')
        GROUP BY 1, 3 HAVING sum(w.amount) > p.withdraw_approval_above`,
    );
    if (over.length > 0) throw new Violation("approved_above_the_policy", JSON.stringify(over));
  }
}
