import { address, positiveU256, u256 } from "../assets/asset-fields.ts";
import { type MistakenTransfer, planRescue } from "../chain/plan-rescue.ts";
import { ERC1155, ERC20, NATIVE_COIN } from "../chain/token.ts";
import { chainNamed } from "../custody/check-destination.ts";
import { blob, expr, scalar } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  badOption,
  fieldOption,
  type OperatorContext,
  option,
  optional,
  optionalField,
} from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Prints the admin's calls that send a mistaken transfer on, and the next. Changes nothing. */
export async function rescue(context: OperatorContext): Promise<unknown> {
  const chain = chainNamed(context.settings, optional(context, "chain"));
  const transfer: MistakenTransfer = {
    chain,
    asset: assetOption(context),
    to: fieldOption(context, "to", address),
    amount: fieldOption(context, "amount", positiveU256),
    from: await depositAddressOption(context, chain.chain),
  };
  const plan = await planRescue(context.settings, transfer);
  if ("refused" in plan) throw new OperatorRejection("rescue_refused", plan.refused);
  const { reason, next, executable, calls } = plan;
  // The only reason that passes with time.
  const waits = next === "rescue" && reason?.startsWith("TooEarly") === true;
  if (reason !== null && !waits)
    throw new OperatorRejection("rescue_refused", `${next} would revert: ${reason}`);
  return {
    chain: chain.chain,
    vault: chain.vault,
    held: plan.held.toString(),
    next,
    ready: reason === null,
    executable_from: executable === null ? null : toWireTime(Number(executable.from) * 1_000),
    executable_until: executable === null ? null : toWireTime(Number(executable.until) * 1_000),
    calls,
  };
}

function assetOption(context: OperatorContext): MistakenTransfer["asset"] {
  if (option(context, "token") === "native") return NATIVE_COIN;
  const token = fieldOption(context, "token", address);
  const tokenId = optionalField(context, "token-id", u256);
  return tokenId === undefined
    ? { kind: ERC20, token, tokenId: 0n }
    : { kind: ERC1155, token, tokenId };
}

/** `--from`, with the salt of the deposit address. */
async function depositAddressOption(
  context: OperatorContext,
  chain: string,
): Promise<MistakenTransfer["from"]> {
  const from = optionalField(context, "from", address);
  if (from === undefined) return undefined;
  const salt = await scalar<string | null>(
    context.env.DB,
    expr`SELECT lower(hex(salt)) FROM deposit_addresses
      WHERE chain = ${chain} AND address = ${blob(from)}`,
  );
  if (salt !== null) return { address: from, salt: `0x${salt}` };
  throw badOption("from", `must be a deposit address of ${chain}`);
}
