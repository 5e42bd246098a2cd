/** Ports on loopback: which ones to use, and a plain word when one is taken. */
import { createServer } from "node:net";

export class PortTaken extends Error {
  constructor(port: number, variable: string) {
    super(
      `Port ${port} is taken. Free it, or choose another one with ${variable}, for example ${variable}=${port + 10}.`,
    );
    this.name = "PortTaken";
  }
}

/** The variable's port, else the fallback. Throws when the variable is not a port. */
export function portFrom(variable: string, fallback: number): number {
  const text = process.env[variable];
  if (text === undefined || text === "") return fallback;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) {
    throw new Error(`${variable} is "${text}", which is not a port (1 to 65535).`);
  }
  return port;
}

/** Throws PortTaken when something listens on the port, or nobody may. */
export async function requireFreePort(port: number, variable: string): Promise<void> {
  if ((await listenOnce(port)) === null) throw new PortTaken(port, variable);
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
