/**
 * wrangler as a library. It logs as the command does, with warnings that mean nothing here, such as
 * missing secrets. So only its errors are printed, unless WRANGLER_LOG says otherwise.
 */
process.env["WRANGLER_LOG"] ??= "error";

export {
  experimental_readRawConfig,
  unstable_getMiniflareWorkerOptions,
  unstable_readConfig,
  unstable_splitSqlQuery,
} from "wrangler";
