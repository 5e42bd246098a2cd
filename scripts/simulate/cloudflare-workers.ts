/** The part of `cloudflare:workers` that the service imports. The loader hook puts it in place. */

export class DurableObject {
  readonly ctx: unknown;
  readonly env: unknown;
  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

export class WorkerEntrypoint extends DurableObject {}
