/** Random transfers, repeated readings and changes of the minimum, compared with a model. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { type Floors, openChain, TOKENS } from "../support/deposit-chain.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { rounds } from "../support/depth.ts";

const TRANSFERS = 12;
/** Two addresses with USDC and an outcome token each. */
const PAIRS = 4;

type Known = {
  readonly pair: number;
  readonly amount: bigint;
  status: "none" | "small" | "credited";
};

const amounts = fc.array(fc.bigInt({ min: 1n, max: 60n }), {
  minLength: TRANSFERS,
  maxLength: TRANSFERS,
});
const floor = fc.integer({ min: 1, max: 90 });
const steps = fc.array(
  fc.oneof(
    fc.record({ floors: fc.record({ usdc: floor, token: floor }) }),
    fc.record({ read: fc.uniqueArray(fc.nat(TRANSFERS - 1), { minLength: 1, maxLength: 5 }) }),
  ),
  { minLength: 4, maxLength: 14 },
);

class Model {
  readonly known: readonly Known[];
  constructor(amountList: readonly bigint[]) {
    this.known = amountList.map((amount, index) => ({
      pair: index % PAIRS,
      amount,
      status: "none",
    }));
  }

  read(indexes: readonly number[], floors: Floors): void {
    const read = indexes.flatMap((index) => this.known[index] ?? []);
    const larger = new Set<number>();
    for (const one of read.filter(({ status }) => status === "none")) {
      one.status = one.amount < floorOf(one.pair, floors) ? "small" : "credited";
      if (one.status === "credited") larger.add(one.pair);
    }
    for (const { pair } of read) this.credit(pair, larger.has(pair) ? 0n : floorOf(pair, floors));
  }

  credit(pair: number, least: bigint): void {
    const small = this.known.filter((one) => one.pair === pair && one.status === "small");
    if (sumOf(small) >= least) for (const one of small) one.status = "credited";
  }

  sum(isToken: boolean): bigint {
    return sumOf(
      this.known.filter(
        ({ pair, status }) => status === "credited" && pair % 2 === Number(isToken),
      ),
    );
  }
}

const floorOf = (pair: number, { usdc, token }: Floors) => BigInt(pair % 2 === 0 ? usdc : token);
const sumOf = (of: readonly Known[]) => of.reduce((sum, { amount }) => sum + amount, 0n);

it("records each transfer once and credits what reaches the minimum, in any order", async () => {
  await fc.assert(
    fc.asyncProperty(amounts, steps, async (amountList, stepList) => {
      const { userId, transfer, receive, recheck, listed, address, newDepositAddress } =
        await openChain();
      const { key, asset_id } = newAsset();
      const other = await newDepositAddress();
      const transfers = amountList.map((amount, index) =>
        transfer(amount, {
          to: index % PAIRS < 2 ? address : other,
          ...(index % 2 === 0 ? {} : { token: TOKENS, tokenId: BigInt(asset_id) }),
        }),
      );
      const model = new Model(amountList);
      let floors: Floors = { usdc: 30, token: 30 };
      for (const step of stepList) {
        if ("floors" in step) {
          ({ floors } = step);
          await recheck(floors);
          for (let pair = 0; pair < PAIRS; pair++) model.credit(pair, floorOf(pair, floors));
        } else {
          const { read } = step;
          await receive(
            read.flatMap((index) => transfers[index] ?? []),
            floors,
          );
          model.read(read, floors);
        }
        const shown = await listed();
        expect(shown.length).toBe(new Set(shown.map(({ transaction_hash: hash }) => hash)).size);
        const statusOf = new Map(shown.map((one) => [one.transaction_hash, one.status]));
        expect(transfers.map(({ transactionHash: hash }) => statusOf.get(hash))).toEqual(
          model.known.map(({ status }) =>
            status === "none" ? undefined : status === "small" ? "below_minimum" : status,
          ),
        );
        expect(await balances(userId, "usdc")).toEqual([model.sum(false), 0n]);
        expect(await balances(userId, key)).toEqual([model.sum(true), 0n]);
      }
    }),
    { numRuns: rounds(4, 10) },
  );
}, 30_000);
