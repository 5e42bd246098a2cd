/**
 * Failpoints are the named places at which a kill test ends the process. The Worker sends the name
 * to the test's server, which leaves the request open, and the test kills workerd while it waits.
 *
 * FAILPOINTS is a constant of the build: false in wrangler.toml, and true only in the bundle of the
 * kill tests. A deployed bundle therefore has no code that calls FAILPOINT_URL.
 */
declare const FAILPOINTS: boolean;

export type Failpoint = (name: string) => Promise<void>;

/** Undefined unless a kill test started this Worker. */
export function failpointOf(env: object): Failpoint | undefined {
  return FAILPOINTS ? callTest(env) : undefined;
}

/** A function of its own, because the bundler removes whole functions but no dead branches. */
function callTest(env: object): Failpoint | undefined {
  const url: unknown = Reflect.get(env, "FAILPOINT_URL");
  if (typeof url !== "string") return undefined;
  return async (name) => {
    await fetch(`${url}?name=${encodeURIComponent(name)}`);
  };
}
