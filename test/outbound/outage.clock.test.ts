/** A receiver of alerts that was down, in minutes of virtual time. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { Cron } from "../../src/cron.ts";
import { raiseAlert } from "../../src/platform/alert.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { advanceClock } from "../support/market.ts";
import { newReceiver, SECRETS } from "../support/receiver.ts";

it("is tried each minute, and gets all alerts in the first one after its return", async () => {
  const receiver = newReceiver();
  const change = { ALERT_URL: receiver.url, ALERT_SECRETS: JSON.stringify(SECRETS) };
  const outage = Array.from({ length: 5 }, () => uuidv7());
  const received = async () =>
    (await receiver.bodies()).map(({ data }) => data.subject).filter((one) => outage.includes(one));
  await runInDurableObject(env.CRON.getByName(uuidv7()), async (_: Cron, ctx) => {
    const cron = new Cron(ctx, { ...env, ...change });
    /** As often as wrangler.toml says (test/deploy/deploy.node.test.ts). */
    const nextMinute = async () => {
      await advanceClock(60_000);
      while (await cron.run("deliver_alerts"));
    };
    // What other tests left open.
    await nextMinute();
    await receiver.answer(500);
    for (const subject of outage) {
      await raiseAlert(env.DB, "gas_low", subject, "little");
      await nextMinute();
    }
    expect(await received()).toEqual(outage.map(() => outage[0]));
    await receiver.answer(200);
    await nextMinute();
    expect((await received()).slice(outage.length)).toEqual(outage);
  });
});
