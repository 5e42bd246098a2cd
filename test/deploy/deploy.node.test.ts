/** What `npm run wrangler` passes on. test/journeys/deploy.test.ts deploys by the real wrangler. */
import { expect, it } from "vitest";
import { readCommand } from "../../scripts/deploy/wrangler-command.ts";

it.each([
  ["secret put RPC_URLS", undefined],
  ["secret put RPC_URLS --env staging", "secret put RPC_URLS"],
  ["deploy", undefined],
  ["deploy --dry-run", "deploy --dry-run"],
  ["d1 execute DB --remote --command x", undefined],
  ["d1 execute DB --local --command x", "d1 execute DB --local --command x"],
  // Without --remote wrangler writes to this machine, and says that it is done.
  ["d1 execute DB --command x --env=staging", "d1 execute DB --command x --remote"],
  ["r2 object put a/b --file c --env staging", "r2 object put a/b --file c --remote"],
  ["d1 migrations apply DB --env staging", undefined],
  ["rollback", undefined],
  ["whoami", "whoami"],
])("wrangler %s means one deployment, or is refused", (given, means) => {
  const { refused, args } = readCommand(given.split(" "));
  expect(refused === undefined ? args.join(" ") : undefined).toBe(means);
});
