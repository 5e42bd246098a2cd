/** The stack of the drill: two RPC proxies, a receiver of alerts, and a user with funds. */
import { randomBytes } from "node:crypto";
import { encodeFunctionData, type EncodeFunctionDataParameters, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { Client } from "../../packages/client/src/index.ts";
import { Dice } from "../actors/dice.ts";
import { Gate, startRpcProxy } from "../soak/rpc-proxy.ts";
import { openLocalChain } from "../stack/anvil-chain.ts";
import { ANVIL_ACCOUNT_KEYS, openFaucet } from "../stack/faucet.ts";
import { localSettings, makeSecrets } from "../stack/local-settings.ts";
import { freePort } from "../stack/ports.ts";
import { type Stack, startStack } from "../stack/start-stack.ts";
import { fund, newUser, withKey } from "../actors/users.ts";
import { withdrawKey } from "../actors/withdraw-key.ts";
import { startReceiver } from "./receiver.ts";

export type Drill = Awaited<ReturnType<typeof openDrill>>;

const SECRET = "whsec_ZHJpbGwtc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=";
/** What is sealed and deleted after an hour is so after a minute. */
const HOT_WINDOWS_DIVISOR = "60";
const FUNDS = 1_000_000_000n;
const GAS = 200_000n;

export async function openDrill(dir: string, onStop: (stop: () => Promise<void>) => void) {
  const stack = await startStack({ port: await freePort(), rpcPort: await freePort(), dir });
  onStop(() => stack.stop());
  const receiver = await startReceiver();
  onStop(receiver.stop);
  const parts = { dice: new Dice("drill"), gate: new Gate() };
  const proxies = [
    await startRpcProxy(stack.rpcUrl, parts),
    await startRpcProxy(stack.rpcUrl, parts),
  ] as const;
  onStop(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
  await stack.restartWorker({
    CHAINS: twoEndpoints(
      stack,
      proxies.map(({ url }) => url),
    ),
    HOT_WINDOWS_DIVISOR,
    ALERT_URL: `${receiver.url}/alerts`,
    ALERT_SECRETS: JSON.stringify([SECRET]),
    HEARTBEAT_URL: `${receiver.url}/heartbeat`,
  });
  const trader = await newTrader(stack);
  return { stack, receiver, proxies, trader, chain: await openChain(stack) };
}

function twoEndpoints({ deployment, rpcUrl }: Stack, rpc_urls: readonly string[]): string {
  const local = localSettings({ secrets: makeSecrets(), deployment, rpcUrl });
  const [chain] = JSON.parse(local["CHAINS"] ?? "[]") as object[];
  return JSON.stringify([{ ...chain, rpc_urls, finality_stall_secs: 60 }]);
}

async function newTrader(stack: Stack) {
  const email = `drill-${randomBytes(4).toString("hex")}@test.example`;
  const user = await newUser(new Client({ baseUrl: stack.baseUrl }), email);
  const key = await withdrawKey(stack, user.session, { scopes: ["read", "withdraw"] });
  const withdrawer = user.session.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  const client = await withKey(user.session, "drill");
  const faucet = await openFaucet(stack);
  const give = () => fund(faucet, [{ client, to: user.address, asset: null, amount: FUNDS }]);
  await give();
  return { ...user, client, withdrawer, give };
}

/** The admin and pauser of the vault, and anvil's own calls. */
async function openChain({ rpcUrl, deployment, payer }: Stack) {
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.deployer);
  const { client, wallet } = await openLocalChain(rpcUrl, account, 100);
  const rpc = (method: string, params: unknown[]): Promise<unknown> =>
    client.request({ method: method as never, params: params as never });
  return {
    client,
    /** As the admin. */
    vault: async (call: Omit<EncodeFunctionDataParameters<typeof vaultAbi>, "abi">) => {
      // Safe cast: the parameter's type names a function and its arguments.
      const data = encodeFunctionData({ abi: vaultAbi, ...call } as never);
      const hash = await wallet.sendTransaction({ to: deployment.vault, data, gas: GAS });
      const { status } = await client.waitForTransactionReceipt({ hash });
      if (status !== "success") throw new Error(`${call.functionName} failed: ${hash}`);
    },
    /** 0: none. */
    mineEvery: (secs: number) => rpc("evm_setIntervalMining", [secs]),
    setGas: (wei: bigint) => rpc("anvil_setBalance", [payer, toHex(wei)]),
  };
}
