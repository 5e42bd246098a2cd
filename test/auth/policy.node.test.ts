import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY, mergePolicy, type Policy } from "../../src/auth/policy.ts";

const amount = fc.option(fc.bigInt({ min: 0n, max: 3n }));
const policy: fc.Arbitrary<Policy> = fc.record({
  sessions_trade: fc.boolean(),
  max_trade_usdc_per_day: amount,
  withdraw_max_usdc_per_day: amount,
  withdraw_listed_only: fc.boolean(),
  withdraw_approval_above: amount,
});
const change = fc
  .record({ policy, named: fc.subarray(Object.keys(DEFAULT_POLICY)) })
  .map((of): Partial<Policy> =>
    Object.fromEntries(Object.entries(of.policy).filter(([name]) => of.named.includes(name))),
  );

/** Whether `one` allows something that `other` does not. */
function looser(one: Policy, other: Policy): boolean {
  const above = (a: bigint | null, b: bigint | null) => b !== null && (a === null || a > b);
  return (
    (one.sessions_trade && !other.sessions_trade) ||
    (!one.withdraw_listed_only && other.withdraw_listed_only) ||
    above(one.max_trade_usdc_per_day, other.max_trade_usdc_per_day) ||
    above(one.withdraw_max_usdc_per_day, other.withdraw_max_usdc_per_day) ||
    above(one.withdraw_approval_above, other.withdraw_approval_above)
  );
}

describe("a change of the policy", () => {
  it("never loosens what applies now", () => {
    fc.assert(
      fc.property(policy, fc.option(policy), change, (current, pending, named) => {
        expect(looser(mergePolicy({ current, pending }, named).current, current)).toBe(false);
      }),
    );
  });

  it("ends in the named values and the earlier ones of the others", () => {
    fc.assert(
      fc.property(policy, fc.option(policy), change, (current, pending, named) => {
        const next = mergePolicy({ current, pending }, named);
        expect(next.pending ?? next.current).toEqual({ ...(pending ?? current), ...named });
      }),
    );
  });

  it("applies at once what is stricter", () => {
    const current = { ...DEFAULT_POLICY, max_trade_usdc_per_day: 10n };
    const next = mergePolicy(
      { current, pending: null },
      { max_trade_usdc_per_day: 5n, withdraw_listed_only: true, sessions_trade: false },
    );
    expect(next).toEqual({
      current: {
        ...current,
        max_trade_usdc_per_day: 5n,
        withdraw_listed_only: true,
        sessions_trade: false,
      },
      pending: null,
    });
  });

  it("drops a waiting change when the current value is named", () => {
    const current = { ...DEFAULT_POLICY, max_trade_usdc_per_day: 10n, sessions_trade: false };
    const pending = { ...DEFAULT_POLICY };
    const one = mergePolicy({ current, pending }, { max_trade_usdc_per_day: 10n });
    expect(one.pending).toEqual({ ...pending, max_trade_usdc_per_day: 10n });
    expect(mergePolicy({ current, pending }, current)).toEqual({ current, pending: null });
  });
});
