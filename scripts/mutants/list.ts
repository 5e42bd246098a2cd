/**
 * Small wrong changes of the code that decides about money, each of which a test must notice. Most
 * drop or weaken one condition of a guard, a trigger, the fence, or the order of checks.
 *
 * `tests` are the files that concern the mutant; it is caught if one of them fails. Snapshots of
 * SQL are left out, because they fail for any change.
 */
import { ARCHIVE_MUTANTS } from "./archive.ts";
import { AUDIT_MUTANTS } from "./audit.ts";
import { AUTH_MUTANTS } from "./auth.ts";
import { CUSTODY_MUTANTS } from "./custody.ts";
import { LEDGER_MUTANTS } from "./ledger.ts";
import { PLATFORM_MUTANTS } from "./platform.ts";
import { PROTECTION_MUTANTS } from "./protection.ts";
import { QUOTE_MUTANTS } from "./quotes.ts";
import { RFQ_MUTANTS } from "./rfq.ts";
import { SCHEMA_MUTANTS } from "./schema.ts";
import { STREAMS_MUTANTS } from "./streams.ts";
import type { Mutant } from "./mutant.ts";

export const MUTANTS: readonly Mutant[] = [
  ...ARCHIVE_MUTANTS,
  ...AUDIT_MUTANTS,
  ...AUTH_MUTANTS,
  ...CUSTODY_MUTANTS,
  ...LEDGER_MUTANTS,
  ...PLATFORM_MUTANTS,
  ...PROTECTION_MUTANTS,
  ...QUOTE_MUTANTS,
  ...RFQ_MUTANTS,
  ...SCHEMA_MUTANTS,
  ...STREAMS_MUTANTS,
];
