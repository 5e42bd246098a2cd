/** URL of one of the anvils that anvil.setup.ts started. */
export type AnvilUrl = string;

declare module "vitest" {
  interface ProvidedContext {
    anvilUrl: AnvilUrl;
    otherAnvilUrl: AnvilUrl;
  }
}
