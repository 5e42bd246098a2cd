/**
 * A receiver of what the service sends, for the tests in workerd, which cannot listen. Each path is
 * a receiver of its own. Its calls are read with GET, and PUT sets the status of its answers. The
 * path /order is what a shell and the operator's tool make of the command in the body.
 */
import { execFileSync } from "node:child_process";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { parseCommand } from "../../../scripts/operator/commands.ts";
import type { Received } from "./received.ts";

type Path = { answer: number; readonly received: Received[] };

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = receivingServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  // Safe cast: a server of TCP has such an address.
  const { port } = server.address() as AddressInfo;
  project.provide("receiverUrl", `http://127.0.0.1:${port}`);
  return async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  };
}

/** Answers 0 by cutting the connection, and 1 never. */
function receivingServer(): Server {
  const paths = new Map<string, Path>();
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { method, url = "" } = request;
    const path = paths.get(url) ?? { answer: 200, received: [] };
    paths.set(url, path);
    if (method === "GET") return response.end(JSON.stringify(path.received));
    const body = await textOf(request);
    if (url === "/order") return response.end(JSON.stringify(readOrder(body)));
    if (method === "PUT") {
      path.answer = Number(body);
      return response.end();
    }
    // Safe cast: no header is sent twice.
    const headers = request.headers as Record<string, string>;
    path.received.push({ headers, body, at: Date.now() });
    if (path.answer === 0) return request.socket.destroy();
    if (path.answer === 1) return;
    const location = path.answer >= 300 && path.answer < 400 && { location: "/elsewhere" };
    return response.writeHead(path.answer, { ...location }).end("body");
  };
  return createServer((request, response) => void answer(request, response));
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
  return text;
}

function readOrder(text: string): object {
  try {
    return parseCommand(wordsOf(text));
  } catch (error) {
    return { help: true, text: String(error) };
  }
}

/** Of `npm run operator -- <words>`. */
function wordsOf(command: string): string[] {
  const script = `set -- ${command}; [ "$1 $2 $3 $4" = "npm run operator --" ] || exit 1; shift 4
    printf '%s\\0' "$@"`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
}
