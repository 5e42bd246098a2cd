import { expect, it } from "vitest";
import { type Address, keccak256 } from "viem";
import { remoteAccount } from "../../src/chain/payer-account.ts";
import { anvilUrl, openStage, someone } from "./support/stage.ts";

it("a remote signer's transaction must match the request and the account", async () => {
  const stage = await openStage();
  const [mine, other] = (await stage.rpc("eth_accounts", [])) as Address[];
  if (mine === undefined || other === undefined) throw new Error("anvil has accounts");
  const asked = {
    nonce: 7,
    to: someone(),
    data: "0xabcd" as const,
    gasLimit: 100_000n,
    fees: { maxFee: 20n, priorityFee: 2n },
  };
  const signed = await remoteAccount({ url: anvilUrl(), address: mine }, 31_337).sign(asked);
  expect(signed.hash).toBe(keccak256(signed.raw));
  const substituted = await stage.faultyEndpoint(
    (_method, result) => result,
    (call) => ({ ...call, params: [{ ...(call.params as [object])[0], from: other }] }),
  );
  await expect(
    remoteAccount({ url: substituted, address: mine }, 31_337).sign(asked),
  ).rejects.toThrow(/another account/);
  const changed = await stage.faultyEndpoint(
    (_method, result) => result,
    (call) => ({ ...call, params: [{ ...(call.params as [object])[0], to: someone() }] }),
  );
  await expect(remoteAccount({ url: changed, address: mine }, 31_337).sign(asked)).rejects.toThrow(
    /another transaction/,
  );
  const silent = await stage.faultyEndpoint(() => ({ error: "no" }));
  await expect(remoteAccount({ url: silent, address: mine }, 31_337).sign(asked)).rejects.toThrow(
    /signed bytes/,
  );
});
