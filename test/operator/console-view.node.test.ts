import { describe, expect, it } from "vitest";
import { overviewOf, sectionsOf } from "../../scripts/operator/console-view.ts";

const NOW = Date.parse("2026-01-02T12:00:00.000Z");
const ID = "01a2b3c4-0000-7000-8000-00000000c585";

const CHAIN = {
  chain: "local",
  confirmed_block: 8,
  head_block: 10,
  moved_at: "2026-01-02T11:59:59.000Z",
  halted: null,
  payer_halted: null,
  withdrawals: { queued: 0, submitted: 0 },
};
const STATUS = {
  chains: [CHAIN],
  alerts: [],
  switches: [],
  reconciled: {
    recent_finished_at: "2026-01-02T11:59:00.000Z",
    full_finished_at: "2026-01-01T12:00:00.000Z",
  },
  storage: { bytes: 1_000_000, limit_bytes: 100_000_000 },
};
const RESULTS = {
  status: STATUS,
  withdrawals: [],
  approvals: [],
  audit: { events: [], next_before: null },
};
const SHOWN = { now: NOW, flags: ["--env", "acme"] };

const alert = (kind: string, subject = "local") => ({
  kind,
  subject,
  detail: "",
  at: "2026-01-02T11:00:00.000Z",
});

describe("the view of the operator's console", () => {
  it("is well if nothing is wrong", () => {
    const { well, facts } = overviewOf(RESULTS, SHOWN);
    expect(well).toBe(true);
    expect(facts.map(({ name }) => name)).toEqual([
      "Chain local",
      "Payer local",
      "Withdrawals",
      "Open alerts",
      "Reconciliation",
      "Storage",
      "Pending approvals",
    ]);
  });

  it.each([
    ["Chains", { chains: [] }],
    ["Chain local", { chains: [{ ...CHAIN, moved_at: "2026-01-02T11:54:59.000Z" }] }],
    ["Chain local", { chains: [{ ...CHAIN, halted: { at: CHAIN.moved_at, reason: "reorg" } }] }],
    [
      "Payer local",
      { chains: [{ ...CHAIN, payer_halted: { at: CHAIN.moved_at, reason: "old" } }] },
    ],
    [
      "Withdrawals",
      { switches: [{ name: "withdrawals_paused", reason: "operator:a", since: CHAIN.moved_at }] },
    ],
    ["Open alerts", { alerts: [alert("gas_low")] }],
    [
      "Reconciliation",
      { reconciled: { ...STATUS.reconciled, recent_finished_at: "2026-01-02T10:59:59.000Z" } },
    ],
    [
      "Reconciliation",
      { reconciled: { ...STATUS.reconciled, full_finished_at: "2025-12-31T11:59:59.000Z" } },
    ],
    ["Storage", { storage: { bytes: 70, limit_bytes: 100 } }],
    ["Storage", { switches: [{ name: "storage_full", reason: "", since: CHAIN.moved_at }] }],
  ])("is not well because of: %s", (name, change) => {
    const { well, facts } = overviewOf({ ...RESULTS, status: { ...STATUS, ...change } }, SHOWN);
    expect(well).toBe(false);
    expect(facts.filter(({ bad }) => bad).map((fact) => fact.name)).toEqual([name]);
  });

  it("answers first whether anything needs the operator", () => {
    const proposal = { status: "open", expires_at: "2026-01-03T00:00:00.000Z" };
    const answer = (alerts: unknown[], change: object = {}, approvals: unknown[] = []) =>
      overviewOf({ ...RESULTS, status: { ...STATUS, alerts, ...change }, approvals }, SHOWN);
    expect(answer([]).answer).toBe("Nothing needs you");
    expect(answer([], { chains: [] }).answer).toBe("Look at what is marked");
    expect(answer([alert("gas_low")], { chains: [] }).answer).toBe("Look at what is marked");
    expect(answer([], {}, [proposal]).answer).toBe("Nothing needs you now, 1 thing can wait");
    const both = answer([alert("gas_low"), alert("chain_halted"), alert("of_old")], {}, [proposal]);
    expect(both.answer).toBe("2 things need you now, 2 can wait");
    expect(both.alerts.map(({ title, now }) => [title, now])).toEqual([
      ["Chain halted: local", true],
      ["Of old: local", true],
      ["Gas low: local", false],
    ]);
    expect(both.alerts[0]).toMatchObject({
      since: "60 min ago, 2026-01-02 11:00:00",
      command: "npm run operator -- chain status --env acme",
      handbook: "docs/handbook.md#chain_halted",
    });
  });

  it("counts open differences of the reconciliation", () => {
    const status = { ...STATUS, alerts: [alert("reconciliation"), alert("reconciliation", "b")] };
    const { facts } = overviewOf({ ...RESULTS, status }, SHOWN);
    expect(facts.find(({ name }) => name === "Reconciliation")).toMatchObject({
      value: expect.stringMatching(/^2 open differences/) as string,
      bad: true,
    });
  });

  it("shows the oldest withdrawal first, and how to retry a stuck one", () => {
    const row = {
      withdrawal_id: ID,
      user_id: "u",
      chain: "local",
      amount: "0xf4240",
      status: "queued",
      created_at: "2026-01-02T11:30:00.000Z",
      open_commands: null,
      dead_lettered: false,
    };
    const older = { ...row, created_at: "2026-01-02T09:00:00.000Z", dead_lettered: true };
    const { withdrawals } = overviewOf({ ...RESULTS, withdrawals: [row, older] }, SHOWN).tables;
    expect(withdrawals.rows.map(({ cells }) => [cells[0], cells[2]])).toEqual([
      ["3 h", "1 USDC"],
      ["30 min", "1 USDC"],
    ]);
    expect(withdrawals.rows.map(({ command }) => command)).toEqual([
      `npm run operator -- withdrawals retry --id ${ID} --env acme`,
      undefined,
    ]);
  });

  it("shows only proposals that can still be approved", () => {
    const proposal = {
      proposal_id: ID,
      operator: "ada",
      status: "open",
      expires_at: "2026-01-02T12:00:01.000Z",
      content: "{}",
    };
    const approvals = [
      proposal,
      { ...proposal, status: "approved" },
      { ...proposal, expires_at: "2026-01-02T12:00:00.000Z" },
    ];
    expect(overviewOf({ ...RESULTS, approvals }, SHOWN).tables.approvals.rows).toEqual([
      {
        cells: ["2026-01-02 12:00:01", "ada", "{}"],
        command: `npm run operator -- approve --id ${ID} --env acme`,
      },
    ]);
  });

  it("quotes the words of a command for the shell", () => {
    const alerts = [alert("withdrawal_parked", "a'; rm -rf ~")];
    const [first] = overviewOf({ ...RESULTS, status: { ...STATUS, alerts } }, SHOWN).alerts;
    expect(first?.command).toBe(
      String.raw`npm run operator -- withdrawals show --id 'a'\''; rm -rf ~' --env acme`,
    );
  });

  it("shows fields of a result as facts and lists as tables", () => {
    const result = { user_id: "u", balances: [{ balance: "0xf4240" }], more: [] };
    expect(sectionsOf(result)).toEqual([
      {
        title: "Result",
        facts: [
          { name: "User id", value: "u", bad: false },
          { name: "More", value: "none", bad: false },
        ],
      },
      { title: "Balances", table: { columns: ["Balance"], rows: [{ cells: ["1 USDC"] }] } },
    ]);
  });
});
