/**
 * Builds the client that examples and README blocks import. Once, before any journey starts,
 * because the build first removes what it made before.
 */
import { execFileSync } from "node:child_process";

export default function setup(): void {
  execFileSync("npm", ["run", "-s", "build:client"]);
}
