/** Proves once a day what is owed to the users. Cron calls it until the day's proof is published. */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { NOW } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { errorFields, log } from "../../platform/log.ts";
import { first, literal, sql } from "../../platform/sql.ts";
import { now, sleep } from "../../platform/time.ts";
import type { HoldingsAt } from "../check-holdings.ts";
import { buildSlice } from "./build-slice.ts";
import { canContinue, DAY_MS, type ProofBucket, type ProofRun, RUN_COLUMNS } from "./proof-run.ts";
import { publishProof, TotalWrong } from "./publish-proof.ts";
import { takeCut } from "./take-cut.ts";

/** Two accounts make a leaf. A slice takes D1 some 20 ms, and the thread as long. */
const SLICE_ACCOUNTS = 8_000;
/** So that building takes a tenth of D1's time. */
const PAUSE_MS = 300;
/** Of one call. Cron makes more of them. */
const CALL_MS = 8_000;
const LATE_MS = 2 * 3_600_000;

type Stores = { readonly DB: D1Database; readonly ARCHIVE: ProofBucket };

/**
 * Returns whether there is more to do. A failure is logged and tried again in the next minute, as
 * nothing else waits for it.
 */
export async function proveLiabilities(
  { DB: db, ARCHIVE: bucket }: Stores,
  settings: Config,
  holdingsAt: HoldingsAt,
  sliceAccounts = SLICE_ACCOUNTS,
): Promise<boolean> {
  try {
    for (const until = now() + CALL_MS; now() < until; await sleep(PAUSE_MS)) {
      const run = await first<ProofRun>(
        db,
        sql`SELECT ${RUN_COLUMNS} FROM liability_proofs p
          WHERE day = ${NOW} / ${literal(DAY_MS)} AND ${canContinue("p")}`,
      );
      if (run === undefined) await takeCut(db, settings, { bucket, holdingsAt }, sliceAccounts);
      else if (run.published_at !== null) return false;
      else if (run.slices * run.slice_accounts < run.accounts)
        await buildSlice(db, settings, { bucket, run });
      else {
        await publishProof(db, settings, { bucket, run });
        await clearAlert(db, "liabilities_late", "liabilities");
      }
    }
    return true;
  } catch (error) {
    log("warn", "liabilities.failed", errorFields(error));
    if (error instanceof TotalWrong || now() % DAY_MS > LATE_MS)
      await raiseAlert(db, "liabilities_late", "liabilities", String(error));
    return false;
  }
}
