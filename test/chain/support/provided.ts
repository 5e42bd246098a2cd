/** URL of an anvil that anvil.setup.ts started. */
export type AnvilUrl = string;

declare module "vitest" {
  interface ProvidedContext {
    /** One of each worker, because a test resets it. */
    anvilUrls: readonly AnvilUrl[];
    otherAnvilUrl: AnvilUrl;
  }
}
