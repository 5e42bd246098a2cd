/** An endpoint of three whose responses never end: it costs the others a second, then rests. */
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { EndpointAlerts } from "../../src/chain/endpoint-alerts.ts";
import { hostOf } from "../../src/chain/rpc.ts";
import { setClock } from "../../src/platform/time.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { type Node, withNodes } from "./support/nodes.ts";
import { openStage, someone } from "./support/stage.ts";
import { itDeeper, rounds } from "../support/depth.ts";

afterEach(() => setClock({}));

async function openNodes(index: number) {
  const stage = await openStage();
  const user = await funded(stage);
  const hanging = (await withNodes(stage, 3))[index] as Node;
  let at = Date.now();
  setClock({ now: () => at });
  const pay = () => stage.withdraw(user.userId, USDC, 100n, someone());
  return { stage, user, hanging, pay, later: (ms: number) => void (at += ms) };
}

const HANGING = [
  [0, "eth_getBlockByNumber"],
  [1, "eth_getBlockByNumber"],
  [0, true],
  [2, "eth_getBlockByNumber"],
] as const;

it.each(HANGING.slice(0, rounds(2, HANGING.length)))(
  "endpoint %i that hangs (not in: %s) delays payments by seconds",
  async (index, hangs) => {
    const { stage, hanging, pay, later } = await openNodes(index);
    hanging.hangs = hangs;
    const started = performance.now();
    const { id, paymentId } = await pay();
    expect(await drive(stage, id)).toBe("settled");
    expect(await stage.paidCount(paymentId)).toBe(1);
    // Ten seconds for each of several reads before.
    expect(performance.now() - started).toBeLessThan(20_000);

    const before = hanging.calls;
    hanging.hangs = false;
    later(31_000);
    expect(await drive(stage, (await pay()).id)).toBe("settled");
    expect(hanging.calls).toBeGreaterThan(before + 5);
    await expectRest(stage);
  },
);

itDeeper(
  "an alert names the host of an endpoint that keeps hanging, until it is well",
  async () => {
    const { stage, hanging, later } = await openNodes(0);
    const alerts = new EndpointAlerts();
    const round = async () => {
      await stage.mine();
      await stage.watch();
      await alerts.report(env.DB, "watcher", stage.chain, { DEPLOY_ENV: "test" });
      later(31_000);
      return stage.alerts();
    };
    hanging.hangs = "eth_getBlockByNumber";
    expect(await round()).toEqual([]);
    expect(await round()).toEqual([]);
    expect(await round()).toEqual(["endpoint_failing"]);
    hanging.hangs = false;
    const subject = `${stage.chain.chain}:watcher:${hostOf(stage.chain.rpc_urls[0] ?? "")}`;
    await stage.answerAlert("endpoint_failing", round, { subject });
  },
);
