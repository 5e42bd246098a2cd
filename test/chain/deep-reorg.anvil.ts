/** The halt after a reorg below the confirmed block, with an endpoint that lies. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { toHex } from "viem";
import { readCursor } from "../../src/chain/chain-cursor.ts";
import { type Lie, type Node, withNodes } from "./support/nodes.ts";
import { openStage } from "./support/stage.ts";

it.each([0, 1, 2])(
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
