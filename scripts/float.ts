/** `npm run float` keeps the float of a venue (docs/handbook.md), until it is stopped. */
import { createPublicClient, createWalletClient, type Hex, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { Client } from "../packages/client/src/index.ts";
import { floatRound } from "./float/round.ts";
import { readArguments, refuse } from "./stack/arguments.ts";
import { runScript } from "./stack/shutdown.ts";

const USAGE = `npm run float -- --url <url> --venue <venue> --rpc <url> [--keep <units>]

Splits, merges and redeems outcome tokens at a venue for its float account, so that users can
withdraw what was minted and are paid for what they deposited. Environment:

  FLOAT_KEY_ID, FLOAT_KEY_SECRET  an API key of the account: read, trade, withdraw
  FLOAT_WALLET_KEY                private key of its wallet, which has gas and nothing else

  --url <url>      the service
  --venue <venue>  whose float_account it is
  --rpc <url>      a node of the venue's chain
  --keep <units>   what each pair should be able to give and take (default: 1000000000)
  --pause <secs>   between two rounds (default: 15)`;

const text = { type: "string" } as const;
const given = readArguments(USAGE, {
  url: { ...text, default: "" },
  venue: { ...text, default: "" },
  rpc: { ...text, default: "" },
  keep: { ...text, default: "1000000000" },
  pause: { ...text, default: "15" },
});
const { FLOAT_KEY_ID: apiKeyId, FLOAT_KEY_SECRET: secret, FLOAT_WALLET_KEY: key } = process.env;
if (given.url === "" || given.venue === "" || given.rpc === "")
  refuse("--url, --venue and --rpc are needed.", USAGE);
if (apiKeyId === undefined || secret === undefined || !/^0x[0-9a-f]{64}$/i.test(key ?? ""))
  refuse("FLOAT_KEY_ID, FLOAT_KEY_SECRET and FLOAT_WALLET_KEY are needed.", USAGE);

await runScript(async (onStop) => {
  const stopping = new AbortController();
  onStop(async () => stopping.abort());
  // Safe cast: the pattern above.
  const account = privateKeyToAccount(key as Hex);
  const chain = createPublicClient({ transport: http(given.rpc) });
  const signer = createWalletClient({ account, transport: http(given.rpc) });
  const send = async (to: Hex, data: Hex) => {
    const hash = await signer.sendTransaction({ to, data, chain: null });
    const { status } = await chain.waitForTransactionReceipt({ hash });
    if (status !== "success") throw new Error(`${hash} reverted`);
  };
  const options = {
    client: new Client({ baseUrl: given.url, credential: { apiKeyId, secret } }),
    chain,
    wallet: { address: account.address, send },
    venue: given.venue,
    keep: BigInt(given.keep),
  };
  let last = "";
  while (!stopping.signal.aborted) {
    const did = await floatRound(options).catch((error: unknown) => `failed: ${String(error)}`);
    if (did !== last) console.log(did);
    last = did;
    await new Promise((resolve) => setTimeout(resolve, Number(given.pause) * 1_000));
  }
  return 0;
});
