/** URL of an anvil that anvil.setup.ts started. */
export type AnvilUrl = string;

declare module "vitest" {
  interface ProvidedContext {
    anvilUrl: AnvilUrl;
    otherAnvilUrl: AnvilUrl;
  }
}
