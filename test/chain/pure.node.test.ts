import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  encodeAbiParameters,
  encodeEventTopics,
  getAddress,
  type Hex,
  keccak256,
  pad,
  parseAbi,
  toHex,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { cloneAddress, depositAddressFor, saltOf } from "../../src/chain/addresses.ts";
import { type Contracts, decodeLogs, type MinedLog } from "../../src/chain/decode-logs.ts";
import {
  areTooLow,
  feeLimits,
  firstFees,
  replacementFees,
  smallestSweep,
} from "../../src/chain/fees.ts";
import { confirmedHeight } from "../../src/chain/follow-head.ts";
import { checkedAccount, toEip1559, type Unsigned } from "../../src/chain/payer-account.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import {
  choosePayments,
  type Job,
  reachedLimits,
  waitingForLimit,
} from "../../src/custody/payer/choose-payments.ts";
import { testChain } from "../support/chain-config.ts";

const address = (digit: string) => getAddress(`0x${digit.repeat(40)}`);
const chain = testChain({
  chain: "local",
  rpc_urls: ["http://127.0.0.1:1"],
  factory: address("1"),
  vault: address("2"),
  usdc: address("3"),
});
const USER = "0190aaaa-0000-7000-8000-000000000001";

describe("deposit addresses", () => {
  it("depend on user, chain, nonce, key and factory", () => {
    const settings = { ADDRESS_KEY: "k".repeat(32) };
    const base = depositAddressFor(settings, chain, USER, 0);
    const others = [
      depositAddressFor(settings, chain, USER, 1),
      depositAddressFor(settings, chain, USER.replace(/1$/, "2"), 0),
      depositAddressFor({ ADDRESS_KEY: "j".repeat(32) }, chain, USER, 0),
      depositAddressFor(settings, { ...chain, chain: "base" }, USER, 0),
      depositAddressFor(settings, { ...chain, factory: address("4") }, USER, 0),
    ];
    expect(new Set([base, ...others].map((derived) => derived.address)).size).toBe(6);
    expect(depositAddressFor(settings, chain, USER.toUpperCase(), 0)).toEqual(base);
    expect(base.salt).toBe(
      saltOf(settings.ADDRESS_KEY, { userId: USER, chain: "local", nonce: 0 }),
    );
  });

  it("are EIP-1167 clones at their CREATE2 addresses", () => {
    const factory = address("a");
    const salt = pad("0x01");
    const implementation = `0x${keccak256(`0xd694${factory.slice(2).toLowerCase()}01`).slice(-40)}`;
    const code =
      `0x3d602d80600a3d3981f3363d3d373d3d3d363d73${implementation.slice(2)}5af43d82803e903d91602b57fd5bf3` as Hex;
    const expected = keccak256(
      `0xff${factory.slice(2)}${salt.slice(2)}${keccak256(code).slice(2)}` as Hex,
    ).slice(-40);
    expect(cloneAddress(factory, salt).toLowerCase()).toBe(`0x${expected}`);
  });

  it("payment ids take a key of the service", () => {
    const idBy = (ADDRESS_KEY: string, user = USER) => paymentId({ ADDRESS_KEY }, user, "w-1");
    const unkeyed = keccak256(`0x${USER.replaceAll("-", "")}${Buffer.from("w-1").toString("hex")}`);
    expect(idBy("k".repeat(32))).toMatch(/^0x[0-9a-f]{64}$/);
    expect(idBy("k".repeat(32))).toBe(idBy("k".repeat(32), USER.toUpperCase()));
    expect(new Set([unkeyed, idBy("k".repeat(32)), idBy("l".repeat(32))]).size).toBe(3);
    expect(() => idBy("k".repeat(32), "abc")).toThrow();
  });
});

describe("fees", () => {
  const GWEI = 10n ** 9n;
  const wei = fc.bigInt(0n, 2_000n * GWEI);
  const limits = feeLimits(chain);
  const small = { maxFee: 1_000n, minTip: 0n, maxTip: 100n };

  it("bound a background sweep from below by min_sweep and by its gas", () => {
    const market = { baseFee: 28n * GWEI, tip: 2n * GWEI };
    const min_sweep = 1_000_000;
    expect(smallestSweep({ min_sweep }, market)).toBe(1_000_000n);
    // 58,000 gas at 30 gwei are 0.00174 coins.
    expect(smallestSweep({ min_sweep, native_price: 500_000 }, market)).toBe(1_000_000n);
    expect(smallestSweep({ min_sweep, native_price: 3_000_000_000 }, market)).toBe(5_220_001n);
  });

  it("of a replacement rise by 12.5 % within the limits", () => {
    fc.assert(
      fc.property(wei, wei, wei, wei, (maxFee, tip, baseFee, marketTip) => {
        const highest = { maxFee, priorityFee: tip < maxFee ? tip : maxFee };
        const fees = replacementFees(highest, { baseFee, tip: marketTip }, limits);
        if (fees === undefined) return;
        expect(fees.maxFee * 8n >= highest.maxFee * 9n && fees.maxFee > highest.maxFee).toBe(true);
        expect(
          fees.priorityFee * 8n >= highest.priorityFee * 9n &&
            fees.priorityFee > highest.priorityFee,
        ).toBe(true);
        expect(fees.maxFee <= limits.maxFee && fees.priorityFee <= fees.maxFee).toBe(true);
        expect(fees.priorityFee).toBeLessThanOrEqual(limits.maxTip);
      }),
    );
  });

  it("of a first attempt stay within the limits", () => {
    expect(firstFees({ baseFee: 30n, tip: 2n }, small)).toEqual({ maxFee: 62n, priorityFee: 2n });
    expect(firstFees({ baseFee: 800n, tip: 2n }, small)).toEqual({
      maxFee: 1_000n,
      priorityFee: 2n,
    });
    expect(firstFees({ baseFee: 1_001n, tip: 2n }, small)).toBeUndefined();
  });

  it("of a first attempt leave room to raise the tip", () => {
    const fees = firstFees({ baseFee: 30n, tip: 5_000n }, small);
    expect(fees).toEqual({ maxFee: 110n, priorityFee: 50n });
    const market = { baseFee: 300n, tip: 5_000n };
    expect(replacementFees({ maxFee: 110n, priorityFee: 50n }, market, small)).toEqual({
      maxFee: 650n,
      priorityFee: 57n,
    });
  });

  it("are undefined if a limit allows no sufficient raise", () => {
    const market = { baseFee: 10n, tip: 1n };
    expect(replacementFees({ maxFee: 900n, priorityFee: 10n }, market, small)).toBeUndefined();
    expect(replacementFees({ maxFee: 200n, priorityFee: 90n }, market, small)).toBeUndefined();
  });

  it("are too low once the market pays a higher tip", () => {
    const fees = { maxFee: 62n, priorityFee: 2n };
    expect(areTooLow(fees, { baseFee: 60n, tip: 2n }, small)).toBe(false);
    expect(areTooLow(fees, { baseFee: 61n, tip: 2n }, small)).toBe(true);
    expect(areTooLow(fees, { baseFee: 30n, tip: 3n }, small)).toBe(true);
    expect(areTooLow({ maxFee: 110n, priorityFee: 50n }, { baseFee: 9n, tip: 99n }, small)).toBe(
      false,
    );
  });

  it("default to a lowest tip of 25 gwei on Polygon", () => {
    expect(feeLimits({ ...chain, chain_id: 137 }).minTip).toBe(25n * GWEI);
    expect(feeLimits({ ...chain, chain_id: 137, min_tip_gwei: 30 }).minTip).toBe(30n * GWEI);
    expect(feeLimits({ ...chain, min_tip_gwei: 0.001 }).minTip).toBe(GWEI / 1_000n);
    expect(limits.minTip).toBe(0n);
  });
});

describe("a signed transaction", () => {
  const key: Hex = `0x${"11".repeat(32)}`;
  const account = privateKeyToAccount(key);
  const asked: Unsigned = {
    nonce: 3,
    to: address("2"),
    data: "0xabcdef",
    gasLimit: 100_000n,
    fees: { maxFee: 10n, priorityFee: 2n },
  };
  const signing = (change: Partial<Unsigned>, signer = account, chainId = 31_337) =>
    checkedAccount(account.address, 31_337, (transaction) =>
      signer.signTransaction(toEip1559({ ...transaction, ...change }, chainId)),
    );

  it("is accepted if it matches the request", async () => {
    const signed = await signing({}).sign(asked);
    expect(signed.hash).toBe(keccak256(signed.raw));
  });
  it.each<[string, Partial<Unsigned>]>([
    ["nonce", { nonce: 4 }],
    ["destination", { to: address("9") }],
    ["data", { data: "0xabcdee" }],
    ["gas", { gasLimit: 99_999n }],
    ["fees", { fees: { maxFee: 11n, priorityFee: 2n } }],
  ])("is rejected with another %s", async (_, change) => {
    await expect(signing(change).sign(asked)).rejects.toThrow(/another transaction/);
  });
  it("is rejected from another account or for another chain", async () => {
    await expect(
      signing({}, privateKeyToAccount(`0x${"12".repeat(32)}`)).sign(asked),
    ).rejects.toThrow(/another account/);
    await expect(signing({}, account, 1).sign(asked)).rejects.toThrow(/another transaction/);
  });
});

describe("logs", () => {
  const contracts: Contracts = {
    erc20: address("3"),
    erc1155: [address("5"), address("6")],
    vaults: [address("2")],
    factory: address("1"),
  };
  const erc20 = parseAbi([
    "event Transfer(address indexed from, address indexed to, uint256 value)",
  ]);
  const batch = parseAbi([
    "event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)",
  ]);
  const log = (
    contract: Hex,
    transaction: number,
    logIndex: number,
    of: Pick<MinedLog, "data" | "topics">,
    block = 7,
  ): MinedLog => ({
    address: contract,
    blockNumber: BigInt(block),
    blockHash: pad(toHex(block)),
    transactionHash: pad(toHex(transaction)),
    logIndex,
    ...of,
  });
  const usdc = (value: bigint) => ({
    topics: encodeEventTopics({
      abi: erc20,
      eventName: "Transfer",
      args: { from: address("7"), to: address("8") },
    }) as MinedLog["topics"],
    data: encodeAbiParameters([{ type: "uint256" }], [value]),
  });

  it("have an ordinal per transaction and contract that survives a reorg", () => {
    const first = decodeLogs(
      [
        log(address("3"), 1, 4, usdc(1n)),
        log(address("5"), 1, 5, usdc(1n)),
        log(address("3"), 1, 9, usdc(2n)),
        log(address("3"), 2, 10, usdc(3n)),
      ],
      contracts,
    );
    expect(first.transfers.map(({ amount, ordinal }) => [amount, ordinal])).toEqual([
      [1n, 0],
      [2n, 1],
      [3n, 0],
    ]);
    const again = decodeLogs(
      [
        log(address("3"), 2, 0, usdc(3n), 9),
        log(address("3"), 1, 2, usdc(2n), 9),
        log(address("3"), 1, 1, usdc(1n), 9),
      ],
      contracts,
    );
    expect(again.transfers.map(({ amount, ordinal }) => [amount, ordinal])).toEqual([
      [3n, 0],
      [1n, 0],
      [2n, 1],
    ]);
  });

  it("are counted once and only from configured contracts", () => {
    const one = log(address("3"), 1, 4, usdc(1n));
    expect(
      decodeLogs([one, one, log(address("9"), 1, 5, usdc(1n))], contracts).transfers,
    ).toHaveLength(1);
  });

  it("of a batch yield a transfer per position; malformed logs yield none", () => {
    const topics = encodeEventTopics({
      abi: batch,
      eventName: "TransferBatch",
      args: { operator: address("7"), from: address("7"), to: address("8") },
    }) as MinedLog["topics"];
    const lists = (ids: bigint[], values: bigint[]) =>
      encodeAbiParameters([{ type: "uint256[]" }, { type: "uint256[]" }], [ids, values]);
    const decoded = decodeLogs(
      [
        log(address("5"), 1, 0, { topics, data: lists([1n, 1n], [5n, 6n]) }),
        log(address("6"), 1, 1, { topics, data: "0x00" }),
      ],
      contracts,
    );
    expect(
      decoded.transfers.map(({ tokenId, amount, position }) => [tokenId, amount, position]),
    ).toEqual([
      [1n, 5n, 0],
      [1n, 6n, 1],
    ]);
  });
});

describe("the choice of payments", () => {
  const [X, Y, Y2] = ["x:0x1", "y:0x1", "y:0x2"];
  const job = (asset: string, amount: bigint, n: number): Job => ({
    withdrawalId: `${n}`,
    paymentId: pad(toHex(n)),
    asset,
    amount,
    to: address("8"),
  });
  it("takes the oldest first, skips what does not fit, reports what is missing", () => {
    const jobs = [job("usdc", 50n, 1), job("usdc", 60n, 2), job("usdc", 40n, 3), job(X, 1n, 4)];
    const { chosen, missing } = choosePayments(jobs, new Map([["usdc", 100n]]), 50);
    expect(chosen.map((one) => one.withdrawalId)).toEqual(["1", "3"]);
    expect([...missing]).toEqual([
      ["usdc", 50n],
      [X, 1n],
    ]);
  });
  it("lets no later one of an asset pass one that waits for the limit", () => {
    const jobs = [
      job("usdc", 900n, 0),
      job("usdc", 30n, 1),
      job("usdc", 60n, 2),
      job("usdc", 5n, 3),
      job(X, 5n, 4),
      job(Y, 5n, 5),
    ];
    const held = new Map(["usdc", X, Y].map((asset) => [asset, 1_000n]));
    const limits = new Map([
      ["usdc", { maximum: 100n, available: 80n }],
      [Y, { maximum: 0n, available: 0n }],
    ]);
    const { chosen, missing } = choosePayments(jobs, held, 50, limits);
    // The vault skips the first, which can never be paid, until it is set aside.
    expect(chosen.map((one) => one.withdrawalId)).toEqual(["0", "1", "4"]);
    expect([...missing]).toEqual([]);
    expect(reachedLimits(jobs, limits)).toEqual(["usdc", Y]);
    expect(waitingForLimit(jobs, limits)?.withdrawalId).toBe("5");
  });
  it("lets no other asset of a contract pass one that waits for its limit", () => {
    const jobs = [job(Y2, 50n, 1), job(Y, 60n, 2), job(Y2, 30n, 3), job(X, 90n, 4), job(X, 5n, 5)];
    const held = new Map([X, Y, Y2].map((asset) => [asset, 1_000n]));
    const limits = new Map([
      [Y, { maximum: 100n, available: 100n }],
      [Y2, { maximum: 100n, available: 100n }],
      ["y", { maximum: 100n, available: 100n }],
      // The limit of one id holds back its own payments only.
      [X, { maximum: 100n, available: 80n }],
      ["x", { maximum: 100n, available: 100n }],
    ]);
    const ids = (chosen: readonly Job[]) => chosen.map((one) => one.withdrawalId);
    expect(ids(choosePayments(jobs, held, 50, limits).chosen)).toEqual(["1"]);
    expect(reachedLimits(jobs, limits)).toEqual(["y", X]);
    const others = [...jobs, job("x:0x2", 95n, 6)];
    const both = new Map([...held, ["x:0x2", 1_000n]]);
    expect(ids(choosePayments(others, both, 50, limits).chosen)).toEqual(["1", "6"]);
  });
  it("never exceeds the holdings or the batch limit", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("usdc", X), fc.bigInt(1n, 100n))),
        fc.bigInt(0n, 300n),
        fc.nat(10),
        (list, held, limit) => {
          const { chosen } = choosePayments(
            list.map(([asset, amount], n) => job(asset, amount, n)),
            new Map([["usdc", held]]),
            limit,
          );
          const sum = chosen
            .filter((one) => one.asset === "usdc")
            .reduce((total, one) => total + one.amount, 0n);
          expect(
            sum <= held && chosen.length <= limit && chosen.every((one) => one.asset === "usdc"),
          ).toBe(true);
        },
      ),
    );
  });
});

it("the confirmed height counts the block itself and waits for finality", () => {
  expect(confirmedHeight(chain, 10, null)).toBe(9);
  expect(confirmedHeight({ ...chain, confirmations: 1 }, 10, null)).toBe(10);
  expect(confirmedHeight(chain, 10, 4)).toBe(4);
});
