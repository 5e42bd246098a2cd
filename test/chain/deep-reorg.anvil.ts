/** After a reorg below the confirmed block: the halt, and the payer that learns of it first. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { toHex } from "viem";
import { USDC } from "../../src/assets/asset.ts";
import { readCursor } from "../../src/chain/chain-cursor.ts";
import { funded } from "./support/drive.ts";
import { type Lie, type Node, withNodes } from "./support/nodes.ts";
import { openStage, someone } from "./support/stage.ts";
import { some } from "../support/depth.ts";

it.each(some([0, 1, 2]))(
  "one of three endpoints cannot prevent the halt of a deep reorg (index %i)",
  async (index) => {
    const stage = await openStage();
    const nodes = await withNodes(stage, 3);
    await stage.mine(5);
    await stage.watch();
    const confirmed = (await readCursor(env.DB, stage.chain.chain))?.confirmed.number ?? 0;
    const old = await stage.rpc("eth_getBlockByNumber", [toHex(confirmed), false]);
    const keepOld: Lie = (method, result, params) =>
      method === "eth_getBlockByNumber" && Number((params as unknown[])[0]) === confirmed
        ? old
        : result;
    Object.assign(nodes[index] as Node, { lie: keepOld });
    await stage.reorg(6, 8);
    expect(await stage.watch()).toMatchObject({ status: "halted" });
    expect(await stage.alerts()).toContain("chain_halted");
  },
);

it.each([{ endpoints: "one" }, { endpoints: "two, of which one is away" }])(
  "a payer pays nothing on a fork that the watcher has not seen ($endpoints)",
  async ({ endpoints }) => {
    const stage = await openStage();
    const user = await funded(stage);
    const { paymentId } = await stage.withdraw(user.userId, USDC, 10n, someone());
    if (endpoints !== "one") Object.assign((await withNodes(stage, 2))[0] as Node, { away: true });
    await stage.reorg(2, 4);
    await expect((await stage.payer()).round()).rejects.toThrow();
    await stage.mine();
    expect(await stage.paidCount(paymentId)).toBe(0);
  },
);
