import { log } from "./log.ts";

/** Named points between two lines at which a test may stop the process for good, to kill it there. */
export type FaultPoint = "rfq.match_committed";

/**
 * Stops here for ever if the test's binding TEST_FAULTS names the point; the log says that it was reached. No setting of
 * a deployment leads here: without the binding this is one look at a property.
 */
export async function faultPoint(env: object, point: FaultPoint): Promise<void> {
  if (!("TEST_FAULTS" in env) || typeof env.TEST_FAULTS !== "string") return;
  if (!env.TEST_FAULTS.split(",").includes(point)) return;
  log("warn", "fault_point_reached", { point });
  await new Promise(() => {});
}
