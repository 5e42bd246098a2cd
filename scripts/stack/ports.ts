/** Ports on loopback. */
import { createServer } from "node:net";
import { SetupError } from "./setup-error.ts";

/** The port in the variable, or the fallback if it is not set. Throws if the value is no port. */
export function portFrom(variable: string, fallback: number): number {
  const text = process.env[variable];
  if (text === undefined || text === "") return fallback;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) {
    throw new SetupError(`${variable} is "${text}", which is not a port (1 to 65535).`);
  }
  return port;
}

/** Throws if this process cannot listen on each of the ports, which are named by variable. */
export async function requireFreePorts(ports: Readonly<Record<string, number>>): Promise<void> {
  const names = Object.keys(ports);
  const same = names.find((name, at) =>
    names.some((other, to) => to > at && ports[name] === ports[other]),
  );
  if (same !== undefined)
    throw new SetupError(`${names.join(" and ")} are both ${ports[same]}. Choose two ports.`);
  for (const [variable, port] of Object.entries(ports)) await requireFreePort(port, variable);
}

async function requireFreePort(port: number, variable: string): Promise<void> {
  if ((await listenOnce(port)) !== null) return;
  const other = `${variable}=${port + 10}`;
  throw new SetupError(
    `Port ${port} is taken. Free it, or choose another one with ${variable}, for example ${other}.`,
  );
}

export async function freePort(): Promise<number> {
  const port = await listenOnce(0);
  if (port === null) throw new Error("no free port on 127.0.0.1");
  return port;
}

function listenOnce(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(null));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        resolve(address !== null && typeof address === "object" ? address.port : null),
      );
    });
  });
}
