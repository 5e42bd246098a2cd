/** What the console's wallet writes into files, reads from a pasted key, and says of withdrawals. */
import { NoAnswer, Problem, type Withdrawal } from "@rfq-custody/client";
import { describe, expect, it } from "vitest";
import { csvFile, csvLine } from "../../packages/console/src/csv.ts";
import { explain, FieldError, fieldErrorsOf } from "../../packages/console/src/ui/problems.ts";
import { endOfMinute } from "../../packages/console/src/units.ts";
import {
  apiKeyOf,
  approvalNeeded,
  type Circumstances,
  mayHaveArrived,
  stepsOf,
  whyItWaits,
} from "../../packages/console/src/wallet/withdrawal-state.ts";

const NOW = Date.parse("2026-11-24T12:00:00Z");

function withdrawal(
  status: Withdrawal["status"],
  amount: bigint,
  { hoursAgo = 1, asked = status === "awaiting_approval" } = {},
): Withdrawal {
  const at = new Date(NOW - hoursAgo * 3_600_000).toISOString();
  // Safe cast: the functions below read these members only.
  return {
    status,
    amount,
    approval_expires_at: asked ? at : null,
    transaction_hash: null,
    failure: null,
    created_at: at,
    updated_at: at,
  } as Withdrawal;
}

function circumstances(recent: Withdrawal[], paused = false): Circumstances {
  const policy = {
    sessions_trade: true,
    max_trade_usdc_per_day: null,
    withdraw_max_usdc_per_day: null,
    withdraw_listed_only: true,
    withdraw_approval_above: 1_500_000_000n,
  };
  return { recent, policy, paused, confirmations: 12, now: NOW };
}

it("counts the day's withdrawals without approval against the limit", () => {
  const recent = [
    withdrawal("settled", 700_000_000n),
    withdrawal("queued", 300_000_000n),
    withdrawal("submitted", 9_000_000_000n, { asked: true }),
    withdrawal("awaiting_approval", 9_000_000_000n),
    withdrawal("cancelled", 9_000_000_000n),
    withdrawal("settled", 9_000_000_000n, { hoursAgo: 25 }),
  ];
  expect(approvalNeeded(500_000_000n, circumstances(recent))).toBeNull();
  expect(approvalNeeded(500_000_001n, circumstances(recent))).toEqual({
    limit: 1_500_000_000n,
    sum: 1_500_000_001n,
  });
});

it("says in words why a withdrawal waits", () => {
  const waits = withdrawal("awaiting_approval", 1_800_000_000n);
  expect(whyItWaits(waits, circumstances([waits]))).toBe(
    "It lifts the sum of a day to 1,800, above your limit of 1,500.",
  );
  const queued = withdrawal("queued", 1n);
  expect(whyItWaits(queued, circumstances([queued], true))).toContain("paused");
  expect(whyItWaits(queued, circumstances([queued]))).not.toContain("paused");
});

it("shows the steps that a withdrawal has behind it and ahead of it", () => {
  const states = (one: Withdrawal) =>
    stepsOf(one, circumstances([])).map(({ title, state }) => `${title}: ${state}`);
  expect(states(withdrawal("queued", 1n, { asked: true }))).toEqual([
    "You asked: done",
    "Your approval: done",
    "In line to be sent: now",
    "Sent: later",
    "Arrived: later",
  ]);
  expect(states(withdrawal("settled", 1n)).at(-1)).toBe("Arrived: done");
  expect(states(withdrawal("cancelled", 1n))).toEqual(["You asked: done", "Cancelled: failed"]);
});

const problem = (code: string, status: number, more = {}) =>
  new Problem({ code, ...more }, { status });

it("doubts only what may have arrived", () => {
  expect(mayHaveArrived(problem("insufficient_funds", 409))).toBe(false);
  expect(mayHaveArrived(problem("withdrawals_paused", 503))).toBe(false);
  expect(mayHaveArrived(problem("unavailable", 503, { outcome: "none" }))).toBe(false);
  expect(mayHaveArrived(problem("internal", 500))).toBe(true);
  expect(mayHaveArrived(new NoAnswer("POST /custody/withdraw", "no response in time"))).toBe(true);
});

describe("an error", () => {
  const at = (error: unknown, ...fields: string[]) =>
    Object.fromEntries(
      fieldErrorsOf(error, (name) => fields.includes(name), { expires_in_secs: "minutes" }),
    );
  const invalid = problem("invalid_request", 400, {
    detail: "body.expires_in_secs: must be an integer from 1 to 86400",
    errors: [{ path: "body.expires_in_secs", message: "must be an integer from 1 to 86400" }],
  });

  it("stands at the field that caused it, once and in words", () => {
    expect(at(invalid, "minutes")).toEqual({ minutes: "Must be an integer from 1 to 86400." });
    expect(at(problem("scope_missing", 403), "key")).toEqual({
      key: "This key or session may not do that.",
    });
    expect(at(problem("address_not_listed", 409), "to")).toHaveProperty("to");
    expect(at(new FieldError("amount", "Too much."))).toEqual({ amount: "Too much." });
    expect(at(problem("internal", 500), "key")).toEqual({});
    expect(at(problem("signature_invalid", 401), "amount")).toEqual({});
  });

  it("says amounts as a person reads them", () => {
    const units = { available: "0x0", required: "0x362b01c" };
    expect(explain(problem("insufficient_funds", 409, units))).toBe(
      "This needs 56.79926, and you can use 0.00.",
    );
    expect(explain(invalid)).toBe("Expires_in_secs must be an integer from 1 to 86400.");
    expect(explain(problem("new_code", 409, { detail: "something new" }))).toBe("Something new.");
  });
});

it("writes no cell that a spreadsheet runs as a formula", () => {
  expect(csvLine(["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "a=b"])).toBe(
    "'=1+1,'+1,'-1+2,'@SUM(A1),'\t=1,a=b\r\n",
  );
});

it("begins a file with a byte order mark, so that Excel reads UTF-8", async () => {
  const file = csvFile([csvLine(["São Paulo"])]);
  expect(Buffer.from(await file.arrayBuffer()).toString("hex", 0, 6)).toBe("efbbbf53c3a3");
  expect(await file.text()).toBe("São Paulo\r\n");
});

it("means the whole minute by a filter of minutes", () => {
  const to = endOfMinute("2026-11-28T13:22");
  expect(to).toEqual(new Date(2026, 10, 28, 13, 22, 59, 999));
  expect(to >= new Date(2026, 10, 28, 13, 22, 55)).toBe(true);
});

it("writes amounts exactly and quotes what would end a cell", () => {
  expect(csvLine(["-9007199254740993.000001", 7, null, 'a "b", c', "d\ne"])).toBe(
    '-9007199254740993.000001,7,,"a ""b"", c","d\ne"\r\n',
  );
});

it("reads a pasted key with and without the words of its receipt", () => {
  const apiKeyId = "7f0c0000-0000-4000-8000-000000000000";
  const key = { apiKeyId, secret: "c2VjcmV0" };
  for (const text of [
    `${apiKeyId} c2VjcmV0`,
    `${apiKeyId}:c2VjcmV0 `,
    `Copy the secret now. It is shown once.Key id: ${apiKeyId}Secret: c2VjcmV0`,
  ])
    expect(apiKeyOf(text)).toEqual(key);
  expect(apiKeyOf(apiKeyId)).toBeNull();
});
