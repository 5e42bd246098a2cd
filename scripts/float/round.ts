/**
 * One round of the float of a venue: turns its tokens into USDC there and back, with the public
 * interface and the wallet of the float account. It stores nothing: each round looks at what the
 * account, the wallet and the pairs have, so it can be killed anywhere.
 */
import {
  type Address,
  encodeFunctionData,
  erc1155Abi,
  erc20Abi,
  getAddress,
  type Hex,
  isAddressEqual,
  parseAbi,
  type PublicClient,
  zeroHash,
} from "viem";
import {
  type Balance,
  type Client,
  type Market,
  Problem,
  type ServiceConfig,
} from "../../packages/client/src/index.ts";

const TOKENS_ABI = parseAbi([
  "function splitPosition(address, bytes32, bytes32, uint256[], uint256)",
  "function mergePositions(address, bytes32, bytes32, uint256[], uint256)",
  "function redeemPositions(address, bytes32, bytes32, uint256[])",
  "function payoutDenominator(bytes32) view returns (uint256)",
]);
/** The index sets of the two outcomes. */
const BOTH = [1n, 2n] as const;

export type FloatOptions = {
  readonly client: Client;
  readonly chain: Pick<PublicClient, "readContract">;
  readonly wallet: {
    readonly address: Address;
    /** Resolves when the transaction is mined, and throws if it reverted. */
    readonly send: (to: Address, data: Hex) => Promise<void>;
  };
  readonly venue: string;
  /** Units that each pair should be able to give of each token, and to take back of both. */
  readonly keep: bigint;
};

type Venue = { readonly usdc: Address; readonly tokens: Address; readonly chain: string } & Pick<
  ServiceConfig["chains"][number],
  "min_withdrawal"
>;

/** With what the account can give of its two tokens, and what the wallet has. */
type Pair = {
  readonly condition: Hex;
  readonly markets: readonly [Market, Market];
  readonly free: readonly [bigint, bigint];
  readonly held: readonly [bigint, bigint];
  readonly onChain: bigint;
  readonly issued: bigint;
};

/** Returns what it did, or why it waits. */
export async function floatRound(options: FloatOptions): Promise<string> {
  const { client, wallet } = options;
  const venue = await venueOf(options);
  for (const status of ["awaiting_approval", "queued", "submitted"] as const)
    for await (const _ of client.custody.withdrawals({ limit: 1, status }))
      return "waits for a withdrawal";
  for await (const _ of client.custody.deposits({ limit: 1, status: "confirming" }))
    return "waits for a deposit";
  const pairs = await readPairs(options, venue);
  const { usdc } = venue;
  const money = await balanceOf(options, usdc, undefined);
  const lacking = pairs.filter(isOpen).find((pair) => toBring(options, pair) > 0n);
  for (const pair of pairs) {
    const done = await convert(options, venue, pair);
    if (done !== undefined) return done;
  }
  if (money > 0n && lacking !== undefined) {
    const want = toBring(options, lacking);
    const amount = want < money ? want : money;
    await approve(options, venue, amount);
    const args = [usdc, zeroHash, lacking.condition, BOTH, amount] as const;
    await wallet.send(
      venue.tokens,
      encodeFunctionData({ abi: TOKENS_ABI, functionName: "splitPosition", args }),
    );
    return `split ${amount} of ${lacking.condition}`;
  }
  if (money > 0n) {
    const args = [await depositAddress(client, venue), money] as const;
    await wallet.send(usdc, encodeFunctionData({ abi: erc20Abi, functionName: "transfer", args }));
    return `deposits ${money} USDC`;
  }
  for (const pair of pairs) {
    const done = await move(options, venue, pair);
    if (done !== undefined) return done;
  }
  return "rests";
}

async function venueOf({ client, venue: name }: FloatOptions): Promise<Venue> {
  const { chains, venues } = await client.config();
  const venue = venues.find(({ venue_id }) => venue_id === name);
  const chain = chains.find((one) => one.chain === venue?.chain);
  const tokens = venue?.outcome_tokens ?? undefined;
  const collateral = venue?.collateral ?? undefined;
  if (chain === undefined || tokens === undefined || collateral === undefined)
    throw new Error(`${name} has no pairs with a chain`);
  // Another collateral needs conversions of its own.
  if (!isAddressEqual(getAddress(collateral), getAddress(chain.usdc)))
    throw new Error(`the collateral of ${name} is not the chain's USDC`);
  return { ...chain, usdc: getAddress(chain.usdc), tokens: getAddress(tokens) };
}

async function readPairs(options: FloatOptions, venue: Venue): Promise<Pair[]> {
  const { client } = options;
  const markets: Market[] = [];
  for await (const market of client.markets({ venue_id: options.venue }))
    if (market.condition !== null) markets.push(market);
  const balances: Balance[] = [];
  for await (const balance of client.custody.balances()) balances.push(balance);
  const byId = new Map(markets.map((market) => [market.asset_id, market]));
  const pairs: Pair[] = [];
  for (const first of markets) {
    const second = byId.get(first.complement_asset_id ?? "");
    if (second === undefined || first.asset_id > second.asset_id) continue;
    const free = (market: Market) =>
      balances.find(({ asset_id }) => asset_id === market.asset_id)?.balance ?? 0n;
    const stock = [first.withdrawable ?? 0n, second.withdrawable ?? 0n] as const;
    pairs.push({
      // Safe cast: the service's pattern.
      condition: first.condition as Hex,
      markets: [first, second],
      free: [free(first), free(second)],
      held: [
        await balanceOf(options, venue.tokens, first),
        await balanceOf(options, venue.tokens, second),
      ],
      onChain: least(stock),
      issued: first.issued ?? 0n,
    });
  }
  return pairs;
}

const least = ([one, other]: readonly [bigint, bigint]) => (one < other ? one : other);
const isOpen = ({ markets: [first] }: Pair) => first.result === null;

/** Sets that should come from the venue. */
function toBring({ keep }: FloatOptions, { onChain, issued }: Pair): bigint {
  return onChain >= keep ? 0n : least([keep - onChain, issued]);
}

/** Sets that should be issued and taken out, so that others can give theirs back. */
function toIssue({ keep }: FloatOptions, { onChain, issued }: Pair): bigint {
  return issued >= keep || onChain <= keep ? 0n : least([keep - issued, onChain - keep]);
}

/** What the wallet does with tokens: redeems, merges or deposits them. */
async function convert(
  options: FloatOptions,
  venue: Venue,
  pair: Pair,
): Promise<string | undefined> {
  const { wallet, chain, keep } = options;
  const { condition, held } = pair;
  const { usdc, tokens } = venue;
  if (held[0] === 0n && held[1] === 0n) return undefined;
  const payout = await chain.readContract({
    address: tokens,
    abi: TOKENS_ABI,
    functionName: "payoutDenominator",
    args: [condition],
  });
  if (payout > 0n) {
    const args = [usdc, zeroHash, condition, BOTH] as const;
    await wallet.send(
      tokens,
      encodeFunctionData({ abi: TOKENS_ABI, functionName: "redeemPositions", args }),
    );
    return `redeemed ${condition}`;
  }
  const sets = least(held);
  if (sets > 0n && pair.onChain >= keep) {
    const args = [usdc, zeroHash, condition, BOTH, sets] as const;
    await wallet.send(
      tokens,
      encodeFunctionData({ abi: TOKENS_ABI, functionName: "mergePositions", args }),
    );
    return `merged ${sets} of ${condition}`;
  }
  const to = await depositAddress(options.client, venue);
  for (const [index, { asset_id }] of pair.markets.entries()) {
    const amount = held[index] ?? 0n;
    if (amount === 0n) continue;
    const args = [wallet.address, to, BigInt(asset_id), amount, "0x"] as const;
    await wallet.send(
      tokens,
      encodeFunctionData({ abi: erc1155Abi, functionName: "safeTransferFrom", args }),
    );
  }
  return `deposits tokens of ${condition}`;
}

/** What the account does: withdraws what the wallet converts, and redeems or issues the rest. */
async function move(options: FloatOptions, venue: Venue, pair: Pair): Promise<string | undefined> {
  const { client, keep } = options;
  const { markets, free } = pair;
  const [first] = markets;
  if (!isOpen(pair)) {
    const isFinal = first.settles_at !== null && Date.parse(first.settles_at) <= Date.now();
    for (const [index, market] of markets.entries()) {
      const amount = free[index] ?? 0n;
      if (amount === 0n || !isFinal || market.result === 0) continue;
      const done = await takeOut(options, venue, amount, market);
      if (done !== undefined) return done;
    }
    return undefined;
  }
  const sets = least(free);
  const spare = least([sets, pair.issued - keep]);
  if (spare > 0n) {
    await client.custody.redeem({ ...idsOf(first), amount: spare });
    return `redeemed ${spare} of both`;
  }
  if (sets > 0n && pair.onChain > keep) {
    const amount = least([sets, pair.onChain - keep]);
    const done = [
      await takeOut(options, venue, amount, markets[0]),
      await takeOut(options, venue, amount, markets[1]),
    ].filter((text) => text !== undefined);
    return done.length > 0 ? done.join(", ") : undefined;
  }
  const { balance } = await client.custody.usdcBalance();
  const issue = least([toIssue(options, pair), balance]);
  if (issue > 0n && sets === 0n) {
    await client.custody.split({ ...idsOf(first), amount: issue });
    return `issued ${issue} of both`;
  }
  const bring = least([toBring(options, pair), balance]);
  return bring > 0n ? takeOut(options, venue, bring) : undefined;
}

const idsOf = ({ venue_id, asset_id }: Market) => ({ venue_id, asset_id });

/** Undefined: less than a withdrawal can be. One of which the chain has less is made smaller. */
async function takeOut(
  options: FloatOptions,
  venue: Venue,
  amount: bigint,
  market?: Market,
): Promise<string | undefined> {
  if (amount < venue.min_withdrawal) return undefined;
  try {
    await options.client.custody.withdraw({
      client_withdrawal_id: crypto.randomUUID(),
      amount,
      to_address: options.wallet.address,
      chain: venue.chain,
      ...(market === undefined ? {} : idsOf(market)),
    });
    return `withdraws ${amount} of ${market?.asset_id ?? "USDC"}`;
  } catch (error) {
    if (!(error instanceof Problem) || !error.is("chain_liquidity")) throw error;
    const available = BigInt(error.body.available);
    return available < amount ? takeOut(options, venue, available, market) : undefined;
  }
}

async function depositAddress(client: Client, { chain }: Venue): Promise<Address> {
  const known = await client.custody.depositAddresses();
  const own = known.find((one) => one.chain === chain && one.current);
  return getAddress((own ?? (await client.custody.createDepositAddress({ chain }))).address);
}

/** Of USDC, or of a token. */
function balanceOf(
  { chain, wallet }: FloatOptions,
  address: Address,
  market: Market | undefined,
): Promise<bigint> {
  return market === undefined
    ? chain.readContract({
        address,
        abi: erc20Abi,
        functionName: "balanceOf",
        args: [wallet.address],
      })
    : chain.readContract({
        address,
        abi: erc1155Abi,
        functionName: "balanceOf",
        args: [wallet.address, BigInt(market.asset_id)],
      });
}

async function approve(
  { chain, wallet }: FloatOptions,
  { usdc, tokens }: Venue,
  amount: bigint,
): Promise<void> {
  const allowed = await chain.readContract({
    address: usdc,
    abi: erc20Abi,
    functionName: "allowance",
    args: [wallet.address, tokens],
  });
  if (allowed >= amount) return;
  const args = [tokens, amount] as const;
  await wallet.send(usdc, encodeFunctionData({ abi: erc20Abi, functionName: "approve", args }));
}
