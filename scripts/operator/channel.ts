/** The way to the Worker's entrypoint `Operator`, of the local stack or of the deployed service. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { OFFLINE } from "../stack/bundle.ts";
import {
  callOperator,
  type OperatorRequest,
  type OperatorResponse,
} from "../stack/operator-call.ts";
import { DEFAULT_STACK_DIR, localKey, readOperatorFile } from "../stack/stack-file.ts";
import { readOperatorKey } from "./operator-key.ts";

/**
 * Signs an order and sends it. Throws if no response arrives, with a timeout only if one is given.
 */
type Call = (order: OperatorRequest, timeoutMs?: number) => Promise<OperatorResponse>;
export type Channel = { call: Call; close: () => Promise<void> };

export type Target = {
  /** Of deploy.<env>.json. Undefined: the local stack. */
  env?: string | undefined;
  dir: string | undefined;
};

export function openChannel(to: Target): Channel {
  if (to.env !== undefined) return openRemote(to.env);
  return { call: localCall(to.dir), close: async () => {} };
}

export function dirOf(dir: string | undefined): string {
  return dir ?? (process.env["RFQ_DIR"] || DEFAULT_STACK_DIR);
}

/** Reads the stack's file at each call, because a stack that starts again has another address. */
function localCall(given: string | undefined): Call {
  return async (order, timeoutMs) => {
    const dir = dirOf(given);
    const { url, keys } = readOperatorFile(dir);
    const signal = timeoutMs === undefined ? null : AbortSignal.timeout(timeoutMs);
    const send = (request: Request) => fetch(request, { signal });
    const key = localKey(keys, order.operator);
    return callOperator(send, url, key, order).catch((error: unknown) => {
      const cause =
        error instanceof Error && error.cause instanceof Error
          ? error.cause.message
          : String(error);
      throw error instanceof TypeError
        ? new Error(`The stack in ${dir} does not respond: ${cause}`)
        : error;
    });
  };
}

type Proxy = {
  env: { OPERATOR: { fetch(url: string, init: RequestInit): Promise<Response> } };
  dispose(): Promise<void>;
};

/** Uses a service binding, which wrangler opens with the operator's login at the first call. */
function openRemote(environment: string): Channel {
  let opened: Promise<Proxy> | undefined;
  const close = async () => {
    const proxy = opened;
    opened = undefined;
    await (await proxy?.catch(() => undefined))?.dispose();
  };
  const call = async (order: OperatorRequest): Promise<OperatorResponse> => {
    const { env } = await (opened ??= openProxy(environment));
    return callOperator(
      async (request) =>
        env.OPERATOR.fetch(request.url, {
          method: "POST",
          headers: request.headers,
          body: await request.text(),
        }),
      "http://operator.internal/",
      readOperatorKey(order.operator),
      order,
    );
  };
  return {
    close,
    // A binding that failed may stay broken, so the next call opens another one.
    call: async (order, timeoutMs) => {
      try {
        return await within(timeoutMs, call(order));
      } catch (error) {
        await close();
        throw error;
      }
    },
  };
}

/** A configuration that has only the entrypoint of the deployed Worker. It is never deployed. */
async function bindingOf(environment: string, root = process.cwd()): Promise<string> {
  const { readSettings, wranglerConfig } = await import("../deploy/settings.ts");
  const settings = readSettings(root, environment);
  const { name, account_id } = settings;
  const { compatibility_date } = wranglerConfig(root, environment, settings);
  const folder = join(root, ".wrangler");
  mkdirSync(folder, { recursive: true });
  const binding = join(folder, `operator.${name}.json`);
  const service = { binding: "OPERATOR", service: name, entrypoint: "Operator", remote: true };
  const config = { name: `${name}-operator`, account_id, compatibility_date, services: [service] };
  writeFileSync(binding, JSON.stringify(config));
  return binding;
}

async function openProxy(environment: string): Promise<Proxy> {
  Object.assign(process.env, OFFLINE);
  // Most commands do not need it, and it takes a second to load.
  const { getPlatformProxy } = await import("wrangler");
  return getPlatformProxy<Proxy["env"]>({
    configPath: await bindingOf(environment),
    persist: false,
  });
}

async function within<T>(timeoutMs: number | undefined, result: Promise<T>): Promise<T> {
  if (timeoutMs === undefined) return result;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`The service has not responded for ${timeoutMs / 1_000} s.`);
    timer = setTimeout(() => reject(error), timeoutMs);
  });
  return Promise.race([result, late]).finally(() => clearTimeout(timer));
}
