/**
 * Checks the end of a soak by the operator's reconciliation and by own sums of chain and records.
 */
import { type Address, getAddress, zeroAddress } from "viem";
import { localOutcomeTokensAbi } from "../stack/abi/local-outcome-tokens.ts";
import { localUsdcAbi } from "../stack/abi/local-usdc.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import type { Deposit, Withdrawal } from "../../packages/client/src/index.ts";
import { ASSETS, nameOf, nameOfRecord, USDC } from "./assets.ts";
import type { Reconciliation } from "../operator/results.ts";
import { order, serviceStatus } from "./faults.ts";
import type { Person, World } from "./world.ts";

/**
 * Alerts that faults explain and that may stay open. Every other open alert is a finding, for
 * example `nodes_disagree`, which closes when the endpoints agree again.
 */
const EXPECTED_ALERTS = new Set([
  "deposit_phantom",
  "payment_skipped",
  "fee_ceiling",
  "gas_low",
  "withdrawal_dead_letter",
]);

type PersonRecords = { person: Person; deposits: Deposit[]; withdrawals: Withdrawal[] };

/**
 * Returns one line for each difference. A soak passes without any. `restored`: the database was put
 * back and `restore` was run once, so events are lost, and nothing else is wrong with the audit
 * log.
 */
export async function judge(world: World, { restored = false } = {}): Promise<string[]> {
  const findings = world.tally.odd.map((line) => `unexplained: ${line}`);
  const records = await Promise.all(
    world.people.map(async (person) => ({
      person,
      deposits: await person.client.custody.deposits({ limit: 500 }).all(),
      withdrawals: await person.client.custody.withdrawals({ limit: 500 }).all(),
    })),
  );
  findings.push(...(await depositsDiffer(world, records)));
  findings.push(...(await paymentsDiffer(world, records)));
  findings.push(...(await holdingsDiffer(world)));
  findings.push(...(await operatorObjects(world, restored)));
  return findings;
}

/** The mints in the chain and the credited deposits are the same. */
async function depositsDiffer(
  { stack, chain, tally }: World,
  records: readonly PersonRecords[],
): Promise<string[]> {
  const { usdc, outcomeTokens } = stack.deployment;
  const events = { fromBlock: 0n, args: { from: zeroAddress } } as const;
  const minted = new Map<string, string>();
  for (const log of await chain.client.getContractEvents({
    ...events,
    address: usdc,
    abi: localUsdcAbi,
    eventName: "Transfer",
  })) {
    const { to, value } = log.args as { to: Address; value: bigint };
    minted.set(log.transactionHash, `${USDC} ${value} to ${to}`);
  }
  for (const [venue, address] of Object.entries(outcomeTokens)) {
    const logs = await chain.client.getContractEvents({
      ...events,
      address,
      abi: localOutcomeTokensAbi,
      eventName: "TransferSingle",
    });
    for (const log of logs) {
      const { to, id, value } = log.args as { to: Address; id: bigint; value: bigint };
      minted.set(log.transactionHash, `${venue}:0x${id.toString(16)} ${value} to ${to}`);
    }
  }
  const findings: string[] = [];
  for (const { person, deposits } of records) {
    for (const deposit of deposits) {
      const asset = nameOfRecord(deposit);
      const line = `${asset} ${deposit.amount} to ${getAddress(deposit.address)}`;
      const mint = minted.get(deposit.transaction_hash);
      if (deposit.status === "orphaned" ? mint !== undefined : mint !== line) {
        findings.push(
          `${person.email}: deposit ${deposit.transaction_hash} (${deposit.status}, ${line}) against ${mint ?? "nothing"} in the chain`,
        );
      }
      if (deposit.status !== "credited") continue;
      tally.moved("deposited", asset, deposit.amount);
      if (!minted.delete(deposit.transaction_hash))
        findings.push(`${person.email}: ${deposit.transaction_hash} was credited twice`);
    }
  }
  return [...findings, ...[...minted].map(([hash, line]) => `never credited: ${line} in ${hash}`)];
}

/** A settled withdrawal was paid once, a failed one never, and the vault has paid nothing else. */
async function paymentsDiffer(
  { stack, chain, tally }: World,
  records: readonly PersonRecords[],
): Promise<string[]> {
  const logs = await chain.client.getContractEvents({
    address: stack.deployment.vault,
    abi: vaultAbi,
    eventName: "Paid",
    fromBlock: 0n,
  });
  const paid = new Map<string, string>();
  const findings: string[] = [];
  for (const { args, transactionHash } of logs) {
    const { id, amount, to } = args as { id: string; amount: bigint; to: Address };
    if (paid.has(id)) findings.push(`the vault paid ${id} twice`);
    paid.set(id, `${amount} to ${to} in ${transactionHash}`);
  }
  for (const { person, withdrawals } of records) {
    const byId = new Map(withdrawals.map((one) => [one.client_withdrawal_id, one]));
    for (const [id, asked] of person.withdrawals) {
      if (asked.answered && !byId.has(id))
        findings.push(`${person.email}: withdrawal ${id} was accepted but is missing`);
    }
    for (const one of withdrawals) {
      const asked = person.withdrawals.get(one.client_withdrawal_id);
      const asset = nameOfRecord(one);
      if (
        asked === undefined ||
        asked.amount !== one.amount ||
        getAddress(asked.to) !== getAddress(one.to_address) ||
        nameOf(asked.asset) !== asset
      ) {
        findings.push(
          `${person.email}: withdrawal ${one.client_withdrawal_id} is not what was asked for`,
        );
      }
      const id = stack.paymentId(person.userId, one.client_withdrawal_id);
      const payment = paid.get(id);
      paid.delete(id);
      const expected =
        one.status === "settled"
          ? `${one.amount} to ${getAddress(one.to_address)} in ${one.transaction_hash}`
          : undefined;
      if (payment !== expected) {
        findings.push(
          `${person.email}: withdrawal ${one.client_withdrawal_id} is ${one.status}, the vault paid ${payment ?? "nothing"}`,
        );
      }
      if (one.status === "settled") tally.moved("withdrawn", asset, one.amount);
    }
  }
  return [
    ...findings,
    ...[...paid].map(([id, line]) => `the vault paid ${id}, which nobody asked for: ${line}`),
  ];
}

/** Vault and deposit addresses hold exactly the balances of all users plus the fees. */
async function holdingsDiffer({ stack, chain, people }: World): Promise<string[]> {
  const owed = new Map<string, bigint>();
  const owe = (asset: string, amount: bigint) => owed.set(asset, (owed.get(asset) ?? 0n) + amount);
  const findings: string[] = [];
  for (const { email, client } of people) {
    for (const balance of await client.custody.balances().all()) {
      if (balance.pending_balance !== 0n)
        findings.push(
          `${email}: ${balance.pending_balance} of ${nameOfRecord(balance)} are still pending`,
        );
      owe(nameOfRecord(balance), balance.balance + balance.pending_balance);
    }
    for (const match of await client.rfq.matches({ limit: 500 }).all()) owe(USDC, match.fee);
  }
  const addresses = (
    await Promise.all(people.map(({ client }) => client.custody.depositAddresses()))
  ).flat();
  const holders = [stack.deployment.vault, ...addresses.map(({ address }) => address as Address)];
  for (const asset of ASSETS) {
    const held = (await Promise.all(holders.map((holder) => chain.holding(asset, holder)))).reduce(
      (sum, one) => sum + one,
      0n,
    );
    const due = owed.get(nameOf(asset)) ?? 0n;
    if (held !== due)
      findings.push(`${nameOf(asset)}: the chain holds ${held}, people and fees have ${due}`);
  }
  return findings;
}

async function operatorObjects(world: World, restored: boolean): Promise<string[]> {
  const findings: string[] = [];
  // Safe casts: the results of the commands.
  const books = (await order(world, "reconcile")) as Reconciliation;
  if (!books.ok || !books.complete)
    findings.push(`the operator's reconciliation: ${JSON.stringify(books)}`);
  // More restores than are known are an error. A restore without its epoch would be `ok`.
  const options = { "known-restores": restored ? "1" : "0" };
  const audit = (await order(world, "audit verify", options)) as { verdict: string };
  if (audit.verdict !== (restored ? "lost_in_restore" : "ok"))
    findings.push(`the audit chain: ${JSON.stringify(audit)}`);
  const status = await serviceStatus(world);
  for (const one of status.chains) {
    if (one.halted !== null || one.payer_halted !== null)
      findings.push(`halted: ${JSON.stringify(one)}`);
  }
  for (const alert of status.alerts) {
    if (!EXPECTED_ALERTS.has(alert.kind))
      findings.push(`alert: ${alert.kind} ${alert.subject}: ${alert.detail}`);
  }
  return findings;
}
