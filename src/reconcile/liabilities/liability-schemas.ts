/** What the proof of liabilities shows: the record of a day, and a user's path. */
import * as z from "zod";
import { venueOut } from "../../assets/asset-fields.ts";
import { described, timeOut, u256Out } from "../../http/fields.ts";

const asset = {
  venue_id: venueOut("Venue of the outcome token; null for USDC").nullable(),
  asset_id: described(z.string().nullable(), "Outcome token, as canonical 0x hex; null for USDC"),
};
const dayOut = described(z.iso.date(), "The UTC day of the record");
const chain = described(z.string(), "Name of the chain");
const hash = (description: string) => described(z.string(), `${description}, as 0x hex`);

const ChainBlock = z
  .object({
    chain,
    block: described(z.int(), "Number of the confirmed block"),
    block_hash: hash("Its hash"),
  })
  .meta({ id: "ChainBlock" });

export const ChainHolding = z
  .object({
    chain,
    issued: u256Out("Deposited there and not withdrawn, by the journal").meta({
      examples: ["0x174876e800"],
    }),
    settling: u256Out("Of it, what the vault has paid but the journal has not settled yet"),
    held: u256Out("What vaults and deposit addresses held after the block"),
  })
  .meta({ id: "ChainHolding" });

export const AssetLiability = z
  .object({
    ...asset,
    root: hash("Root of the tree over the users' balances"),
    total: u256Out("What is owed to the users, which is the sum of the tree"),
    leaves: described(z.int(), "Number of users with a balance"),
    fees: u256Out("What the service has earned, not in the total"),
    losses: u256Out("What the service has lost and owes itself"),
    pairs: u256Out("USDC that pairs hold for the tokens that they issued, not in the total"),
    issued_by_pairs: u256Out("Tokens that pairs issued, which no chain holds"),
    chains: described(z.array(ChainHolding), "The chains on which the asset was deposited"),
  })
  .meta({ id: "AssetLiability" });

export const Liabilities = z
  .object({
    day: dayOut,
    at: timeOut("The instant of the balances"),
    entry_id: described(z.int(), "The last entry of the ledger that the balances contain"),
    commit_group: described(z.int(), "The commit group after which all of this was so"),
    earlier: described(z.array(z.iso.date()), "Days of earlier records, newest first"),
    blocks: described(z.array(ChainBlock), "The blocks after which the holdings were read"),
    owed: described(z.array(AssetLiability), "All assets of which a user has a balance"),
  })
  .meta({ id: "Liabilities" });

const ProofStep = z
  .object({
    side: described(z.enum(["left", "right"]), "On which side the neighbour is"),
    sum: u256Out("Sum of the neighbour"),
    hash: hash("Hash of the neighbour"),
  })
  .meta({ id: "ProofStep" });

export const LiabilityProof = z
  .object({
    day: dayOut,
    ...asset,
    user_id: described(z.uuid(), "Your user id, which is part of the leaf"),
    amount: u256Out("Your balance: available, promised and pending together"),
    salt: hash("Part of the leaf. Nobody else has it"),
    path: described(z.array(ProofStep), "The neighbours on the way from your leaf to the root"),
  })
  .meta({ id: "LiabilityProof" });
