/** The sealer, which scans what it is about to seal if cron's reconciliation is behind. */
import { ArchiveSealer } from "../archive/sealer.ts";
import { config } from "../platform/config.ts";
import { scanRecent } from "./reconcile.ts";

export class Sealer extends ArchiveSealer {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, (own, chunks) => scanRecent(own.DB, { macKeys: config(own) }, chunks));
  }
}
