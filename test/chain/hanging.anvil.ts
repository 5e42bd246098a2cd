import { afterEach, expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { setClock } from "../../src/platform/time.ts";
import { drive, expectRest, funded } from "./support/drive.ts";
import { withNodes } from "./support/nodes.ts";
import { openStage, someone } from "./support/stage.ts";

afterEach(() => setClock({}));

it("asks an endpoint that hangs in its responses once in ten seconds", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const [hanging] = await withNodes(stage, 3);
  if (hanging === undefined) throw new Error("no node");
  const at = Date.now();
  setClock({ now: () => at });
  hanging.hangs = true;
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 100n, someone());
  expect(await drive(stage, id)).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  // Calls that were made at once.
  expect(hanging.calls).toBeLessThan(4);

  hanging.hangs = false;
  setClock({ now: () => at + 20_000 });
  const next = await stage.withdraw(user.userId, USDC, 100n, someone());
  expect(await drive(stage, next.id)).toBe("settled");
  expect(hanging.calls).toBeGreaterThan(5);
  expect(await stage.alerts()).toEqual([]);
  await expectRest(stage);
});
