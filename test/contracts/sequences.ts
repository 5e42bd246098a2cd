/** Random sequences of everything the service, the admin and a thief do, beside the model. */
import { deepStrictEqual, rejects } from "node:assert";
import fc from "fast-check";
import { type Abi, type Address, type Hex, encodeFunctionData, toHex } from "viem";
import {
  type Chain,
  type ContractRef,
  KIND,
  type Result,
  ZERO,
  deployFactory,
  outcomesOf,
  someone,
} from "./chain.ts";
import {
  ASSETS,
  type AssetName,
  ID_COUNT,
  LIMITS,
  LIMIT_PLACES,
  type LimitName,
  Model,
  type ModelPayment,
  ODD_MODES,
  type OddMode,
  PAYABLE,
  type Payable,
  SALT_COUNT,
  type Sweepable,
  TIMELOCK,
  VaultModel,
} from "./model.ts";

const LIMIT = 500n;
const MAX_VAULTS = 4;
const IDS = Array.from({ length: ID_COUNT }, (_, index) => toHex(index + 1, { size: 32 }));
const SALTS = Array.from({ length: SALT_COUNT }, (_, index) => toHex(index + 1, { size: 32 }));
/** What the first vault holds of each asset. */
const RICH = { usdc: 400n, odd: 400n, seven: 400n, eight: 400n, stray: 60n, native: 60n };
const NOTHING = { usdc: 0n, odd: 0n, seven: 0n, eight: 0n, stray: 0n, native: 0n };
const POOR = { ...NOTHING, usdc: 50n };

/** `active` is the vault that may pay. The others may not, unless they are it. */
type Which = "active" | "newest" | "beforeNewest" | "oldest";
type Step =
  | {
      do: "pay";
      vault: Which;
      payments: ModelPayment[];
      reenter: { call: "pay" | "void" | "attempt" | "probe" | "sweep"; vault: Which; id: number };
    }
  | { do: "void"; vault: Which; ids: number[] }
  | { do: "deposit"; salt: number; asset: Sweepable; amount: bigint }
  | { do: "fund"; vault: Which; asset: Payable; amount: bigint }
  | { do: "sweep"; items: { salt: number; asset: Sweepable; minAmount: bigint }[] }
  | { do: "setLimit"; vault: Which; limit: LimitName; amount: bigint }
  | { do: "applyLimit" | "cancelLimit"; vault: Which; limit: LimitName }
  | { do: "pause" | "unpause"; vault: Which }
  | { do: "deployVault"; predecessor: Which }
  | { do: "sweepIntoNewest" }
  | { do: "scheduleMigration"; vault: Which; to: Which }
  | { do: "cancelMigration"; vault: Which }
  | { do: "migrate"; vault: Which; assets: AssetName[] }
  | {
      do: "scheduleRescue" | "cancelRescue" | "rescue";
      vault: Which;
      asset: AssetName;
      amount: bigint;
    }
  | { do: "setOddMode"; mode: OddMode }
  | { do: "wait"; seconds: number };

const index = (length: number) => fc.nat({ max: length - 1 });
const amount = fc.bigInt({ min: 0n, max: 300n });
const anyVault = fc.constantFrom<Which>(
  ...Array.from({ length: 6 }, () => "active" as const),
  "newest",
  "beforeNewest",
  "oldest",
);
const sweepable = fc.constantFrom<Sweepable>("usdc", "seven", "native");
const limit = fc.constantFrom(...LIMITS);
const kind = <T extends string>(...names: T[]) => fc.constantFrom(...names);

const pay = fc.record({
  do: kind("pay"),
  vault: anyVault,
  payments: fc.array(
    fc.record({
      id: index(ID_COUNT),
      asset: fc.constantFrom(...PAYABLE),
      amount,
      to: fc.constantFrom<ModelPayment["to"]>("customer", "customer", "vault", "reenterer"),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  reenter: fc.record({
    call: kind("pay", "void", "attempt", "probe", "sweep"),
    vault: anyVault,
    id: index(ID_COUNT),
  }),
});

const STEPS: [weight: number, arbitrary: fc.Arbitrary<Step>][] = [
  [12, pay],
  [
    4,
    fc.record({
      do: kind("void"),
      vault: anyVault,
      ids: fc.array(index(ID_COUNT), { minLength: 1, maxLength: 3 }),
    }),
  ],
  [4, fc.record({ do: kind("deposit"), salt: index(SALT_COUNT), asset: sweepable, amount })],
  [5, fc.record({ do: kind("fund"), vault: anyVault, asset: fc.constantFrom(...PAYABLE), amount })],
  [
    4,
    fc.record({
      do: kind("sweep"),
      items: fc.array(fc.record({ salt: index(SALT_COUNT), asset: sweepable, minAmount: amount }), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  ],
  [
    5,
    fc.record({
      do: kind("setLimit"),
      vault: anyVault,
      limit,
      amount: fc.bigInt({ min: 0n, max: 1_000n }),
    }),
  ],
  [3, fc.record({ do: kind("applyLimit", "cancelLimit"), vault: anyVault, limit })],
  [3, fc.record({ do: kind("pause", "unpause", "unpause"), vault: anyVault })],
  [2, fc.record({ do: kind("deployVault"), predecessor: anyVault })],
  [1, fc.record({ do: kind("sweepIntoNewest") })],
  [
    4,
    fc.record({
      do: kind("scheduleMigration"),
      vault: anyVault,
      to: fc.constantFrom<Which>("newest", "newest", "newest", "oldest"),
    }),
  ],
  [1, fc.record({ do: kind("cancelMigration"), vault: anyVault })],
  [
    5,
    fc.record({
      do: kind("migrate"),
      vault: anyVault,
      assets: fc.subarray([...ASSETS]),
    }),
  ],
  [
    5,
    fc.record({
      do: kind("scheduleRescue", "cancelRescue", "rescue", "rescue"),
      vault: anyVault,
      asset: fc.constantFrom<AssetName>("stray", "stray", "native", "native", "usdc", "seven"),
      amount: fc.constantFrom(20n, 50n),
    }),
  ],
  [2, fc.record({ do: kind("setOddMode"), mode: fc.constantFrom(...ODD_MODES) })],
  [
    4,
    fc.record({
      do: kind("wait"),
      seconds: fc.oneof(
        { weight: 6, arbitrary: fc.integer({ min: 1, max: 40_000 }) },
        { weight: 1, arbitrary: fc.integer({ min: 14 * 86_400, max: 16 * 86_400 }) },
      ),
    }),
  ],
];
const step = fc.oneof(...STEPS.map(([weight, arbitrary]) => ({ weight, arbitrary })));
const timelock: Step = { do: "wait", seconds: Number(TIMELOCK) };

function migrationOf(vault: Which, assets: AssetName[]): Step[] {
  return [
    { do: "scheduleMigration", vault, to: "newest" },
    timelock,
    { do: "pause", vault },
    { do: "migrate", vault, assets },
  ];
}

/** Runs of steps that random ones seldom line up: each ends what it begins. */
const runs: fc.Arbitrary<Step[]>[] = [
  // A whole upgrade, with all that was scheduled before.
  fc
    .tuple(fc.subarray([...ASSETS], { minLength: 4 }), fc.boolean())
    .map(([assets, sweeps]) => [
      { do: "deployVault", predecessor: "active" },
      ...migrationOf("active", assets),
      ...(sweeps ? [{ do: "sweepIntoNewest" } as const] : []),
    ]),
  // The same from a vault that has not taken over itself.
  fc
    .subarray([...ASSETS])
    .map((assets) => [
      { do: "deployVault", predecessor: "active" },
      { do: "deployVault", predecessor: "newest" },
      ...migrationOf("beforeNewest", assets),
    ]),
  fc
    .tuple(fc.constantFrom<AssetName>("stray", "native"), fc.constantFrom(20n, 50n))
    .map(([asset, value]) => [
      { do: "scheduleRescue", vault: "active", asset, amount: value },
      timelock,
      { do: "rescue", vault: "active", asset, amount: value },
    ]),
  fc
    .tuple(limit, fc.bigInt({ min: 500n, max: 1_000n }))
    .map(([name, value]) => [
      { do: "setLimit", vault: "active", limit: name, amount: value },
      timelock,
      { do: "applyLimit", vault: "active", limit: name },
    ]),
  fc.tuple(index(SALT_COUNT), sweepable, amount).map(([salt, asset, value]) => [
    { do: "deposit", salt, asset, amount: value },
    { do: "sweep", items: [{ salt, asset, minAmount: 1n }] },
  ]),
];
const steps: fc.Arbitrary<Step[]> = fc.oneof(
  { weight: 8, arbitrary: step.map((one) => [one]) },
  { weight: 2, arbitrary: fc.oneof(...runs) },
);

type Tokens = { usdc: ContractRef; odd: ContractRef; outcomes: ContractRef; stray: ContractRef };
type Stage = Awaited<ReturnType<typeof openStage>>;

/** Deployed once per chain. Every sequence starts from a snapshot of it. */
async function openStage(chain: Chain) {
  const tokens: Tokens = {
    usdc: await chain.deploy("LocalUSDC"),
    odd: await chain.deploy("HostileToken"),
    outcomes: await chain.deploy("LocalOutcomeTokens"),
    stray: await chain.deploy("LocalUSDC"),
  };
  const reenterer = await chain.deploy("HostileRecipient");
  const vault = await deployVault(chain, tokens, reenterer, ZERO);
  const factory = await deployFactory(chain, vault);
  const sweeperRole = await chain.read(factory, "SWEEPER_ROLE");
  await chain.send(chain.admin, factory, "grantRole", [sweeperRole, reenterer.address]);
  await mint(chain, tokens, vault.address, RICH);
  const accounts: Address[] = [];
  for (const salt of SALTS) accounts.push(await chain.read(factory, "addressOf", [salt]));
  const oddModes = {} as Record<OddMode, number>;
  for (const mode of ODD_MODES) oddModes[mode] = await chain.read(tokens.odd, mode);
  const [customer, rescuedTo] = [someone(), someone()];
  return { chain, tokens, reenterer, vault, factory, accounts, oddModes, customer, rescuedTo };
}

async function deployVault(
  chain: Chain,
  tokens: Tokens,
  reenterer: ContractRef,
  predecessor: Address,
): Promise<ContractRef> {
  const { admin, payer, pauser } = chain;
  const args = [0, admin, payer, pauser, Number(TIMELOCK), predecessor];
  const vault = await chain.deploy("Vault", args);
  for (const name of FIRST_LIMITS) {
    const { token, kind: limitKind, tokenId } = LIMIT_PLACES[name];
    await chain.send(admin, vault, "setLimit", [tokens[token].address, limitKind, tokenId, LIMIT]);
  }
  const role = await chain.read(vault, "PAYER_ROLE");
  await chain.send(admin, vault, "grantRole", [role, reenterer.address]);
  return vault;
}
/** The others are unset and derive from these. */
const FIRST_LIMITS: readonly LimitName[] = ["usdc", "odd", "default"];

async function mint(
  chain: Chain,
  tokens: Tokens,
  to: Address,
  amounts: Record<AssetName, bigint>,
): Promise<void> {
  for (const name of ["usdc", "odd", "stray"] as const) {
    if (amounts[name] > 0n)
      await chain.send(chain.stranger, tokens[name], "mint", [to, amounts[name]]);
  }
  for (const [name, tokenId] of [
    ["seven", 7n],
    ["eight", 8n],
  ] as const) {
    if (amounts[name] > 0n)
      await chain.send(chain.stranger, tokens.outcomes, "mint", [to, tokenId, amounts[name]]);
  }
  if (amounts.native > 0n) {
    await chain.client.setBalance({ address: to, value: amounts.native });
  }
}

/** One sequence: the contracts, the model beside them, and what has been paid so far. */
class Sequence {
  readonly #stage: Stage;
  readonly #chain: Chain;
  readonly #model: Model;
  readonly #contracts = new Map<VaultModel, ContractRef>();
  /** Payments that events reported for each id, over all vaults. */
  readonly #paidCounts = new Map<Hex, number>();

  constructor(stage: Stage, now: bigint) {
    this.#stage = stage;
    this.#chain = stage.chain;
    this.#model = new Model(new VaultModel(null, { ...RICH }));
    const first = this.#model.active();
    for (const name of FIRST_LIMITS) first.setLimit(name, LIMIT, now);
    this.#contracts.set(first, stage.vault);
  }

  async run(one: Step): Promise<void> {
    switch (one.do) {
      case "pay":
        return this.#pay(one);
      case "void":
        return this.#void(one);
      case "deposit":
        return this.#deposit(one);
      case "fund":
        return this.#fund(one);
      case "sweep":
        return this.#sweep(one);
      case "setLimit":
      case "applyLimit":
      case "cancelLimit":
        return this.#limit(one);
      case "pause":
      case "unpause":
        return this.#pause(one);
      case "deployVault":
        return this.#deployVault(one);
      case "sweepIntoNewest":
        return this.#sweepIntoNewest();
      case "scheduleMigration":
      case "cancelMigration":
      case "migrate":
        return this.#migration(one);
      case "scheduleRescue":
      case "cancelRescue":
      case "rescue":
        return this.#rescue(one);
      case "setOddMode": {
        await this.#admin(this.#stage.tokens.odd, "setMode", [this.#stage.oddModes[one.mode]]);
        this.#model.oddMode = one.mode;
        return;
      }
      case "wait":
        await this.#chain.pass(one.seconds);
    }
  }

  #vault(which: Which): VaultModel {
    const { vaults } = this.#model;
    const active = this.#model.active();
    const newest = vaults.at(-1) ?? active;
    const beforeNewest = newest.predecessor ?? newest;
    return { active, newest, beforeNewest, oldest: vaults[0] ?? active }[which];
  }

  #contract(vault: VaultModel): ContractRef {
    const contract = this.#contracts.get(vault);
    if (contract === undefined) throw new Error("a vault of the model is not deployed");
    return contract;
  }

  #admin(to: ContractRef, functionName: string, args: readonly unknown[] = []): Promise<Result> {
    return this.#send(this.#chain.admin, to, functionName, args);
  }

  #send(
    from: Address,
    to: ContractRef,
    functionName: string,
    args: readonly unknown[] = [],
  ): Promise<Result> {
    return this.#chain.trySend(from, to, functionName, args);
  }

  #tokenOf(asset: AssetName): { kind: number; token: Address; tokenId: bigint } {
    const { tokens } = this.#stage;
    switch (asset) {
      case "usdc":
      case "odd":
      case "stray":
        return { kind: KIND.erc20, token: tokens[asset].address, tokenId: 0n };
      case "seven":
        return { kind: KIND.erc1155, token: tokens.outcomes.address, tokenId: 7n };
      case "eight":
        return { kind: KIND.erc1155, token: tokens.outcomes.address, tokenId: 8n };
      case "native":
        return { kind: KIND.native, token: ZERO, tokenId: 0n };
    }
  }

  async #pay({ vault: which, payments, reenter }: Step & { do: "pay" }): Promise<void> {
    const { reenterer, customer } = this.#stage;
    const vault = this.#vault(which);
    const contract = this.#contract(vault);
    const recipients = { customer, vault: contract.address, reenterer: reenterer.address };
    await this.#prepareReentry(reenter);
    const batch = payments.map(({ id, asset, amount: value, to }) => ({
      id: IDS[id],
      ...this.#tokenOf(asset),
      amount: value,
      to: recipients[to],
    }));
    const deadline = (await this.#chain.now()) + 3_600n;
    const result = await this.#send(this.#chain.payer, contract, "pay", [
      vault.batchNo,
      deadline,
      batch,
    ]);
    const outcomes = vault.pay(payments, this.#model.oddMode, await this.#chain.now());
    deepStrictEqual(result.ok ? outcomesOf(result) : null, outcomes);
    this.#countPaid(result);
    const called = payments.some(
      ({ asset, to }, place) =>
        to === "reenterer" &&
        (asset === "seven" || asset === "eight") &&
        outcomes?.[place] === "Paid",
    );
    deepStrictEqual(await this.#chain.read(reenterer, "called"), called);
    deepStrictEqual(await this.#chain.read(reenterer, "callSucceeded"), false);
  }

  /** What the reenterer calls from inside its first payment. It holds the roles that it needs. */
  async #prepareReentry({ call, vault: which, id }: (Step & { do: "pay" })["reenter"]) {
    const { reenterer, factory } = this.#stage;
    const vault = this.#vault(which);
    const contract = this.#contract(vault);
    const payment = {
      id: IDS[id],
      ...this.#tokenOf("usdc"),
      amount: 1n,
      to: reenterer.address,
    };
    const calls: Record<typeof call, { to: ContractRef; args: readonly unknown[] }> = {
      pay: { to: contract, args: [vault.batchNo, 1n << 60n, [payment]] },
      void: { to: contract, args: [[IDS[id]]] },
      attempt: { to: contract, args: [payment] },
      probe: { to: contract, args: [payment] },
      sweep: { to: factory, args: [[{ salt: SALTS[0], ...this.#tokenOf("usdc"), minAmount: 0n }]] },
    };
    const { to, args } = calls[call];
    const data = encodeFunctionData({ abi: to.abi as Abi, functionName: call, args: [...args] });
    await this.#chain.send(this.#chain.stranger, reenterer, "setCall", [to.address, data]);
  }

  #countPaid({ events }: Result): void {
    for (const { eventName, args } of events) {
      if (eventName !== "Paid") continue;
      const id = args["id"] as Hex;
      const count = (this.#paidCounts.get(id) ?? 0) + 1;
      this.#paidCounts.set(id, count);
      deepStrictEqual(count, 1, `${id} was paid twice`);
    }
  }

  async #void({ vault: which, ids }: Step & { do: "void" }): Promise<void> {
    const vault = this.#vault(which);
    const result = await this.#send(this.#chain.payer, this.#contract(vault), "void", [
      ids.map((id) => IDS[id]),
    ]);
    const reported = result.events.map(({ eventName, args }) => [eventName, args["state"]]);
    deepStrictEqual(result.ok ? reported : null, vault.void(ids));
  }

  async #deposit({ salt, asset, amount: value }: Step & { do: "deposit" }): Promise<void> {
    const { tokens, accounts } = this.#stage;
    const [to, deposits] = [accounts[salt], this.#model.deposits[salt]];
    if (to === undefined || deposits === undefined) throw new Error(`no deposit address ${salt}`);
    deposits[asset] += value;
    const { stranger } = this.#chain;
    if (asset === "usdc") await this.#chain.send(stranger, tokens.usdc, "mint", [to, value]);
    else if (asset === "seven")
      await this.#chain.send(stranger, tokens.outcomes, "mint", [to, 7n, value]);
    else await this.#chain.client.setBalance({ address: to, value: deposits.native });
  }

  async #fund({ vault: which, asset, amount: value }: Step & { do: "fund" }): Promise<void> {
    const vault = this.#vault(which);
    const { tokens } = this.#stage;
    await mint(this.#chain, tokens, this.#contract(vault).address, { ...NOTHING, [asset]: value });
    vault.holds[asset] += value;
  }

  async #sweep({ items }: Step & { do: "sweep" }): Promise<void> {
    const { factory } = this.#stage;
    const result = await this.#send(this.#chain.sweeper, factory, "sweep", [
      items.map(({ salt, asset, minAmount }) => ({
        salt: SALTS[salt],
        ...this.#tokenOf(asset),
        minAmount,
      })),
    ]);
    deepStrictEqual(
      result.events.map(({ eventName, args }) => [eventName, args["amount"] ?? args["held"]]),
      items.map(({ salt, asset, minAmount }) => this.#model.sweep(salt, asset, minAmount)),
    );
  }

  async #limit(one: Step & { do: "setLimit" | "applyLimit" | "cancelLimit" }): Promise<void> {
    const vault = this.#vault(one.vault);
    const { token, kind: limitKind, tokenId } = LIMIT_PLACES[one.limit];
    const key = [this.#stage.tokens[token].address, limitKind, tokenId];
    const args = one.do === "setLimit" ? [...key, one.amount] : key;
    const result = await this.#admin(this.#contract(vault), one.do, args);
    const now = await this.#chain.now();
    const reported =
      one.do === "setLimit"
        ? vault.setLimit(one.limit, one.amount, now)
        : one.do === "applyLimit"
          ? vault.applyLimit(one.limit, now)
          : vault.cancelLimit(one.limit);
    deepStrictEqual(result.ok ? result.events.map(({ eventName }) => eventName) : null, reported);
  }

  async #pause({ do: verb, vault: which }: Step & { do: "pause" | "unpause" }): Promise<void> {
    const vault = this.#vault(which);
    const from = verb === "pause" ? this.#chain.pauser : this.#chain.admin;
    const result = await this.#send(from, this.#contract(vault), verb);
    deepStrictEqual(result.ok, vault[verb]());
  }

  async #deployVault(one: Step & { do: "deployVault" }): Promise<void> {
    if (this.#model.vaults.length === MAX_VAULTS) return;
    const { tokens, reenterer } = this.#stage;
    const predecessor = this.#vault(one.predecessor);
    const { address } = this.#contract(predecessor);
    if (predecessor.retiredFor !== null) {
      await rejects(deployVault(this.#chain, tokens, reenterer, address));
      return;
    }
    const contract = await deployVault(this.#chain, tokens, reenterer, address);
    await mint(this.#chain, tokens, contract.address, POOR);
    const vault = new VaultModel(predecessor, { ...POOR });
    const now = await this.#chain.now();
    for (const name of FIRST_LIMITS) vault.setLimit(name, LIMIT, now);
    this.#contracts.set(vault, contract);
    this.#model.vaults.push(vault);
  }

  async #sweepIntoNewest(): Promise<void> {
    const { factory } = this.#stage;
    const vault = this.#vault("newest");
    const address = this.#contract(vault).address;
    await this.#chain.send(this.#chain.admin, factory, "scheduleVault", [address]);
    await this.#chain.send(this.#chain.admin, factory, "executeVault");
    this.#model.sweepsInto = vault;
  }

  async #migration(
    one: Step & { do: "scheduleMigration" | "cancelMigration" | "migrate" },
  ): Promise<void> {
    const vault = this.#vault(one.vault);
    const contract = this.#contract(vault);
    if (one.do === "cancelMigration") {
      deepStrictEqual((await this.#admin(contract, one.do)).ok, vault.cancelMigration());
      return;
    }
    if (one.do === "scheduleMigration") {
      const to = this.#vault(one.to);
      const { ok } = await this.#admin(contract, one.do, [this.#contract(to).address]);
      deepStrictEqual(ok, vault.scheduleMigration(to, await this.#chain.now()));
      return;
    }
    const assets = one.assets.map((asset) => this.#tokenOf(asset));
    const { ok, events } = await this.#admin(contract, one.do, [assets]);
    const moved = vault.migrate(one.assets, this.#model.oddMode, await this.#chain.now());
    const reported = events
      .filter(({ eventName }) => eventName === "Migrated")
      .map(({ args }) => args["amount"]);
    deepStrictEqual(ok ? reported : null, moved);
  }

  async #rescue(one: Step & { do: "scheduleRescue" | "cancelRescue" | "rescue" }): Promise<void> {
    const vault = this.#vault(one.vault);
    const args = [this.#tokenOf(one.asset), this.#stage.rescuedTo, one.amount];
    const { ok } = await this.#admin(this.#contract(vault), one.do, args);
    const now = await this.#chain.now();
    const possible =
      one.do === "cancelRescue"
        ? vault.cancelRescue(one.asset, one.amount)
        : vault[one.do](one.asset, one.amount, now);
    deepStrictEqual(ok, possible);
  }

  /** Everything that can be read equals the model. */
  async compare(): Promise<void> {
    for (const vault of this.#model.vaults) await this.#compareVault(vault);
    for (const [salt, account] of this.#stage.accounts.entries()) {
      const { usdc, seven, native } = await this.#holdings(account);
      deepStrictEqual({ usdc, seven, native }, this.#model.deposits[salt]);
    }
    const probe = await this.#chain.read<Address>(this.#stage.vault, "PROBE");
    deepStrictEqual(await this.#holdings(probe), NOTHING);
  }

  async #compareVault(vault: VaultModel): Promise<void> {
    const contract = this.#contract(vault);
    const read = <T>(name: string, args: readonly unknown[] = []) =>
      this.#chain.read<T>(contract, name, args);
    deepStrictEqual(
      {
        states: await read("states", [IDS]),
        batchNo: await read("nextBatchNo"),
        paused: await read("paused"),
        retiredFor: await read("retiredFor"),
        holds: await this.#holdings(contract.address),
      },
      {
        states: IDS.map((_, id) => vault.state(id)),
        batchNo: vault.batchNo,
        paused: vault.paused,
        retiredFor: vault.retiredFor === null ? ZERO : this.#contract(vault.retiredFor).address,
        holds: vault.holds,
      },
    );
    const now = await this.#chain.now();
    for (const name of LIMITS) {
      const { token, kind: limitKind, tokenId } = LIMIT_PLACES[name];
      const key = [this.#stage.tokens[token].address, limitKind, tokenId];
      const { cap } = vault.cap(name);
      const used = vault.used(name, now);
      deepStrictEqual(await this.#limitAt(contract, key, now), [cap, cap > used ? cap - used : 0n]);
    }
  }

  /** `limitOf` with the time of the latest block: a call's own time may be a second later. */
  async #limitAt(contract: ContractRef, key: readonly unknown[], now: bigint): Promise<unknown> {
    return this.#chain.client.readContract({
      ...contract,
      functionName: "limitOf",
      args: [...key],
      blockOverrides: { time: now },
    });
  }

  async #holdings(of: Address): Promise<Record<AssetName, bigint>> {
    const { tokens } = this.#stage;
    const erc20 = (token: ContractRef, name = "balanceOf") =>
      this.#chain.read<bigint>(token, name, [of]);
    const outcome = (tokenId: bigint) =>
      this.#chain.read<bigint>(tokens.outcomes, "balanceOf", [of, tokenId]);
    const [usdc, odd, stray, seven, eight, native] = await Promise.all([
      erc20(tokens.usdc),
      erc20(tokens.odd, "trueBalanceOf"),
      erc20(tokens.stray),
      outcome(7n),
      outcome(8n),
      this.#chain.client.getBalance({ address: of }),
    ]);
    return { usdc, odd, seven, eight, stray, native };
  }
}

export type Sequences = {
  /** How many ran. */
  sequences: number;
  /**
   * fast-check's report with the smallest failing sequence; null when contracts and model agree.
   */
  failure: string | null;
};

/** Runs random sequences on `chain` until one of the bounds is met. */
export async function runSequences(
  chain: Chain,
  options: { numRuns: number; maxSteps: number; timeLimitMs: number },
): Promise<Sequences> {
  const stage = await openStage(chain);
  let sequences = 0;
  const property = fc.asyncProperty(
    fc.array(steps, { minLength: 5, maxLength: options.maxSteps, size: "max" }),
    async (chosen) => {
      const id = await chain.client.snapshot();
      try {
        const sequence = new Sequence(stage, await chain.now());
        for (const one of chosen.flat()) await sequence.run(one);
        await sequence.compare();
      } finally {
        await chain.client.revert({ id });
      }
      sequences += 1;
    },
  );
  const details = await fc.check(property, {
    numRuns: options.numRuns,
    interruptAfterTimeLimit: options.timeLimitMs,
  });
  // Interrupted without a counterexample: the time is up. With one: while looking for a smaller
  // one.
  const failure =
    details.counterexample === null
      ? null
      : `${fc.defaultReportMessage(details)}\n${String(details.errorInstance)}`;
  return { sequences, failure: failure ?? null };
}
