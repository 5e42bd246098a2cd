import {
  type Address,
  type Hex,
  concat,
  encodeFunctionData,
  getContractAddress,
  getCreate2Address,
  keccak256,
} from "viem";
import { expect, it } from "vitest";
import { deterministicDeployment, readArtifact } from "../../scripts/stack/deploy-contracts.ts";
import {
  type Chain,
  type ContractRef,
  KIND,
  type Result,
  ZERO,
  deployFactory,
  id32,
  someone,
  vaultWorld,
} from "./chain.ts";

const DAY = 86_400;
const UNAUTHORIZED = "AccessControlUnauthorizedAccount";

type Item = { salt: Hex; token: Address; kind: number; tokenId: bigint; minAmount: bigint };

const swept = ({ events }: Result) =>
  events.map(({ eventName, args }) => [eventName, args["salt"], args["amount"]]);

async function factoryWorld(chain: Chain, timelockSecs = 0) {
  const world = await vaultWorld(chain, { rich: 0n });
  const factory = await deployFactory(chain, world.vault, timelockSecs);
  const addressOf = (salt: Hex) => chain.read<Address>(factory, "addressOf", [salt]);
  const usdcItem = (salt: Hex, minAmount = 1n): Item => ({
    salt,
    token: world.usdc.address,
    kind: KIND.erc20,
    tokenId: 0n,
    minAmount,
  });
  const outcomeItem = (salt: Hex, tokenId: bigint): Item => ({
    salt,
    token: world.outcomes.address,
    kind: KIND.erc1155,
    tokenId,
    minAmount: 1n,
  });
  const sweep = (...items: Item[]) => chain.send(chain.sweeper, factory, "sweep", [items]);
  /** A deposit address that holds USDC and, when asked, outcome tokens. */
  async function funded(usdcAmount: bigint, outcomes: Record<string, bigint> = {}): Promise<Hex> {
    const salt = id32();
    const account = await addressOf(salt);
    if (usdcAmount > 0n)
      await chain.send(chain.stranger, world.usdc, "mint", [account, usdcAmount]);
    for (const [tokenId, amount] of Object.entries(outcomes))
      await chain.send(chain.stranger, world.outcomes, "mint", [account, BigInt(tokenId), amount]);
    return salt;
  }
  return { ...world, factory, addressOf, usdcItem, outcomeItem, sweep, funded };
}

export function factoryTests(chain: Chain): void {
  const { admin, stranger, sweeper, payer } = chain;

  it("an address computed off the chain equals addressOf, and the deployed code equals the artifact's", async () => {
    const { factory, addressOf, vault } = await factoryWorld(chain);
    const implementation = getContractAddress({ from: factory.address, nonce: 1n });
    expect(await chain.read(factory, "implementation")).toBe(implementation);
    const initCode = concat([
      "0x3d602d80600a3d3981f3363d3d373d3d3d363d73",
      implementation,
      "0x5af43d82803e903d91602b57fd5bf3",
    ]);
    for (const salt of [id32(), id32(), `0x${"00".repeat(32)}` as Hex]) {
      expect(
        getCreate2Address({ from: factory.address, salt, bytecodeHash: keccak256(initCode) }),
      ).toBe(await addressOf(salt));
    }
    for (const [name, contract] of [
      ["DepositFactory", factory],
      ["Vault", vault],
    ] as const) {
      const code = await chain.client.getCode({ address: contract.address });
      expect(keccak256(code ?? "0x")).toBe(readArtifact(name).deployedBytecodeHash);
    }
    expect(
      await chain.read({ ...factory, address: implementation, abi: forwarderAbi }, "factory"),
    ).toBe(factory.address);
  });

  it("the documented deployment gives the same addresses to any sender", async () => {
    const id = await chain.client.snapshot();
    const deploy = async (from: Address) => {
      const vaultArgs = [0, admin, payer, ZERO, DAY, ZERO];
      const vault = deterministicDeployment("Vault", vaultArgs);
      const factoryArgs = [0, admin, sweeper, vault.address, DAY];
      const factory = deterministicDeployment("DepositFactory", factoryArgs);
      for (const { to, data, address } of [vault, factory]) {
        await chain.client.sendTransaction({ account: from, to, data, gas: 8_000_000n });
        await chain.client.mine({ blocks: 1 });
        expect(await chain.client.getCode({ address })).toBeDefined();
      }
      return chain.read({ address: factory.address, abi: factoryAbi }, "addressOf", [SALT]);
    };
    const first = await deploy(stranger);
    // As on another chain, where the deployer's nonce is another.
    await chain.client.revert({ id });
    await chain.client.setNonce({ address: admin, nonce: 9_999 });
    expect(await deploy(admin)).toBe(first);
  });

  it("a sweep deploys where needed and moves whole balances of both kinds to the vault", async () => {
    const world = await factoryWorld(chain);
    const [one, two] = [await world.funded(100n, { 7: 20n, 9: 30n }), await world.funded(50n)];
    const result = await world.sweep(
      world.usdcItem(one),
      world.outcomeItem(one, 7n),
      world.outcomeItem(one, 9n),
      world.usdcItem(two),
    );
    expect(swept(result)).toEqual([
      ["Swept", one, 100n],
      ["Swept", one, 20n],
      ["Swept", one, 30n],
      ["Swept", two, 50n],
    ]);
    expect(result.events[1]?.args).toEqual({
      salt: one,
      account: await world.addressOf(one),
      token: world.outcomes.address,
      tokenId: 7n,
      amount: 20n,
    });
    expect(await world.usdcOf(world.vault.address)).toBe(150n);
    expect([
      await world.outcomeOf(world.vault.address, 7n),
      await world.outcomeOf(world.vault.address, 9n),
    ]).toEqual([20n, 30n]);
    await chain.send(stranger, world.usdc, "mint", [await world.addressOf(one), 5n]);
    expect(swept(await world.sweep(world.usdcItem(one)))).toEqual([["Swept", one, 5n]]);
  });

  it("a deployed address still takes ERC-1155, single and batch", async () => {
    const world = await factoryWorld(chain);
    const salt = await world.funded(1n);
    await world.sweep(world.usdcItem(salt));
    const account = await world.addressOf(salt);
    expect(await chain.client.getCode({ address: account })).not.toBe(undefined);
    await chain.send(stranger, world.outcomes, "mint", [account, 7n, 3n]);
    await chain.send(stranger, world.outcomes, "mintBatch", [account, [8n, 9n], [4n, 5n]]);
    expect(
      swept(
        await world.sweep(
          world.outcomeItem(salt, 7n),
          world.outcomeItem(salt, 8n),
          world.outcomeItem(salt, 9n),
        ),
      ),
    ).toEqual([
      ["Swept", salt, 3n],
      ["Swept", salt, 4n],
      ["Swept", salt, 5n],
    ]);
  });

  it("an empty address and one below its threshold are SweepSkipped and stay undeployed", async () => {
    const world = await factoryWorld(chain);
    const [poor, empty] = [await world.funded(9n), id32()];
    const result = await world.sweep(
      world.usdcItem(poor, 10n),
      world.usdcItem(empty),
      world.usdcItem(empty, 0n),
    );
    const token = world.usdc.address;
    expect(result.events.map(({ eventName, args }) => [eventName, args])).toEqual([
      ["SweepSkipped", { salt: poor, token, tokenId: 0n, held: 9n }],
      ["SweepSkipped", { salt: empty, token, tokenId: 0n, held: 0n }],
      ["SweepSkipped", { salt: empty, token, tokenId: 0n, held: 0n }],
    ]);
    for (const salt of [poor, empty])
      expect(await chain.client.getCode({ address: await world.addressOf(salt) })).toBe(undefined);
    expect(swept(await world.sweep(world.usdcItem(poor, 9n)))).toEqual([["Swept", poor, 9n]]);
  });

  it("the native coin is swept to the vault, from where it can be rescued", async () => {
    const world = await factoryWorld(chain);
    const salt = await world.funded(5n);
    const account = await world.addressOf(salt);
    await chain.client.setBalance({ address: account, value: 30n });
    const native = { ...world.usdcItem(salt), kind: KIND.native, token: ZERO };
    const result = await world.sweep(
      native,
      { ...native, token: world.usdc.address },
      { ...native, tokenId: 1n },
      world.usdcItem(salt),
      native,
    );
    expect(swept(result)).toEqual([
      ["Swept", salt, 30n],
      ["SweepFailed", salt, undefined],
      ["SweepFailed", salt, undefined],
      ["Swept", salt, 5n],
      ["SweepSkipped", salt, undefined],
    ]);
    expect(await chain.client.getBalance({ address: world.vault.address })).toBe(30n);
    const to = someone();
    const asset = { kind: KIND.native, token: ZERO, tokenId: 0n };
    await chain.send(admin, world.vault, "scheduleRescue", [asset, to, 30n]);
    await chain.send(admin, world.vault, "rescue", [asset, to, 30n]);
    expect(await chain.client.getBalance({ address: to })).toBe(30n);
    // A deployed address refuses the coin, so that it stays with its sender.
    await expect(
      chain.client.call({ account: stranger, to: account, value: 1n }),
    ).rejects.toThrow();
  });

  it.each([
    "REVERTS",
    "BURNS_GAS",
    "RETURNS_FALSE",
    "MOVES_AND_RETURNS_FALSE",
    "LIES",
    "MOVES_HALF",
    "REVERT_BOMB",
    "BALANCE_REVERTS",
    "BALANCE_BURNS_GAS",
  ])(
    "an item whose token %s is SweepFailed, keeps its balance, and the others are swept",
    async (mode) => {
      const world = await factoryWorld(chain);
      const [salt, good] = [id32(), await world.funded(5n)];
      const token = await world.hostile(mode, 0n);
      await chain.send(stranger, token, "mint", [await world.addressOf(salt), 100n]);
      const result = await world.sweep(
        { ...world.usdcItem(salt), token: token.address },
        world.usdcItem(good),
      );
      expect(swept(result)).toEqual([
        ["SweepFailed", salt, undefined],
        ["Swept", good, 5n],
      ]);
      expect(await chain.read(token, "trueBalanceOf", [await world.addressOf(salt)])).toBe(100n);
    },
  );

  it("an item of no kind, or of a token without code, is SweepFailed", async () => {
    const world = await factoryWorld(chain);
    const salt = await world.funded(5n);
    const result = await world.sweep(
      { ...world.usdcItem(salt), kind: 2 },
      { ...world.usdcItem(salt), token: someone() },
      world.usdcItem(salt),
    );
    expect(swept(result)).toEqual([
      ["SweepFailed", salt, undefined],
      ["SweepFailed", salt, undefined],
      ["Swept", salt, 5n],
    ]);
  });

  it("only the sweeper sweeps, at most 75 items, and only the factory moves a deposit", async () => {
    const world = await factoryWorld(chain);
    const salt = await world.funded(5n);
    for (const account of [stranger, admin, payer]) {
      expect(await chain.revertOf(account, world.factory, "sweep", [[world.usdcItem(salt)]])).toBe(
        UNAUTHORIZED,
      );
    }
    expect(
      await chain.revertOf(sweeper, world.factory, "sweep", [
        Array.from({ length: 76 }, () => world.usdcItem(salt)),
      ]),
    ).toBe("TooManyItems");
    await world.sweep(world.usdcItem(salt));
    const account: ContractRef = { address: await world.addressOf(salt), abi: forwarderAbi };
    const implementation: ContractRef = {
      address: await chain.read(world.factory, "implementation"),
      abi: forwarderAbi,
    };
    for (const target of [account, implementation]) {
      for (const caller of [stranger, admin, sweeper]) {
        expect(
          await chain.revertOf(caller, target, "forward", [
            KIND.erc20,
            world.usdc.address,
            0n,
            stranger,
          ]),
        ).toBe("OnlyFactory");
      }
    }
  });

  it("where sweeps go changes only by the admin and after the time lock; addresses stay", async () => {
    const world = await factoryWorld(chain, DAY);
    const next = await vaultWorld(chain, { rich: 0n });
    const salt = await world.funded(5n);
    const before = await world.addressOf(salt);
    const names = ({ events }: Result) => events.map(({ eventName }) => eventName);
    expect(
      names(await chain.send(admin, world.factory, "scheduleVault", [next.vault.address])),
    ).toEqual(["VaultScheduled"]);
    expect(await chain.revertOf(admin, world.factory, "executeVault")).toBe("TooEarly");
    expect(await chain.read(world.factory, "pendingVault")).toBe(next.vault.address);
    await chain.pass(DAY);
    expect(await chain.read(world.factory, "vault")).toBe(world.vault.address);
    expect(names(await chain.send(admin, world.factory, "executeVault"))).toEqual(["VaultChanged"]);
    expect(await chain.read(world.factory, "pendingVault")).toBe(ZERO);
    expect(await world.addressOf(salt)).toBe(before);
    await world.sweep(world.usdcItem(salt));
    expect(await world.usdcOf(next.vault.address)).toBe(5n);
  });

  it("a scheduled vault can be cancelled, is replaced by the next, and does not stay open for ever", async () => {
    const world = await factoryWorld(chain, DAY);
    const [one, two] = [world.usdc.address, world.outcomes.address];
    const names = async (functionName: string, args: unknown[] = []) =>
      (await chain.send(admin, world.factory, functionName, args)).events.map(
        ({ eventName }) => eventName,
      );
    expect(await chain.revertOf(admin, world.factory, "executeVault")).toBe("NothingScheduled");
    await names("scheduleVault", [one]);
    expect(await names("scheduleVault", [two])).toEqual(["VaultCanceled", "VaultScheduled"]);
    expect(await names("cancelVault")).toEqual(["VaultCanceled"]);
    expect(await chain.revertOf(admin, world.factory, "cancelVault")).toBe("NothingScheduled");
    await names("scheduleVault", [one]);
    await chain.pass(16 * DAY);
    expect(await chain.revertOf(admin, world.factory, "executeVault")).toBe("TooLate");
    for (const [functionName, args] of [
      ["scheduleVault", [one]],
      ["cancelVault", []],
      ["executeVault", []],
    ] as const) {
      for (const account of [stranger, sweeper])
        expect(await chain.revertOf(account, world.factory, functionName, args)).toBe(UNAUTHORIZED);
    }
    expect(await chain.revertOf(admin, world.factory, "scheduleVault", [someone()])).toBe(
      "NotAContract",
    );
    await expect(
      chain.deploy("DepositFactory", [0, admin, sweeper, someone(), 0]),
    ).rejects.toThrow();
  });

  it("a recipient who may sweep moves no deposit from inside a payment, and harms nobody by trying", async () => {
    const world = await factoryWorld(chain);
    const salt = await world.funded(70n);
    await chain.send(stranger, world.outcomes, "mint", [world.vault.address, 7n, 10n]);
    const recipient = await world.recipient("ACCEPTS");
    await chain.send(admin, world.factory, "grantRole", [
      await chain.read(world.factory, "SWEEPER_ROLE"),
      recipient.address,
    ]);
    const data = encodeFunctionData({
      abi: world.factory.abi,
      functionName: "sweep",
      args: [[world.usdcItem(salt)]],
    });
    await chain.send(admin, recipient, "setCall", [world.factory.address, data]);
    expect(await world.pay(world.inOutcome(10n, { to: recipient.address }))).toEqual(["Paid"]);
    expect([
      await chain.read(recipient, "called"),
      await chain.read(recipient, "callSucceeded"),
    ]).toEqual([true, false]);
    expect(await world.usdcOf(await world.addressOf(salt))).toBe(70n);
    await chain.send(admin, recipient, "execute", [world.factory.address, data]);
    expect(await world.usdcOf(world.vault.address)).toBe(70n);
  });
}

const SALT: Hex = `0x${"5a".repeat(32)}`;
const factoryAbi = readArtifact("DepositFactory").abi;
const forwarderAbi = readArtifact("Forwarder").abi;
